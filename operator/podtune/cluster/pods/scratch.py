"""A trial's volume of its own, on which its agents keep what a retry would else have to fetch from the bucket.

It is a cache and nothing else: what is on it is believed only where its hash is right, and no trial waits for what it
may have lost. It belongs to the Trial, is made before the trial's first pod, and deleted before the trial's end is
recorded, so no end is recorded whose volume was forgotten. The API server holds it until the last pod is gone.
"""

from __future__ import annotations

from typing import Any

from podtune.api.resources.checkpoints import Scratch
from podtune.protocol import agent_environment as agent_env
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
