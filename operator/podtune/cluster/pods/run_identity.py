"""The variables by which a trial's programs find its run in a tracker: the same in all attempts."""

from __future__ import annotations

from collections.abc import Mapping

from podtune.api.trackers import Trackers
from podtune.protocol.tracking import build_run_id
from podtune.runner.actions import CreatePod


def make_tracker_variables(trackers: Trackers, experiment: str, action: CreatePod) -> Mapping[str, str]:
    """What the client of Weights & Biases goes by; nothing where it is not asked for.

    A client that has a run's id and may resume makes the run if there is none, and goes on with it if there is.
    """
    if trackers.wandb is None:
        return {}
    return {
        "WANDB_RUN_ID": build_run_id(action.trial_uid),
        "WANDB_RESUME": "allow",
        "WANDB_RUN_GROUP": experiment,
        "WANDB_NAME": action.spec.display_name or action.trial,
    }
