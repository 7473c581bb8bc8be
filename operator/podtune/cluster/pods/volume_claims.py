"""Making and deleting the claims of the volumes that trials keep over their attempts; see `scratch`."""

from __future__ import annotations

from typing import Any

from podtune.api.names import TRIAL_KIND
from podtune.api.resources.checkpoints import Scratch
from podtune.cluster import decoders, ownership
from podtune.cluster.client import ClusterClient
from podtune.cluster.pods.scratch import claim_name, scratch_of
from podtune.kube import paths
from podtune.kube.errors import ApiRefusal
from podtune.runner.actions import CreatePod
from podtune.runner.records import Experiment

Manifest = dict[str, Any]


async def ensure_claim(client: ClusterClient, experiment: Experiment, action: CreatePod) -> str:
    """Makes a trial's claim; says what is in the way of it, if anything.

    Raises:
        ApiError: The API server can't or won't make it.
    """
    scratch = scratch_of(experiment)
    if scratch is None:
        return ""
    name = claim_name(action.trial)
    claim = await ownership.create(client, paths.claims(experiment.namespace), _claim(experiment, action, scratch))
    if claim is None:
        return f"a PersistentVolumeClaim {name} of another owner is in the way; delete it"
    if claim["metadata"].get("deletionTimestamp"):
        return f"PersistentVolumeClaim {name} is being deleted; the trial gets a new one once it is gone"
    return ""


async def delete_claim(client: ClusterClient, experiment: Experiment, trial: str, uid: str) -> None:
    """Deletes a trial's claim; nothing happens where it has none, or another owner's has its name.

    Args:
        client: The API server.
        experiment: The Experiment.
        trial: The Trial's name.
        uid: Its UID, which the claim's owner has to have.

    Raises:
        ApiError: It can't be deleted now.
    """
    if scratch_of(experiment) is None:
        return
    path = paths.claim(experiment.namespace, claim_name(trial))
    try:
        claim = await client.request("GET", path)
        if decoders.owner_uid(claim, TRIAL_KIND) == uid:
            await client.request("DELETE", path, body={"preconditions": {"uid": claim["metadata"]["uid"]}})
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
            "labels": ownership.labels(experiment.name, action.trial),
            "ownerReferences": [ownership.of_trial(action.trial, action.trial_uid)],
        },
        "spec": spec,
    }
