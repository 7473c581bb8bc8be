"""obstore, set up for one bucket; nobody imports this module before it is needed."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from datetime import timedelta
from pathlib import Path
from typing import TYPE_CHECKING, Any
from urllib.parse import urlsplit

import obstore
from obstore.store import AzureStore, GCSStore

from podtune.protocol.store_secret import (
    ACCOUNT_KEY,
    CLIENT_ID,
    CLIENT_SECRET,
    OF_AZURE,
    OF_GCS,
    SAS_TOKEN,
    SERVICE_ACCOUNT_KEY,
    TENANT_ID,
)
from podtune.storage.address import AzureAddress, GcsAddress
from podtune.storage.cloud.errors import KEYS, CloudAddress
from podtune.storage.content import PIECE
from podtune.storage.errors import InvalidCredentials, StoreSettingsError
from podtune.storage.mounted_secret import read_secret
from podtune.storage.patience import Patience

if TYPE_CHECKING:
    from obstore import WritableFile
    from obstore.store import ClientConfig, ObjectStore, RetryConfig

CLOUD_PATIENCE = Patience(connect=5, silence=60, tries=4)
"""Of agents, which nobody waits for. A server is silent while it takes in what it is sent."""
_REQUEST_TIMEOUT = timedelta(hours=6)
"""How long an object may take to be read, whole."""
_RETRY: RetryConfig = {
    "retry_timeout": timedelta(seconds=120),
    "backoff": {"init_backoff": timedelta(milliseconds=200), "max_backoff": timedelta(seconds=5), "base": 2},
}
"""How obstore waits between tries, with jitter."""
PARTS_AT_ONCE = 3
_PAGE = 1000


class CloudClient:
    """The requests of a store, each as obstore makes it, and with its errors."""

    def __init__(self, store: ObjectStore) -> None:
        """Wraps what obstore calls a store."""
        self._store = store

    def put(self, key: str, data: bytes) -> None:
        """Stores an object in one request."""
        obstore.put(self._store, key, data, use_multipart=False)

    def open_writer(self, key: str, part_size: int) -> WritableFile:
        """Begins to store an object in parts, some of them at a time; it is there when the writer is closed."""
        return obstore.open_writer(self._store, key, buffer_size=part_size, max_concurrency=PARTS_AT_ONCE)

    def get(self, key: str, start: int, size: int | None) -> Iterator[bytes]:
        """An object's content, or a range of it."""
        if start == 0 and size is None:
            found = obstore.get(self._store, key)
        elif size is None:
            found = obstore.get(self._store, key, options={"range": {"offset": start}})
        else:
            found = obstore.get(self._store, key, options={"range": (start, start + size)})
        yield from map(bytes, found.stream(min_chunk_size=PIECE))

    def head(self, key: str) -> None:
        """Asks for an object; its content isn't sent."""
        obstore.head(self._store, key)

    def list(self, prefix: str) -> Iterator[str]:
        """The keys that start with a prefix, which ends with a slash."""
        for page in obstore.list(self._store, prefix.rstrip("/") or None, chunk_size=_PAGE):
            yield from (item["path"] for item in page)

    def delete(self, keys: Sequence[str]) -> None:
        """Deletes objects; what is missing is an error, and others may then be left."""
        obstore.delete(self._store, keys)

    def copy(self, source: str, key: str) -> None:
        """Has the server copy an object."""
        obstore.copy(self._store, source, key)


def make_cloud_client(
    address: CloudAddress, credentials: dict[str, str], patience: Patience | None = None
) -> CloudClient:
    """A client that connects to nothing yet.

    Args:
        address: The bucket.
        credentials: What its Secret holds; empty where none is named.
        patience: How long its server may take; as agents wait for it, where None is given.
    """
    patience = patience or CLOUD_PATIENCE
    retry: RetryConfig = {**_RETRY, "max_retries": patience.tries - 1}
    shared: dict[str, Any] = {"client_options": _make_options(address, patience), "retry_config": retry}
    if isinstance(address, GcsAddress):
        return CloudClient(GCSStore(address.bucket, config=_configure_gcs(address, credentials), **shared))
    return CloudClient(AzureStore(address.container, config=_configure_azure(address, credentials), **shared))


def read_credentials(address: CloudAddress) -> dict[str, str]:
    """What the Secret of a bucket holds now; empty where none is named.

    Raises:
        InvalidCredentials: It lacks a key.
    """
    if not address.credentials:
        return {}
    directory = Path(address.credentials)
    found = read_secret(directory, OF_GCS if isinstance(address, GcsAddress) else OF_AZURE)
    if not _is_complete(found):
        keys = KEYS[type(address)]
        raise InvalidCredentials(
            f"Secret {directory.name!r} is missing or lacks {keys}; create it, and running agents will read it within "
            "two minutes"
        )
    return found


def _is_complete(found: dict[str, str]) -> bool:
    sets = ((SERVICE_ACCOUNT_KEY,), (ACCOUNT_KEY,), (SAS_TOKEN,), (TENANT_ID, CLIENT_ID, CLIENT_SECRET))
    return any(all(found.get(key) for key in keys) for keys in sets)


def _configure_gcs(address: GcsAddress, credentials: dict[str, str]) -> Any:
    config = {"base_url": address.endpoint.rstrip("/")} if address.endpoint else {}
    if credentials:
        config["service_account_key"] = credentials[SERVICE_ACCOUNT_KEY]
    return config


def _configure_azure(address: AzureAddress, credentials: dict[str, str]) -> Any:
    """The kind of credentials is named: else obstore prefers some that the environment may hold."""
    config = {"account_name": address.account} if address.account else {}
    if address.endpoint:
        config["endpoint"] = add_account(address.endpoint.rstrip("/"), address.account)
    if not credentials:
        return config
    if credentials[ACCOUNT_KEY]:
        return {**config, "account_key": credentials[ACCOUNT_KEY], "credential_type": "access_key"}
    if credentials[SAS_TOKEN]:
        return {**config, "sas_key": credentials[SAS_TOKEN].removeprefix("?"), "credential_type": "sas_token"}
    return {
        **config,
        "tenant_id": credentials[TENANT_ID],
        "client_id": credentials[CLIENT_ID],
        "client_secret": credentials[CLIENT_SECRET],
        "credential_type": "client_secret",
    }


def add_account(endpoint: str, account: str) -> str:
    """An endpoint whose host is not called after the account serves several: their names are in the path."""
    return endpoint if (urlsplit(endpoint).hostname or "").startswith(f"{account}.") else f"{endpoint}/{account}"


def _make_options(address: CloudAddress, patience: Patience) -> ClientConfig:
    options: ClientConfig = {
        "connect_timeout": timedelta(seconds=patience.connect),
        "read_timeout": timedelta(seconds=patience.silence),
        "timeout": _REQUEST_TIMEOUT,
        "user_agent": "podtune",
        "allow_http": (address.endpoint or "").startswith("http://"),
    }
    if address.ca_file:
        try:
            options["root_certificate"] = Path(address.ca_file).read_bytes()
        except OSError as error:
            raise StoreSettingsError(
                f"the certificates for {address.where} can't be read: {error.strerror}; correct "
                "checkpoints.store.caBundle"
            ) from error
    return options
