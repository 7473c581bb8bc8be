"""A trial's own volume, on which its agents keep files that a retry would otherwise fetch from the bucket.

It is only a cache: its content is used only if the hash is right, and no trial waits for what it may have lost. It
belongs to the Trial, is created before the trial's first pod, and is deleted before the trial's end is recorded, so no
volume is forgotten. The API server holds it until the last pod is gone.
"""

from __future__ import annotations

from podtune.api.resources.checkpoints import Scratch
from podtune.kube.manifests import Manifest
from podtune.protocol import agent_environment as agent_env
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
