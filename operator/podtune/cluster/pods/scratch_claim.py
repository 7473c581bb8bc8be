"""The requests for a trial's own volume; see `podtune.cluster.pods.scratch`."""

from __future__ import annotations

from podtune.api.names import TRIAL_KIND
from podtune.api.resources.checkpoints import Scratch
from podtune.cluster.client import ClusterClient, create_owned, delete_exactly, read_if_there
from podtune.cluster.pods.scratch import find_scratch, make_claim_name
from podtune.kube import paths
from podtune.kube.manifests import Manifest, find_owner_uid, make_labels, refer_to_trial
from podtune.runner.actions import CreatePod
from podtune.runner.records import Experiment


async def ensure_claim(client: ClusterClient, experiment: Experiment, action: CreatePod) -> str:
    """Makes a trial's claim; says what is in the way of it, if anything.

    Raises:
        ApiError: The API server can't or won't make it.
    """
    scratch = find_scratch(experiment)
    if scratch is None:
        return ""
    name = make_claim_name(action.trial)
    claim = await create_owned(client, paths.claims(experiment.namespace), _make_claim(experiment, action, scratch))
    if claim is None:
        return f"a PersistentVolumeClaim {name} with another owner already exists; delete it"
    if claim["metadata"].get("deletionTimestamp"):
        return f"PersistentVolumeClaim {name} is being deleted; the trial gets a new one once it is gone"
    return ""


async def delete_claim(client: ClusterClient, experiment: Experiment, trial: str, uid: str) -> None:
    """Deletes a trial's claim; nothing happens where it has none, or another owner's has its name.

    Raises:
        ApiError: It can't be deleted now.
    """
    if find_scratch(experiment) is None:
        return
    path = paths.claim(experiment.namespace, make_claim_name(trial))
    claim = await read_if_there(client, path)
    if claim is not None and find_owner_uid(claim, TRIAL_KIND) == uid:
        await delete_exactly(client, path, claim["metadata"]["uid"])


def _make_claim(experiment: Experiment, action: CreatePod, scratch: Scratch) -> Manifest:
    spec: Manifest = {"accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": scratch.size}}}
    if scratch.storage_class_name is not None:
        spec["storageClassName"] = scratch.storage_class_name
    return {
        "apiVersion": "v1",
        "kind": "PersistentVolumeClaim",
        "metadata": {
            "name": make_claim_name(action.trial),
            "labels": make_labels(experiment.name, action.trial),
            "ownerReferences": [refer_to_trial(action.trial, action.trial_uid)],
        },
        "spec": spec,
    }
