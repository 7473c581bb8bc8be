"""A trial's own volume, on which its agents keep files that a retry would otherwise fetch from the bucket.

It is only a cache: its content is used only if the hash is right, and no trial waits for what it may have lost. It
belongs to the Trial, is created before the trial's first pod, and is deleted before the trial's end is recorded, so no
volume is forgotten. The API server holds it until the last pod is gone.
"""

from __future__ import annotations

from podtune.api.names import TRIAL_KIND
from podtune.api.resources.checkpoints import Scratch
from podtune.cluster.client import ClusterClient, create_owned, delete_exactly, read_if_there
from podtune.kube import paths
from podtune.kube.manifests import Manifest, find_owner_uid, make_labels, refer_to_trial
from podtune.protocol import agent_environment as agent_env
from podtune.runner.actions import CreatePod
from podtune.runner.records import Experiment

SCRATCH_VOLUME = "podtune-scratch"


def make_claim_name(trial: str) -> str:
    """Name of a trial's PersistentVolumeClaim."""
    return f"{trial}-scratch"


def find_scratch(experiment: Experiment) -> Scratch | None:
    """What kind of volume the experiment's trials have; None where they have none."""
    return experiment.spec.checkpoints.scratch if experiment.spec else None


def make_scratch_volumes(scratch: Scratch | None, trial: str) -> list[Manifest]:
    """The volume in a trial's pods."""
    if scratch is None:
        return []
    return [{"name": SCRATCH_VOLUME, "persistentVolumeClaim": {"claimName": make_claim_name(trial)}}]


def make_scratch_mounts(scratch: Scratch | None) -> list[Manifest]:
    """Where it is, for the agent alone: what the program writes must not get there unhashed."""
    return [] if scratch is None else [{"name": SCRATCH_VOLUME, "mountPath": agent_env.SCRATCH_DIRECTORY}]


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
