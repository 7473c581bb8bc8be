"""An Experiment that has never had a spec that can be used: it has no machine, and is told so."""

from __future__ import annotations

from podtune.api.experiment import TrialCounts
from podtune.api.names import ExperimentReason
from podtune.runner import experiment_status, finalizer
from podtune.runner.actions import Action, EmitEvent, Outcome, Verdict, WriteExperimentStatus
from podtune.runner.dispatch import Dispatch
from podtune.runner.experiment_machine import Plan
from podtune.runner.finalizer import Finalizer
from podtune.runner.records import Experiment
from podtune.runner.retry import Backoff
from podtune.runner.timestamps import rfc3339


class Stalled:
    """Writes the problem into the status, once, and an Event after it."""

    def __init__(self, backoff: Backoff) -> None:
        self._dispatch = Dispatch(backoff)
        self._has_warned = False

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
        if experiment.deleting:
            self._let_go(experiment, now)
        elif status != experiment.status:
            self._dispatch.ask(WriteExperimentStatus(experiment.version, status), now)
        return Plan(self._dispatch.take(), self._dispatch.alarms.next)

    def _let_go(self, experiment: Experiment, now: float) -> None:
        """Takes the finalizer off an Experiment that can't be read: nobody knows which bucket it meant."""
        if not finalizer.is_there(experiment):
            return
        if not self._has_warned:
            self._has_warned = True
            left_at = f"{experiment.uid}/"
            message = f"checkpoints may be left in its bucket below {left_at}; delete them there"
            reason = ExperimentReason.CHECKPOINTS_LEFT
            self._dispatch.ask(EmitEvent("", reason, message, warning=True, left_at=left_at), now)
        Finalizer(self._dispatch).drop(experiment, now)

    def landed(self, experiment: Experiment, action: Action, outcome: Outcome, now: float) -> None:
        """Hears how an action went."""
        self._dispatch.landed(action, outcome, now)
        if isinstance(action, WriteExperimentStatus) and outcome.verdict is Verdict.DONE and experiment.problem:
            event = EmitEvent("", str(ExperimentReason.INVALID_SPEC), experiment.problem, warning=True)
            self._dispatch.ask(event, now)
