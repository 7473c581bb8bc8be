"""Finds the checkpoint of another experiment's trial that a trial is to start from."""

from __future__ import annotations

from podtune.cluster import decoders
from podtune.cluster.client import ClusterClient, read_if_there
from podtune.kube import paths
from podtune.runner.actions import ActionResult, ActionStatus, FindCheckpoint
from podtune.runner.checkpoints.restore_sources import describe_cycle, describe_missing, pick_checkpoint
from podtune.runner.records import Trial
from podtune.runner.scheduling import clones

LONGEST_CIRCLE = 8
"""How many trials a chain of waits for checkpoints is followed through."""


async def find_checkpoint(client: ClusterClient, namespace: str, action: FindCheckpoint) -> ActionResult:
    """Looks a checkpoint up.

    Returns:
        The checkpoint; refused where there is none and will be none, failed where it may still come.

    Raises:
        ApiError: The API server could not be asked.
        MalformedObject: The Trial is none.
    """
    wanted = action.wanted
    donor = await _read(client, namespace, wanted.trial)
    if donor is None:
        return ActionResult(ActionStatus.FAILED, f"there is no trial {wanted.trial} yet")
    if donor.spec.experiment != wanted.experiment:
        problem = f"trial {wanted.trial} is of experiment {donor.spec.experiment}, not of {wanted.experiment}"
        return ActionResult(ActionStatus.REFUSED, problem)
    found = pick_checkpoint(donor.status.checkpoints, wanted.step, action.lost)
    if found is not None:
        return ActionResult(ActionStatus.DONE, checkpoint=found)
    if donor.status.state is not None and donor.status.state.is_finished:
        return ActionResult(ActionStatus.REFUSED, describe_missing(wanted, donor.status, action.lost))
    if await _waits_for(client, namespace, donor, action.trial):
        return ActionResult(ActionStatus.REFUSED, describe_cycle(wanted.trial, action.trial))
    return ActionResult(ActionStatus.FAILED, f"{wanted.trial} has no such checkpoint yet")


async def _waits_for(client: ClusterClient, namespace: str, donor: Trial, trial: str) -> bool:
    """Whether a donor can't begin before a trial has a checkpoint: itself, or by way of others."""
    waiting: Trial | None = donor
    for _ in range(LONGEST_CIRCLE):
        if waiting is None or not clones.awaits_restore_source(waiting.spec, waiting.status):
            return False
        assert waiting.spec.restore_from is not None  # else it would await none
        if waiting.spec.restore_from.trial == trial:
            return True
        waiting = await _read(client, namespace, waiting.spec.restore_from.trial)
    return False


async def _read(client: ClusterClient, namespace: str, name: str) -> Trial | None:
    """A Trial; None where there is none."""
    body = await read_if_there(client, paths.trial(namespace, name))
    return None if body is None else decoders.decode_trial(body)
