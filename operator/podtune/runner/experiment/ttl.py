"""An experiment that is deleted some time after its end, as a Job is by its `ttlSecondsAfterFinished`.

The time counts from the end that its status records: an operator that was away meanwhile deletes it when it comes back.
"""

from __future__ import annotations

from podtune.api.resources.experiment import ExperimentSpec
from podtune.runner.action_queue import EXPERIMENT, ActionQueue
from podtune.runner.actions import DeleteExperiment
from podtune.runner.records import Experiment
from podtune.runner.timestamps import parse_rfc3339


class TimeToLive:
    """Deletes an experiment that has been over for long enough."""

    def __init__(self, actions: ActionQueue) -> None:
        self._actions = actions

    def check(self, experiment: Experiment, spec: ExperimentSpec, now: float) -> None:
        """Deletes an experiment whose time is over. It has ended, and so has its work in the bucket."""
        ended = parse_rfc3339(experiment.status.completion_time)
        if spec.ttl_seconds_after_finished is None or ended is None:
            return
        due = ended + spec.ttl_seconds_after_finished
        if now < due:
            self._actions.timers.set(EXPERIMENT, due)
        else:
            self._actions.enqueue(DeleteExperiment(experiment.version), now)
