"""The store of an experiment, opened with the rights of whoever runs the command; the operator takes no part in it."""

from __future__ import annotations

import base64
import json
import os
import tempfile
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from importlib.util import find_spec
from pathlib import Path
from typing import Any

from podtune.cli.client.api_client import Api
from podtune.cli.client.resources import ExperimentView
from podtune.cli.client.run_directory import RunDirectoryApi
from podtune.cli.client.volume_access import find_user, open_volume_of
from podtune.cli.errors import CliError, explain_error
from podtune.cli.output import print_note
from podtune.kube import paths
from podtune.kube.errors import ApiRefusal
from podtune.protocol.store_secret import OF_AZURE, OF_GCS, OF_S3
from podtune.storage.address import (
    AnyAddress,
    AzureAddress,
    FileAddress,
    GcsAddress,
    PluginAddress,
    S3Address,
    StoreAddress,
    VolumeAddress,
)
from podtune.storage.errors import ClockSkewed, StoreError, Unreachable
from podtune.storage.object_store import ReadableStore
from podtune.storage.patience import Patience
from podtune.storage.stores import make_store

_Remote = S3Address | GcsAddress | AzureAddress | PluginAddress
_ACCOUNT = "AZURE_STORAGE_ACCOUNT_NAME"
_LIBRARIES: Mapping[type[AnyAddress], str] = {S3Address: "boto3", GcsAddress: "obstore", AzureAddress: "obstore"}
_SECRET_KEYS: Mapping[type[AnyAddress], Sequence[str]] = {S3Address: OF_S3, GcsAddress: OF_GCS, AzureAddress: OF_AZURE}
"""What is taken of a store's Secret; of a plugin's, all."""


@dataclass(frozen=True, slots=True)
class StoreOptions:
    """How a store is reached, where that differs from what its Experiment says.

    Attributes:
        endpoint: URL of its server, in the place of the Experiment's; empty where none is given.
        region: Region of the bucket, likewise.
        own_credentials: Whether the caller's own credentials are used, whatever Secret the Experiment names.
        agent_image: The agent's image, from which the pod that reads a volume is made; empty for the operator's.
        patience: How long a bucket's server may take; None for as long as agents wait for it.
    """

    endpoint: str = ""
    region: str = ""
    own_credentials: bool = False
    agent_image: str = ""
    patience: Patience | None = None


@dataclass(frozen=True, slots=True)
class OpenedStore:
    """A store that can be read, and where it is."""

    store: ReadableStore
    address: AnyAddress


@contextmanager
def open_experiment_store(api: Api, experiment: ExperimentView, options: StoreOptions) -> Iterator[OpenedStore]:
    """Opens the store of an Experiment.

    Its Secret is read with the caller's rights. Where they do not allow that, the caller's own credentials are
    tried. What was read lies in a directory that nobody else can read, and that is deleted at the end. A volume is read
    through a pod, see `open_volume_of`.

    Args:
        api: The API server.
        experiment: The Experiment.
        options: What the command line says.

    Raises:
        CliError: It has no store, or what is needed to open it is missing.
        ApiError: The server can't say.
    """
    store, namespace = (experiment.spec.get("checkpoints") or {}).get("store"), experiment.namespace
    if not store:
        raise CliError(f"experiment {experiment.name} has no checkpoints.store, so nothing of it is stored")
    if isinstance(api, RunDirectoryApi):
        yield open_address(FileAddress(str(api.store), store.get("prefix") or ""))
        return
    if store.get("volume"):
        volume = VolumeAddress(store["volume"]["claimName"], store.get("prefix") or "")
        with open_volume_of(api, namespace, volume, experiment, options.agent_image) as opened:
            yield OpenedStore(opened, volume)
        return
    with tempfile.TemporaryDirectory(prefix="podtune-") as files:
        address = read_bucket_address(store, options)
        bundle, secret = store.get("caBundle"), store.get("credentialsSecret")
        if bundle and not isinstance(address, PluginAddress):
            address = replace(address, ca_file=_write_authorities(api, namespace, bundle, Path(files)))
        if secret and not options.own_credentials:
            keys = _SECRET_KEYS.get(type(address))
            address = replace(address, credentials=_write_credentials(api, namespace, secret, keys, Path(files)))
        yield open_address(address, options.patience)


@contextmanager
def open_store_of(uri: str, options: StoreOptions, open_api: Callable[[], tuple[Api, str]]) -> Iterator[OpenedStore]:
    """Opens the store that an URI is of: a bucket with the caller's own credentials.

    Args:
        uri: The URI.
        options: What the command line says.
        open_api: Opens the API server, and says which namespace is meant: that of the claim, where it is on a volume.

    Raises:
        CliError: It is of a plugin, or what is needed to open it is missing.
        StoreSettingsError: It is in no store.
        ApiError: The server can't say.
    """
    volume = VolumeAddress(uri.partition("://")[2].partition("/")[0])
    if volume.holds(uri):
        api, namespace = open_api()
        user = find_user(api, namespace, volume.find_key(uri), volume.claim)
        with open_volume_of(api, namespace, volume, user, options.agent_image) as opened:
            yield OpenedStore(opened, volume)
        return
    yield open_address(_find_address(uri, options))


def find_store_uri(store: Mapping[str, Any]) -> str:
    """The URI of the store that an Experiment's `checkpoints.store` names, such as `s3://models`.

    Raises:
        CliError: It names none that is known.
    """
    if store.get("volume"):
        return VolumeAddress(store["volume"]["claimName"]).uri
    return read_bucket_address(store, StoreOptions()).uri


def _find_address(uri: str, options: StoreOptions) -> AnyAddress:
    """The store that an URI is of, which is no volume."""
    endpoint = options.endpoint or None
    match uri.partition("://")[0]:
        case "plugin":
            raise CliError(f"{uri} says nothing of the plugin's settings; name its Trial or Experiment instead")
        case "file":
            return FileAddress("/")
        case "gs":
            return GcsAddress("", endpoint=endpoint).find_sibling(uri)[0]
        case "az":
            account = os.environ.get(_ACCOUNT, "")
            if not account:
                raise CliError(f"{uri} does not say of which storage account it is; set {_ACCOUNT}")
            return AzureAddress("", account, endpoint=endpoint).find_sibling(uri)[0]
        case _:
            return S3Address("", **_list_given(options)).find_sibling(uri)[0]


def open_address(address: AnyAddress, patience: Patience | None = None) -> OpenedStore:
    """Opens a store; it is connected to when it is first read.

    Args:
        address: Where it is.
        patience: See `StoreOptions`.

    Raises:
        CliError: What reads such stores is not installed.
    """
    library = _LIBRARIES.get(type(address))
    if library is not None and find_spec(library) is None:
        raise CliError(f"{library}, which reads such stores, is not installed; pip install 'podtune[cli,store]'")
    return OpenedStore(make_store(address, patience), address)


def read_bucket_address(store: Mapping[str, Any], options: StoreOptions) -> _Remote:
    """The address of what an Experiment's `checkpoints.store` names, which is no volume; it has no credentials yet.

    Raises:
        CliError: It names none that is known.
    """
    prefix, endpoint = store.get("prefix") or "", options.endpoint or store.get("endpoint") or None
    if store.get("plugin"):
        return PluginAddress(store["plugin"]["name"], prefix, json.dumps(store["plugin"].get("settings") or {}))
    if store.get("gcs"):
        return GcsAddress(store["gcs"]["bucket"], prefix, endpoint)
    if store.get("azure"):
        return AzureAddress(store["azure"]["container"], store["azure"]["account"], prefix, endpoint)
    if not store.get("bucket"):
        raise CliError("checkpoints.store names no store that is known; use a later `podtune`, which knows it")
    known = {name: store[name] for name in ("bucket", "prefix", "endpoint", "region", "addressing") if store.get(name)}
    return S3Address(**known | _list_given(options))


def _list_given(options: StoreOptions) -> dict[str, str]:
    given = {"endpoint": options.endpoint, "region": options.region}
    return {name: value for name, value in given.items() if value}


def explain_store_error(error: StoreError, address: StoreAddress | None = None) -> CliError:
    """What a person is told of a store that did not do what was asked."""
    is_silent = isinstance(error, Unreachable) and not isinstance(error, ClockSkewed)
    has_name = is_silent and not isinstance(address, VolumeAddress)
    remedy = "; if only the cluster knows that name, give --endpoint" if has_name else ""
    return CliError(f"{error}{remedy}")


def _write_authorities(api: Api, namespace: str, bundle: Mapping[str, str], files: Path) -> str:
    """Writes the certificates of the store's authorities to a file; returns its path."""
    is_secret, name, key = bundle.get("kind") == "Secret", bundle["name"], bundle.get("key") or "ca.crt"
    data = api.get((paths.secret if is_secret else paths.config_map)(namespace, name)).get("data") or {}
    if key not in data:
        raise CliError(f"checkpoints.store.caBundle: {name!r} has no key {key!r}; correct it, or set AWS_CA_BUNDLE")
    file = files / "ca.crt"
    file.write_bytes(base64.b64decode(data[key]) if is_secret else data[key].encode())
    return str(file)


def _write_credentials(api: Api, namespace: str, secret: str, keys: Sequence[str] | None, files: Path) -> str:
    """Writes keys of a Secret, or all, as a kubelet mounts them; returns the directory, named after the Secret.

    Empty where the Secret can't be read: then the caller's own credentials are looked for.
    """
    try:
        data = api.get(paths.secret(namespace, secret)).get("data") or {}
    except ApiRefusal as error:
        print_note(f"Secret {secret} can't be read ({explain_error(error)}); your own credentials are used")
        return ""
    directory = files / secret
    directory.mkdir()
    for key, value in data.items():
        if keys is None or key in keys:
            (directory / key).write_bytes(base64.b64decode(value))
    return str(directory)
