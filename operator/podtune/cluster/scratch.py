"""A trial's volume of its own, on which its agents keep what a retry would else have to fetch from the bucket.

It is a cache and nothing else: what is on it is believed only where its hash is right, and no trial waits for what it
may have lost. It belongs to the Trial, is made before the trial's first pod, and deleted before the trial's end is
recorded, so no end is recorded whose volume was forgotten. The API server holds it until the last pod is gone.
"""

from __future__ import annotations

from typing import Any

from podtune.api.checkpoints import Scratch
from podtune.api.names import (
    API_VERSION,
    FIELD_MANAGER,
    LABEL_EXPERIMENT,
    LABEL_MANAGED_BY,
    LABEL_TRIAL,
    MANAGED_BY,
    TRIAL_KIND,
)
from podtune.cluster import paths, readers
from podtune.cluster.client import METADATA, ClusterClient
from podtune.cluster.errors import ApiRefusal
from podtune.protocol import agent_environment as agent_env
from podtune.runner.actions import CreatePod
from podtune.runner.records import Experiment

SCRATCH_VOLUME = "podtune-scratch"

Manifest = dict[str, Any]


def claim_name(trial: str) -> str:
    """Name of a trial's PersistentVolumeClaim."""
    return f"{trial}-scratch"


def scratch_of(experiment: Experiment) -> Scratch | None:
    """What kind of volume the experiment's trials have; None where they have none."""
    return experiment.spec.checkpoints.scratch if experiment.spec else None


def scratch_volumes(scratch: Scratch | None, trial: str) -> list[Manifest]:
    """The volume in a trial's pods."""
    if scratch is None:
        return []
    return [{"name": SCRATCH_VOLUME, "persistentVolumeClaim": {"claimName": claim_name(trial)}}]


def scratch_mounts(scratch: Scratch | None) -> list[Manifest]:
    """Where it is, for the agent alone: what the program writes must not get there unhashed."""
    return [] if scratch is None else [{"name": SCRATCH_VOLUME, "mountPath": agent_env.SCRATCH_DIRECTORY}]


def let_agent_write(pod_spec: Manifest, group: int) -> None:
    """Gives the agent's group to the pod's volumes, unless the template has a group, or volumes that are its own."""
    context = pod_spec.get("securityContext") or {}
    claims = any("persistentVolumeClaim" in volume for volume in pod_spec.get("volumes") or ())
    if context.get("fsGroup") is None and not claims:
        pod_spec["securityContext"] = {**context, "fsGroup": group}


async def ensure_claim(client: ClusterClient, experiment: Experiment, action: CreatePod) -> str:
    """Makes a trial's claim; says what is in the way of it, if anything.

    Raises:
        ApiError: The API server can't or won't make it.
    """
    scratch = scratch_of(experiment)
    if scratch is None:
        return ""
    path, body = paths.claims(experiment.namespace), _claim(experiment, action, scratch)
    name = body["metadata"]["name"]
    try:
        await client.request("POST", path, params={"fieldManager": FIELD_MANAGER}, body=body, accept=METADATA)
    except ApiRefusal as refusal:
        if not refusal.is_already_there:
            raise
        existing = await client.request("GET", f"{path}/{name}")
        if readers.owner_uid(existing, TRIAL_KIND) != action.trial_uid:
            return f"a PersistentVolumeClaim {name} of another owner is in the way; delete it"
        if existing["metadata"].get("deletionTimestamp"):
            return f"PersistentVolumeClaim {name} is being deleted; the trial gets a new one once it is gone"
    return ""


async def delete_claim(client: ClusterClient, experiment: Experiment, trial: str) -> None:
    """Deletes a trial's claim; nothing happens where it has none.

    Raises:
        ApiError: It can't be deleted now.
    """
    if scratch_of(experiment) is None:
        return
    try:
        await client.request("DELETE", f"{paths.claims(experiment.namespace)}/{claim_name(trial)}")
    except ApiRefusal as refusal:
        if not refusal.is_not_found:
            raise


def _claim(experiment: Experiment, action: CreatePod, scratch: Scratch) -> Manifest:
    spec: Manifest = {"accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": scratch.size}}}
    if scratch.storage_class_name is not None:
        spec["storageClassName"] = scratch.storage_class_name
    return {
        "apiVersion": "v1",
        "kind": "PersistentVolumeClaim",
        "metadata": {
            "name": claim_name(action.trial),
            "labels": {
                LABEL_EXPERIMENT: experiment.name,
                LABEL_TRIAL: action.trial,
                LABEL_MANAGED_BY: MANAGED_BY,
            },
            "ownerReferences": [
                {
                    "apiVersion": API_VERSION,
                    "kind": TRIAL_KIND,
                    "name": action.trial,
                    "uid": action.trial_uid,
                    "controller": True,
                    "blockOwnerDeletion": True,
                }
            ],
        },
        "spec": spec,
    }
