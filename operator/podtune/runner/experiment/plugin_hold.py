"""Holds the experiment while a scheduler or stopper of another package fails, and has people hear of it.

Whichever fails, its users see the same: the Experiment is Stalled with the error, an Event has it, too, and the
operator's log the traceback; no trial starts, and those that run train on.
"""

from __future__ import annotations

from podtune.api.conditions import clip, find_condition
from podtune.api.names import ConditionType, ExperimentReason
from podtune.api.resources.experiment import ExperimentStatus
from podtune.runner.action_queue import ActionQueue
from podtune.runner.actions import EmitEvent
from podtune.runner.experiment.status_text import Hold
from podtune.runner.records import Experiment
from podtune.tuning.plugins import PluginFailure


def read_plugin_failure(status: ExperimentStatus) -> str:
    """What an Experiment's status says of the plugin that it is held for; empty where it is not."""
    stalled = find_condition(status.conditions, ConditionType.STALLED)
    return stalled.message if stalled is not None and stalled.reason == ExperimentReason.PLUGIN_FAILED else ""


class PluginHold:
    """Tells of each failure once; it lasts when the planner is replaced, and a restarted operator reads it back."""

    def __init__(self, experiment: Experiment, actions: ActionQueue) -> None:
        self._told = read_plugin_failure(experiment.status)
        self._actions = actions

    def follow(self, failure: PluginFailure | None, now: float) -> Hold | None:
        """Takes in which plugin fails, if any does; returns what the Experiment's status says of it."""
        if failure is None:
            self._told = ""
            return None
        message = clip(failure.message)
        if message != self._told:
            self._told = message
            reason = str(ExperimentReason.PLUGIN_FAILED)
            self._actions.enqueue(EmitEvent("", reason, message, warning=True, trace=failure.trace), now)
        return Hold(ExperimentReason.PLUGIN_FAILED, message)
