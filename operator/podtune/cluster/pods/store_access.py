"""How an agent's pod gets access to the store: address, credentials, certificates or volume, and settings."""

from __future__ import annotations

import json
from collections.abc import Sequence

from podtune.api.base import parse_duration
from podtune.api.pods.quantities import parse_size
from podtune.api.resources.checkpoints import CertificateBundle, Checkpoints, CheckpointStore
from podtune.api.resources.experiment import KeptLogs, Snapshot
from podtune.api.resources.results import Results
from podtune.kube.agent_pods import make_claim_mount, make_claim_volume
from podtune.kube.manifests import Manifest
from podtune.protocol import agent_environment as agent_env
from podtune.protocol.store_secret import ACCESS_KEY_ID, OF_AZURE, OF_GCS, OF_S3

CREDENTIALS_VOLUME = "podtune-credentials"
CREDENTIALS_DIRECTORY = "/etc/podtune/credentials"
_READABLE = 0o444
CA_VOLUME = "podtune-ca"
CA_DIRECTORY = "/etc/podtune/ca"
CA_FILE = "ca.crt"


def encode_store(store: CheckpointStore) -> str:
    """The store, as agents are told of it: what is the default is left out."""
    values: Manifest = {"prefix": store.prefix} if store.prefix else {}
    if store.volume is not None:
        return json.dumps({"kind": "volume", "claim": store.volume.claim_name, **values})
    if store.gcs is not None:
        values |= {"kind": "gcs", "bucket": store.gcs.bucket}
    elif store.azure is not None:
        values |= {"kind": "azure", "account": store.azure.account, "container": store.azure.container}
    elif store.plugin is not None:
        values |= {"kind": "plugin", "name": store.plugin.name, "settings": json.dumps(store.plugin.settings)}
    values |= store.model_dump(
        include={"bucket", "endpoint", "region", "addressing", "wire_checksums"}, exclude_defaults=True
    )
    if store.ca_bundle:
        values["ca_file"] = f"{CA_DIRECTORY}/{CA_FILE}"
    if store.credentials_secret:
        values["credentials"] = _format_secret_directory(store.credentials_secret)
    if store.kms_key_id:
        values["kms_key"] = store.kms_key_id
    return json.dumps(values)


def encode_sync(checkpoints: Checkpoints, results: Results, logs: KeptLogs, snapshot: Snapshot) -> str:
    """How things are stored, as agents are told of it: what is the default is left out."""
    values: Manifest = checkpoints.model_dump(
        include={"layout", "reuse_unchanged", "exclude"}, by_alias=True, exclude_defaults=True
    )
    defaults = type(checkpoints.sync)()
    if checkpoints.sync.timeout != defaults.timeout:
        values["timeout"] = parse_duration(checkpoints.sync.timeout)
    if checkpoints.sync.retries != defaults.retries:
        values["retries"] = checkpoints.sync.retries
    if checkpoints.artifacts is not None:
        artifacts = checkpoints.artifacts.model_dump(by_alias=True)
        values["artifacts"] = {**artifacts, "period": parse_duration(checkpoints.artifacts.period)}
    if results.keep != type(results)().keep:
        values["results"] = parse_size(results.keep)
    if logs.is_kept:
        values["logs"] = parse_size(logs.keep)
    if snapshot.period != type(snapshot)().period:
        values["snapshotPeriod"] = snapshot.seconds
    return json.dumps(values) if values else ""


def make_credentials_env(store: CheckpointStore | None) -> list[Manifest]:
    """What keeps an agent's container waiting until the Secret is there; see `agent_environment.STORE_KEY_ID`.

    The Secrets of other kinds of stores have no public half, and no secret becomes a variable. Without theirs the agent
    starts, and reports that it is missing.
    """
    if store is None or store.bucket is None or not store.credentials_secret:
        return []
    reference = {"name": store.credentials_secret, "key": ACCESS_KEY_ID}
    return [{"name": agent_env.STORE_KEY_ID, "valueFrom": {"secretKeyRef": reference}}]


def make_store_volumes(store: CheckpointStore | None) -> list[Manifest]:
    """What the agent's containers need to use the store: credentials, certificates of authorities, or the volume."""
    return [*_make_credentials_volumes(store), *_make_ca_volumes(store), *_make_claim_volumes(store)]


def make_store_mounts(store: CheckpointStore | None, *, read_only: bool = False) -> list[Manifest]:
    """Where these are, for the agent's containers alone: no program sees them, and the operator reads no Secret."""
    mounts: list[Manifest] = []
    if store is not None and store.volume is not None:
        mounts.append(make_claim_mount(read_only=read_only))
    if store is not None and store.credentials_secret:
        path = _format_secret_directory(store.credentials_secret)
        mounts.append({"name": CREDENTIALS_VOLUME, "mountPath": path, "readOnly": True})
    if store is not None and store.ca_bundle is not None:
        mounts.append({"name": CA_VOLUME, "mountPath": CA_DIRECTORY, "readOnly": True})
    return mounts


def _format_secret_directory(secret: str) -> str:
    """Agents know the Secret's name by it, and can say it."""
    return f"{CREDENTIALS_DIRECTORY}/{secret}"


def _make_credentials_volumes(store: CheckpointStore | None) -> list[Manifest]:
    """The store's Secret; what a plugin wants of it, the plugin knows alone."""
    if store is None or not store.credentials_secret:
        return []
    keys = OF_GCS if store.gcs is not None else OF_AZURE if store.azure is not None else OF_S3
    return [make_credentials_volume(CREDENTIALS_VOLUME, store.credentials_secret, keys if store.plugin is None else ())]


def make_credentials_volume(name: str, secret: str, keys: Sequence[str]) -> Manifest:
    """A Secret as a volume: the kubelet brings it up to date in running pods, which it does not with a variable.

    It is optional, so that a Secret that is deleted meanwhile does no harm to a pod that runs. Everyone may read the
    files, since they belong to root and the agent is another user; only the agent's containers mount them.

    Args:
        name: The volume's.
        secret: The Secret's.
        keys: What of it becomes files; all of it where there are none.
    """
    source: Manifest = {"secretName": secret, "optional": True, "defaultMode": _READABLE}
    if keys:
        source["items"] = [{"key": key, "path": key} for key in keys]
    return {"name": name, "secret": source}


def _make_claim_volumes(store: CheckpointStore | None) -> list[Manifest]:
    """The volume that is the store, where it is one."""
    if store is None or store.volume is None:
        return []
    return [make_claim_volume(store.volume.claim_name)]


def _make_ca_volumes(store: CheckpointStore | None) -> list[Manifest]:
    """The volume with the certificates of the store's authorities, where it has any of its own."""
    if store is None or store.ca_bundle is None:
        return []
    return [make_ca_volume(CA_VOLUME, store.ca_bundle)]


def make_ca_volume(name: str, bundle: CertificateBundle) -> Manifest:
    """A volume with certificates of authorities, as the file `CA_FILE`."""
    items = [{"key": bundle.key, "path": CA_FILE}]
    if bundle.kind == "Secret":
        return {"name": name, "secret": {"secretName": bundle.name, "items": items}}
    return {"name": name, "configMap": {"name": bundle.name, "items": items}}
