"""The store of an experiment, opened with the rights of whoever runs the command; the operator takes no part in it."""

from __future__ import annotations

import base64
import tempfile
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, replace
from importlib.util import find_spec
from pathlib import Path
from typing import Any

from podtune.cli.client.api_client import Api
from podtune.cli.client.reader_pod import ReaderPlan, open_volume
from podtune.cli.client.resources import ExperimentView, list_experiments
from podtune.cli.errors import CliError, explain_error
from podtune.cli.output import print_note
from podtune.kube import paths
from podtune.kube.errors import ApiRefusal
from podtune.protocol.store_secret import ACCESS_KEY_ID, SECRET_ACCESS_KEY, SESSION_TOKEN
from podtune.storage.address import S3Address, StoreAddress, VolumeAddress
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
        agent_image: The agent's image, of which the pod is made that reads a volume; empty for the operator's.
    """

    endpoint: str = ""
    region: str = ""
    own_credentials: bool = False
    agent_image: str = ""


@dataclass(frozen=True, slots=True)
class OpenedStore:
    """A store that can be read, and where it is."""

    store: ReadableStore
    address: StoreAddress


@contextmanager
def open_experiment_store(api: Api, experiment: ExperimentView, options: StoreOptions) -> Iterator[OpenedStore]:
    """Opens the store of an Experiment.

    Of a bucket, its Secret is read with the caller's rights. Where they do not allow that, the caller's own AWS
    credentials are tried. What was read lies in a directory that nobody else can read, and that is deleted at the end.
    A volume is read through a pod (see `reader_pod`), which is deleted at the end, too.

    Args:
        api: The API server.
        experiment: The Experiment.
        options: What the command line says.

    Raises:
        CliError: It has no store, or what is needed to open it is missing.
        ApiError: The server can't say.
    """
    store = (experiment.spec.get("checkpoints") or {}).get("store")
    if not store:
        raise CliError(f"experiment {experiment.name} has no checkpoints.store, so nothing of it is stored")
    if store.get("volume"):
        address = VolumeAddress(store["volume"]["claimName"], store.get("prefix") or "")
        with _open_volume(api, experiment.namespace, address, experiment, options) as opened:
            yield opened
        return
    with tempfile.TemporaryDirectory(prefix="podtune-") as files:
        yield _open_bucket(_prepare_bucket(api, experiment.namespace, store, options, Path(files)))


@contextmanager
def open_store_of(uri: str, options: StoreOptions, open_api: Callable[[], tuple[Api, str]]) -> Iterator[OpenedStore]:
    """Opens the store that an URI is of: a bucket with the caller's own AWS credentials.

    Args:
        uri: The URI.
        options: What the command line says.
        open_api: Opens the API server, and says which namespace is meant: that of the claim, where it is on a volume.

    Raises:
        CliError: What is needed to open it is missing.
        StoreSettingsError: It is in no store.
        ApiError: The server can't say.
    """
    claim = uri.partition("://")[2].partition("/")[0]
    address = VolumeAddress(claim)
    if not address.holds(uri):
        bucket, _ = S3Address("", **_list_given(options)).find_sibling(uri)
        yield _open_bucket(bucket)
        return
    api, namespace = open_api()
    user = _find_user(api, namespace, address.find_key(uri), claim)
    with _open_volume(api, namespace, address, user, options) as opened:
        yield opened


def _find_user(api: Api, namespace: str, key: str, claim: str) -> ExperimentView | None:
    """The Experiment that has stored something on a volume; else another that stores there, which has its settings."""
    using = [found for found in list_experiments(api, namespace) if _find_claim(found) == claim]
    own = [experiment for experiment in using if experiment.uid and experiment.uid in key.split("/")]
    return next(iter([*own, *using]), None)


def _find_claim(experiment: ExperimentView) -> str:
    """The claim that an Experiment stores on; empty where it stores on none."""
    store = (experiment.spec.get("checkpoints") or {}).get("store") or {}
    return str((store.get("volume") or {}).get("claimName", ""))


@contextmanager
def _open_volume(
    api: Api, namespace: str, address: VolumeAddress, experiment: ExperimentView | None, options: StoreOptions
) -> Iterator[OpenedStore]:
    _require("websocket", "websocket-client, which reads volumes")
    image = options.agent_image or (experiment.status.agent_image if experiment else "")
    if not image:
        silent = f"experiment {experiment.name} does not say" if experiment else "there is no experiment to say"
        raise CliError(f"{silent} which image reads claim {address.claim}; name the agent's with --agent-image")
    template = ((experiment.spec.get("trialTemplate") or {}).get("spec") or {}) if experiment else {}
    name, uid = (experiment.name, experiment.uid) if experiment else ("", "")
    with open_volume(api, ReaderPlan(namespace, address, image, name, uid, template)) as store:
        yield OpenedStore(store, address)


def _open_bucket(address: S3Address) -> OpenedStore:
    """Opens a bucket; it is connected to when it is first read."""
    _require("boto3", "boto3, which reads buckets")
    return OpenedStore(make_store(address), address)


def _require(module: str, what: str) -> None:
    if find_spec(module) is None:
        raise CliError(f"{what}, is not installed; pip install 'podtune[cli,store]'")


def _prepare_bucket(
    api: Api, namespace: str, store: Mapping[str, Any], options: StoreOptions, files: Path
) -> S3Address:
    """The address of a bucket, whose credentials and certificates are put into files."""
    if not store.get("bucket"):
        raise CliError("checkpoints.store names no bucket; use a later `podtune`, which knows what it names")
    known = {name: store[name] for name in ("bucket", "prefix", "endpoint", "region", "addressing") if store.get(name)}
    address = S3Address(**known | _list_given(options))
    bundle, secret = store.get("caBundle"), store.get("credentialsSecret")
    if bundle:
        address = replace(address, ca_file=_write_authorities(api, namespace, bundle, files))
    if secret and not options.own_credentials:
        address = replace(address, credentials=_write_credentials(api, namespace, secret, files))
    return address


def _list_given(options: StoreOptions) -> dict[str, str]:
    given = {"endpoint": options.endpoint, "region": options.region}
    return {name: value for name, value in given.items() if value}


def explain_store_error(error: StoreError, address: StoreAddress | None = None) -> CliError:
    """What a person is told of a store that did not do what was asked."""
    has_server = isinstance(error, Unreachable) and isinstance(address, S3Address)
    remedy = "; if only the cluster knows that name, give --endpoint" if has_server else ""
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
