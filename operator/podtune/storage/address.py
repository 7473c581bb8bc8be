"""Where a store is and how it is reached; the one place that makes URIs of what it holds, and reads them."""

from __future__ import annotations

import dataclasses
import json
from abc import ABC, abstractmethod
from collections.abc import Mapping
from typing import Any

from podtune.protocol.agent_environment import STORE_DIRECTORY
from podtune.storage.errors import StoreSettingsError

_CHOICES = {"addressing": ("Auto", "Path", "VirtualHost"), "wire_checksums": ("whenRequired", "whenSupported")}


class StoreAddress(ABC):
    """A store, and a prefix in it; each kind of store has an address of its own, all of whose fields are texts.

    Attributes:
        prefix: Put before every key, without slashes at its ends.
    """

    __slots__ = ()
    prefix: str

    @property
    @abstractmethod
    def uri(self) -> str:
        """The store's own URI, such as `s3://models`: a slash and a key after it make an object's."""

    @property
    @abstractmethod
    def where(self) -> str:
        """The store and its server, for messages."""

    def experiment_prefix(self, uid: str) -> str:
        """What all keys of an experiment start with; it ends with a slash."""
        return "/".join(chunk for chunk in (self.prefix, uid) if chunk) + "/"

    def holds(self, uri: str) -> bool:
        """Whether an URI is of something in this store."""
        return uri.startswith(f"{self.uri}/")

    def find_key(self, uri: str) -> str:
        """The key that an URI means.

        Raises:
            StoreSettingsError: It is of another store, or means no key.
        """
        if not self.holds(uri):
            raise StoreSettingsError(f"{uri!r} is not in the store, {self.uri}")
        return _check_key(uri.removeprefix(f"{self.uri}/"), uri, self.uri)

    def find_sibling(self, uri: str) -> tuple[StoreAddress, str]:
        """The store that an URI is of, which is this one or is reached in the same way, and the key that it means.

        Raises:
            StoreSettingsError: The store can't be reached so, or the URI means no key.
        """
        return self, self.find_key(uri)


class _WithSecret(StoreAddress):
    """A store that is reached with a Secret's credentials, or without a Secret.

    Attributes:
        credentials: Directory in which the Secret is mounted, called as the Secret is; empty where there is none.
    """

    __slots__ = ()
    credentials: str

    @property
    def secret(self) -> str:
        """Name of the Secret that the credentials come from; empty where there is none."""
        return self.credentials.rpartition("/")[2]


@dataclasses.dataclass(frozen=True, slots=True)
class S3Address(_WithSecret):
    """An S3-compatible bucket.

    Attributes:
        bucket: Its name.
        endpoint: URL of the server; AWS when None.
        region: Region of the bucket.
        addressing: Where the bucket's name stands: `Path`, `VirtualHost`, or `Auto`, which takes the path unless the
            server is AWS.
        ca_file: File with authorities that are believed instead of the system's; none when empty.
        kms_key: The key of AWS KMS that objects are encrypted with; the bucket's own rule when empty.
        wire_checksums: Whether objects are sent with a checksum that the store keeps: `whenSupported` or
            `whenRequired`. Either way every request is signed with the SHA-256 of its body.
        credentials: Directory in which the Secret with the credentials is mounted, called as the Secret is; when empty,
            credentials are looked for as the SDK does it.
    """

    bucket: str
    prefix: str = ""
    endpoint: str | None = None
    region: str = "us-east-1"
    addressing: str = "Auto"
    ca_file: str = ""
    kms_key: str = ""
    wire_checksums: str = "whenRequired"
    credentials: str = ""

    @property
    def uri(self) -> str:
        """See `StoreAddress.uri`."""
        return f"s3://{self.bucket}"

    @property
    def where(self) -> str:
        """See `StoreAddress.where`."""
        return f"bucket {self.bucket!r} at {self.endpoint or f'AWS ({self.region})'}"

    def find_sibling(self, uri: str) -> tuple[S3Address, str]:
        """See `StoreAddress.find_sibling`; the server's other buckets are siblings."""
        bucket, key = _split_bucket(uri, "s3")
        return dataclasses.replace(self, bucket=bucket), key


@dataclasses.dataclass(frozen=True, slots=True)
class GcsAddress(_WithSecret):
    """A bucket of Google Cloud Storage.

    Attributes:
        bucket: Its name.
        endpoint: URL of the server; Google's when None.
        ca_file: File with authorities that are believed besides the system's; none when empty.
        credentials: Directory in which the Secret with the credentials is mounted, called as the Secret is; when empty,
            they are those of the pod's service account, or what is set up on a workstation.
    """

    bucket: str
    prefix: str = ""
    endpoint: str | None = None
    ca_file: str = ""
    credentials: str = ""

    @property
    def uri(self) -> str:
        """See `StoreAddress.uri`."""
        return f"gs://{self.bucket}"

    @property
    def where(self) -> str:
        """See `StoreAddress.where`."""
        return f"bucket {self.bucket!r} at {self.endpoint or 'Google Cloud Storage'}"

    def find_sibling(self, uri: str) -> tuple[GcsAddress, str]:
        """See `StoreAddress.find_sibling`; other buckets are siblings."""
        bucket, key = _split_bucket(uri, "gs")
        return dataclasses.replace(self, bucket=bucket), key


@dataclasses.dataclass(frozen=True, slots=True)
class AzureAddress(_WithSecret):
    """A container of Azure Blob Storage.

    Attributes:
        container: Its name.
        account: Name of the storage account.
        endpoint: URL of the server; that of the account at Azure when None.
        ca_file: File with authorities that are believed besides the system's; none when empty.
        credentials: Directory in which the Secret with the credentials is mounted, called as the Secret is; when empty,
            they are those of the pod's service account, or what is set up on a workstation.
    """

    container: str
    account: str
    prefix: str = ""
    endpoint: str | None = None
    ca_file: str = ""
    credentials: str = ""

    @property
    def uri(self) -> str:
        """See `StoreAddress.uri`; as is usual, it does not name the account."""
        return f"az://{self.container}"

    @property
    def where(self) -> str:
        """See `StoreAddress.where`."""
        at = self.endpoint or f"Azure account {self.account!r}"
        return f"container {self.container!r} at {at}"

    def find_sibling(self, uri: str) -> tuple[AzureAddress, str]:
        """See `StoreAddress.find_sibling`; the account's other containers are siblings."""
        container, key = _split_bucket(uri, "az")
        return dataclasses.replace(self, container=container), key


@dataclasses.dataclass(frozen=True, slots=True)
class VolumeAddress(StoreAddress):
    """A volume that is mounted here.

    Attributes:
        claim: Name of its PersistentVolumeClaim.
        directory: Where it is mounted.
    """

    claim: str
    prefix: str = ""
    directory: str = STORE_DIRECTORY

    @property
    def uri(self) -> str:
        """See `StoreAddress.uri`."""
        return f"volume://{self.claim}"

    @property
    def where(self) -> str:
        """See `StoreAddress.where`."""
        return f"the volume of claim {self.claim!r}"


@dataclasses.dataclass(frozen=True, slots=True)
class FileAddress(StoreAddress):
    """A directory of this machine, for tests and for what somebody has downloaded; no cluster has such a store.

    Attributes:
        directory: Its absolute path.
    """

    directory: str
    prefix: str = ""

    @property
    def uri(self) -> str:
        """See `StoreAddress.uri`."""
        return f"file://{self.directory.rstrip('/')}"

    @property
    def where(self) -> str:
        """See `StoreAddress.where`."""
        return f"directory {self.directory!r}"


@dataclasses.dataclass(frozen=True, slots=True)
class PluginAddress(_WithSecret):
    """A store that another package provides.

    Attributes:
        name: Name of its entry point.
        settings: JSON object of what it is told.
        credentials: Directory in which its Secret is mounted, called as the Secret is; empty where there is none.
    """

    name: str
    prefix: str = ""
    settings: str = "{}"
    credentials: str = ""

    @property
    def uri(self) -> str:
        """See `StoreAddress.uri`."""
        return f"plugin://{self.name}"

    @property
    def where(self) -> str:
        """See `StoreAddress.where`."""
        return f"store plugin {self.name!r}"


AnyAddress = S3Address | GcsAddress | AzureAddress | VolumeAddress | FileAddress | PluginAddress
_KINDS: Mapping[str, type[AnyAddress]] = {
    "s3": S3Address,
    "gcs": GcsAddress,
    "azure": AzureAddress,
    "volume": VolumeAddress,
    "file": FileAddress,
    "plugin": PluginAddress,
}


def parse_store_address(text: str) -> StoreAddress:
    """Reads a JSON object of an address's `kind`, "s3" where it is missing, and its attributes.

    Attributes that have a default may be missing or null.

    Raises:
        StoreSettingsError: It is not that; the message names the field.
    """
    try:
        body = json.loads(text)
    except ValueError as error:
        raise StoreSettingsError(f"the store's settings are not JSON: {error}") from error
    if not isinstance(body, dict):
        raise StoreSettingsError("the store's settings are not a JSON object")
    kind = body.get("kind") or "s3"
    if not isinstance(kind, str) or kind not in _KINDS:
        raise StoreSettingsError(f"the store's kind is {kind!r}, which this agent does not know: its image is too old")
    return _parse_fields(_KINDS[kind], body)


def _parse_fields(kind: type[AnyAddress], body: Mapping[str, Any]) -> StoreAddress:
    fields = dataclasses.fields(kind)
    values = {field.name: body[field.name] for field in fields if body.get(field.name) is not None}
    for name, value in values.items():
        if not isinstance(value, str):
            raise StoreSettingsError(f"the store's {name} is {value!r}, which is not a string")
    for field in fields:
        if field.default is dataclasses.MISSING and not values.get(field.name):
            raise StoreSettingsError(f"the store's {field.name} is missing; name an existing {field.name}")
    for name, known in _CHOICES.items():
        if values.get(name, known[0]) not in known:
            raise StoreSettingsError(f"the store's {name} is {values[name]!r}; write one of {', '.join(known)}")
    return kind(**values)


def _split_bucket(uri: str, scheme: str) -> tuple[str, str]:
    """The bucket that an URI names, and the key in it."""
    bucket, _, key = uri.removeprefix(f"{scheme}://").partition("/")
    if not uri.startswith(f"{scheme}://") or not bucket:
        raise StoreSettingsError(f"{uri!r} is not an address in a bucket; write it like {scheme}://bucket/path")
    return bucket, _check_key(key, uri, f"{scheme}://{bucket}")


def _check_key(key: str, uri: str, store: str) -> str:
    """A key is used as a path: none of its parts may be empty or lead elsewhere."""
    if any(part in ("", ".", "..") for part in key.split("/")):
        raise StoreSettingsError(f"{uri!r} means nothing in the store; write it like {store}/path")
    return key
