"""How the actions on trials went, and what that tells of them."""

from __future__ import annotations

from collections.abc import Mapping

from podtune.api.names import ExperimentReason
from podtune.runner.actions import (
    Action,
    ActionResult,
    ActionStatus,
    CreatePod,
    DeleteFinishedPods,
    DeletePod,
    FetchLogs,
    FindCheckpoint,
    OpenGates,
    TryPod,
    WriteTrialStatus,
)
from podtune.runner.attempts.refusals import Refusals
from podtune.runner.trial.machine import TrialMachine
from podtune.runner.trial.trial_planner import TrialPlanner


class TrialActionResults:
    """Takes in results of actions. What an action made or changed was reported as seen before."""

    def __init__(self, trials: Mapping[str, TrialMachine], planner: TrialPlanner, refusals: Refusals) -> None:
        self._trials = trials
        self._planner = planner
        self._refusals = refusals

    def on_action_result(self, action: Action, result: ActionResult, now: float) -> tuple[str, ...]:
        """Hears how an action went; returns the names of the trials that have to be looked at."""
        if isinstance(action, CreatePod | TryPod):
            self._refusals.on_action_result(action, result, now)
        match action:
            case (
                FindCheckpoint(trial=name)
                | CreatePod(trial=name)
                | OpenGates(trial=name)
                | DeletePod(trial=name)
                | FetchLogs(trial=name)
            ):
                names: tuple[str, ...] = (name,)
            case TryPod(creation=CreatePod(trial=name)):
                names = (name,)
            case WriteTrialStatus(name=name):
                names = (name,)
            case DeleteFinishedPods():
                names = action.trials if result.status is not ActionStatus.DONE else ()
            case _:
                names = ()
        known = [trial for name in names if (trial := self._trials.get(name)) is not None]
        for trial in known:
            self._take(trial, action, result, now)
        return tuple(trial.name for trial in known)

    def _take(self, trial: TrialMachine, action: Action, result: ActionResult, now: float) -> None:
        match action:
            case CreatePod():
                self._on_pod_result(trial, action, result, now)
            case TryPod() if result.reason is ExperimentReason.POD_REFUSED and trial.is_to_run:
                self._planner.pod_refused(trial, result.message, now)
            case DeletePod():
                if result.status is ActionStatus.DONE and action.uid not in trial.expectations.gone:
                    trial.expectations.deletions.add(action.uid)
            case DeleteFinishedPods():
                trial.expectations.deletions.clear()
            case WriteTrialStatus():
                if result.status is not ActionStatus.DONE and trial.status != trial.saved:
                    trial.touch(now)
            case FindCheckpoint():
                self._planner.checkpoint_found(trial, result, now)
            case FetchLogs():
                self._planner.logs_fetched(trial, action, result)
            case _:
                pass

    def _on_pod_result(self, trial: TrialMachine, action: CreatePod, result: ActionResult, now: float) -> None:
        if trial.attempt != action.attempt or not trial.current.pods.lacks_some or trial.is_finished:
            return
        if result.reason is ExperimentReason.POD_REFUSED:
            self._planner.pod_refused(trial, result.message, now)
        elif result.status is ActionStatus.REFUSED:
            self._planner.pod_rejected(trial, result.message, now)
        elif result.status is ActionStatus.FAILED:
            self._planner.pod_not_made(trial, result.message, now)
