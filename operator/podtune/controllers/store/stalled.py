"""An Experiment that has never had a usable spec, or whose namespace has not opted in.

It has no machine, and its status says why.
"""

from __future__ import annotations

from podtune.api.names import ExperimentReason
from podtune.api.resources.experiment import TrialCounts
from podtune.runner.action_queue import ActionQueue
from podtune.runner.actions import Action, ActionResult, ActionStatus, EmitEvent, WriteExperimentStatus
from podtune.runner.backoff import Backoff
from podtune.runner.experiment import finalizer
from podtune.runner.experiment.finalizer import Finalizer
from podtune.runner.experiment.status_text import Hold, StatusInputs, compute_status, compute_status_on_hold
from podtune.runner.experiment_machine import ActionPlan
from podtune.runner.records import Experiment
from podtune.runner.timestamps import format_rfc3339


class Stalled:
    """Writes the problem into the status, once, and an Event after it."""

    def __init__(self, backoff: Backoff, *, records_transitions: bool = False) -> None:
        self._inputs = StatusInputs(records_transitions=records_transitions)
        self._actions = ActionQueue(backoff)
        self._has_warned = False
        self._emits_events = True

    def decide(self, experiment: Experiment, now: float, bar: str = "") -> ActionPlan:
        """What has to be done now, as a machine would say it.

        Args:
            experiment: The Experiment.
            now: The present time, in seconds since the epoch.
            bar: Why it may not be served, although its spec may be fine. Its namespace takes no Events of ours then.
        """
        for _ in self._actions.timers.pop_due(now):
            pass  # there is only one thing to look at
        self._emits_events = not bar
        if bar:
            hold = Hold(ExperimentReason.NAMESPACE_NOT_ENABLED, bar)
            status = compute_status_on_hold(experiment, hold, format_rfc3339(now), self._inputs)
        else:
            status = compute_status(experiment, self._inputs, format_rfc3339(now), trials=TrialCounts())
        if experiment.deleting:
            self._let_go(experiment, now)
        elif status != experiment.status:
            self._actions.enqueue(WriteExperimentStatus(experiment.version, status), now)
        return ActionPlan(self._actions.take(), self._actions.timers.next)

    def _let_go(self, experiment: Experiment, now: float) -> None:
        """Takes the finalizer off an Experiment that can't be read: nobody knows which bucket it meant."""
        if not finalizer.is_there(experiment):
            return
        if not self._has_warned:
            self._has_warned = True
            left_at = f"{experiment.uid}/"
            message = f"checkpoints may remain in its bucket below {left_at}; delete them there"
            reason = ExperimentReason.CHECKPOINTS_LEFT
            self._actions.enqueue(EmitEvent("", reason, message, warning=True, left_at=left_at), now)
        Finalizer(self._actions).drop(experiment, now)

    def on_action_result(self, experiment: Experiment, action: Action, result: ActionResult, now: float) -> None:
        """Hears how an action went."""
        self._actions.on_action_result(action, result, now)
        is_told = isinstance(action, WriteExperimentStatus) and result.status is ActionStatus.DONE
        if is_told and experiment.problem and self._emits_events:
            event = EmitEvent("", str(ExperimentReason.INVALID_SPEC), experiment.problem, warning=True)
            self._actions.enqueue(event, now)
