"""The bucket of an experiment, opened with the rights of whoever runs the command; the operator takes no part in it."""

from __future__ import annotations

import base64
import tempfile
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, replace
from importlib.util import find_spec
from pathlib import Path
from typing import Any

from podtune.cli.client.api_client import Api
from podtune.cli.errors import CliError, explain_error
from podtune.cli.output import print_note
from podtune.kube import paths
from podtune.kube.errors import ApiRefusal
from podtune.protocol.store_secret import ACCESS_KEY_ID, SECRET_ACCESS_KEY, SESSION_TOKEN
from podtune.storage.address import S3Address, VolumeAddress
from podtune.storage.errors import StoreError, Unreachable
from podtune.storage.object_store import ReadableStore
from podtune.storage.stores import make_store

_KEYS = (ACCESS_KEY_ID, SECRET_ACCESS_KEY, SESSION_TOKEN)


@dataclass(frozen=True, slots=True)
class StoreOptions:
    """What the command line says of the store.

    Attributes:
        endpoint: URL of its server, in the place of the Experiment's; empty where none is given.
        region: Region of the bucket, likewise.
        own_credentials: Whether the AWS credentials of the environment are used, whatever Secret the Experiment names.
    """

    endpoint: str = ""
    region: str = ""
    own_credentials: bool = False


@dataclass(frozen=True, slots=True)
class OpenedStore:
    """A bucket that can be read, and where it is."""

    store: ReadableStore
    address: S3Address


@contextmanager
def open_experiment_store(
    api: Api, namespace: str, experiment: str, spec: Mapping[str, Any], options: StoreOptions
) -> Iterator[OpenedStore]:
    """Opens the store of an Experiment.

    Its Secret is read with the caller's rights. Where they do not allow that, the caller's own AWS credentials are
    tried. What was read lies in a directory that nobody else can read, and that is deleted at the end.

    Args:
        api: The API server.
        namespace: Namespace of the Experiment.
        experiment: Its name.
        spec: Its spec, as it was written.
        options: What the command line says.

    Raises:
        CliError: It has no store, or what is needed to open it is missing.
        ApiError: The server can't say.
    """
    store = (spec.get("checkpoints") or {}).get("store")
    if not store:
        raise CliError(f"experiment {experiment} has no checkpoints.store, so nothing of it is stored")
    with tempfile.TemporaryDirectory(prefix="podtune-") as files:
        address = _read_address(store, options)
        bundle, secret = store.get("caBundle"), store.get("credentialsSecret")
        if bundle:
            address = replace(address, ca_file=_write_authorities(api, namespace, bundle, Path(files)))
        if secret and not options.own_credentials:
            address = replace(address, credentials=_write_credentials(api, namespace, secret, Path(files)))
        yield _open_store(address)


def open_store_of(uri: str, options: StoreOptions) -> OpenedStore:
    """Opens the bucket that an URI is of, with the caller's own AWS credentials.

    Raises:
        CliError: It is on a volume, or what is needed to open it is missing.
        StoreSettingsError: It is in no bucket.
    """
    claim = uri.partition("://")[2].partition("/")[0]
    if VolumeAddress(claim).holds(uri):
        raise _refuse_volume(uri, claim)
    address, _ = S3Address("", **_list_given(options)).find_sibling(uri)
    return _open_store(address)


def _open_store(address: S3Address) -> OpenedStore:
    """Opens a bucket; it is connected to when it is first read."""
    if find_spec("boto3") is None:
        raise CliError("boto3, which reads buckets, is not installed; pip install 'podtune[cli,store]'")
    return OpenedStore(make_store(address), address)


def _read_address(store: Mapping[str, Any], options: StoreOptions) -> S3Address:
    volume = store.get("volume")
    if volume:
        raise _refuse_volume("checkpoints.store", volume["claimName"])
    if not store.get("bucket"):
        raise CliError("checkpoints.store names no bucket; use a later `podtune`, which knows what it names")
    known = {name: store[name] for name in ("bucket", "prefix", "endpoint", "region", "addressing") if store.get(name)}
    return S3Address(**known | _list_given(options))


def _list_given(options: StoreOptions) -> dict[str, str]:
    given = {"endpoint": options.endpoint, "region": options.region}
    return {name: value for name, value in given.items() if value}


def explain_store_error(error: StoreError) -> CliError:
    """What a person is told of a store that did not do what was asked."""
    remedy = "; if only the cluster knows that name, give --endpoint" if isinstance(error, Unreachable) else ""
    return CliError(f"{error}{remedy}")


def _refuse_volume(what: str, claim: str) -> CliError:
    return CliError(
        f"{what} is on the volume of claim {claim!r}, which only pods can read; set checkpoints.export, which puts "
        "whole files on that volume, and copy them, or logs, out of a pod that mounts the claim, with kubectl cp"
    )


def _write_authorities(api: Api, namespace: str, bundle: Mapping[str, str], files: Path) -> str:
    """Writes the certificates of the store's authorities to a file; returns its path."""
    is_secret, name, key = bundle.get("kind") == "Secret", bundle["name"], bundle.get("key") or "ca.crt"
    data = api.get((paths.secret if is_secret else paths.config_map)(namespace, name)).get("data") or {}
    if key not in data:
        raise CliError(f"checkpoints.store.caBundle: {name!r} has no key {key!r}; correct it, or set AWS_CA_BUNDLE")
    file = files / "ca.crt"
    file.write_bytes(base64.b64decode(data[key]) if is_secret else data[key].encode())
    return str(file)


def _write_credentials(api: Api, namespace: str, secret: str, files: Path) -> str:
    """Writes the keys of a Secret as a kubelet mounts them; returns the directory, which is named after the Secret.

    Empty where the Secret can't be read: then the caller's own credentials are looked for.
    """
    try:
        data = api.get(paths.secret(namespace, secret)).get("data") or {}
    except ApiRefusal as error:
        print_note(f"Secret {secret} can't be read ({explain_error(error)}); your own AWS credentials are used")
        return ""
    directory = files / secret
    directory.mkdir()
    for key in _KEYS:
        if key in data:
            (directory / key).write_bytes(base64.b64decode(data[key]))
    return str(directory)
