"""An Experiment that has never had a spec that can be used: it has no machine, and is told so."""

from __future__ import annotations

from podtune.api.experiment import TrialCounts
from podtune.api.names import ExperimentReason
from podtune.runner import experiment_status
from podtune.runner.actions import Action, EmitEvent, Outcome, Verdict, WriteExperimentStatus
from podtune.runner.dispatch import Dispatch
from podtune.runner.experiment_machine import Plan
from podtune.runner.records import Experiment
from podtune.runner.retry import Backoff
from podtune.runner.timestamps import rfc3339


class Stalled:
    """Writes the problem into the status, once, and an Event after it."""

    def __init__(self, backoff: Backoff) -> None:
        self._dispatch = Dispatch(backoff)

    def decide(self, experiment: Experiment, now: float) -> Plan:
        """What has to be done now, as a machine would say it."""
        for _ in self._dispatch.alarms.ring(now):
            pass  # there is only one thing to look at
        status = experiment_status.project(
            experiment.status,
            trials=TrialCounts(),
            best=None,
            ended=None,
            over=False,
            problem=experiment.problem,
            hindrance=None,
            generation=experiment.generation,
            now=rfc3339(now),
        )
        if status != experiment.status and not experiment.deleting:
            self._dispatch.ask(WriteExperimentStatus(experiment.version, status), now)
        return Plan(self._dispatch.take(), self._dispatch.alarms.next)

    def landed(self, experiment: Experiment, action: Action, outcome: Outcome, now: float) -> None:
        """Hears how an action went."""
        self._dispatch.landed(action, outcome, now)
        if isinstance(action, WriteExperimentStatus) and outcome.verdict is Verdict.DONE and experiment.problem:
            event = EmitEvent("", str(ExperimentReason.INVALID_SPEC), experiment.problem, warning=True)
            self._dispatch.ask(event, now)
