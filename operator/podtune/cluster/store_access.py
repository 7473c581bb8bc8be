"""How an agent's pod is told of the bucket: its address, credentials and certificates, and how to work with it."""

from __future__ import annotations

import json
from typing import Any

from podtune.api.checkpoints import Checkpoints, CheckpointStore
from podtune.api.model import seconds

CA_VOLUME = "podtune-ca"
CA_DIRECTORY = "/etc/podtune/ca"
CA_FILE = "ca.crt"

Manifest = dict[str, Any]


def store_json(store: CheckpointStore) -> str:
    """The bucket, as agents are told of it: what is the default is left out."""
    values: Manifest = store.model_dump(
        include={"bucket", "prefix", "endpoint", "region", "addressing", "wire_checksums"}, exclude_defaults=True
    )
    if store.ca_bundle:
        values["ca_file"] = f"{CA_DIRECTORY}/{CA_FILE}"
    if store.kms_key_id:
        values["kms_key"] = store.kms_key_id
    return json.dumps(values)


def sync_json(checkpoints: Checkpoints) -> str:
    """How checkpoints and artifacts are stored, as agents are told of it: what is the default is left out."""
    values: Manifest = checkpoints.model_dump(
        include={"layout", "reuse_unchanged", "exclude"}, by_alias=True, exclude_defaults=True
    )
    defaults = type(checkpoints.sync)()
    if checkpoints.sync.timeout != defaults.timeout:
        values["timeout"] = seconds(checkpoints.sync.timeout)
    if checkpoints.sync.retries != defaults.retries:
        values["retries"] = checkpoints.sync.retries
    if checkpoints.artifacts is not None:
        artifacts = checkpoints.artifacts.model_dump(by_alias=True)
        values["artifacts"] = {**artifacts, "period": seconds(checkpoints.artifacts.period)}
    return json.dumps(values) if values else ""


def credentials(store: CheckpointStore | None) -> list[Manifest]:
    """The bucket's credentials, for the agent alone: the operator never reads a Secret."""
    if store is None or not store.credentials_secret:
        return []
    keys = {
        "AWS_ACCESS_KEY_ID": ("accessKeyID", False),
        "AWS_SECRET_ACCESS_KEY": ("secretAccessKey", False),
        "AWS_SESSION_TOKEN": ("sessionToken", True),
    }
    secret = store.credentials_secret
    return [
        {"name": name, "valueFrom": {"secretKeyRef": {"name": secret, "key": key, "optional": optional}}}
        for name, (key, optional) in keys.items()
    ]


def ca_volumes(store: CheckpointStore | None) -> list[Manifest]:
    """The volume with the certificates of the store's authorities, where it has any of its own."""
    if store is None or store.ca_bundle is None:
        return []
    bundle = store.ca_bundle
    items = [{"key": bundle.key, "path": CA_FILE}]
    if bundle.kind == "Secret":
        return [{"name": CA_VOLUME, "secret": {"secretName": bundle.name, "items": items}}]
    return [{"name": CA_VOLUME, "configMap": {"name": bundle.name, "items": items}}]


def ca_mounts(store: CheckpointStore | None) -> list[Manifest]:
    """Where that volume is, for the agent."""
    if store is None or store.ca_bundle is None:
        return []
    return [{"name": CA_VOLUME, "mountPath": CA_DIRECTORY, "readOnly": True}]
