"""Finds the checkpoint of another experiment's trial that a trial is to start from."""

from __future__ import annotations

from podtune.api.restore_from import RestoreFrom
from podtune.cluster import paths, readers
from podtune.cluster.client import ClusterClient
from podtune.cluster.errors import ApiRefusal
from podtune.runner.actions import Outcome, Verdict
from podtune.runner.origins import missing, pick


async def find_checkpoint(client: ClusterClient, namespace: str, wanted: RestoreFrom) -> Outcome:
    """Looks a checkpoint up.

    Args:
        client: The API server.
        namespace: The namespace of both experiments.
        wanted: Whose checkpoint, and which one.

    Returns:
        The checkpoint; refused where there is none and will be none, failed where it may still come.

    Raises:
        ApiError: The API server could not be asked.
        Unreadable: The Trial is none.
    """
    try:
        body = await client.request("GET", f"{paths.trials(namespace)}/{wanted.trial}")
    except ApiRefusal as refusal:
        if refusal.is_not_found:
            return Outcome(Verdict.FAILED, f"there is no trial {wanted.trial} yet")
        raise
    donor = readers.read_trial(body)
    if donor.spec.experiment != wanted.experiment:
        problem = f"trial {wanted.trial} is of experiment {donor.spec.experiment}, not of {wanted.experiment}"
        return Outcome(Verdict.REFUSED, problem)
    found = pick(donor.status.checkpoints, wanted.step)
    if found is not None:
        return Outcome(Verdict.DONE, checkpoint=found)
    if donor.status.state is not None and donor.status.state.is_finished:
        return Outcome(Verdict.REFUSED, missing(wanted, donor.status.checkpoints))
    return Outcome(Verdict.FAILED, f"{wanted.trial} has no such checkpoint yet")
