"""Which ended pods are deleted, and when."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Literal

from podtune.runner.actions import DeleteFinishedPods, DeletePod
from podtune.runner.failures import FailureClass
from podtune.runner.retry import InFlight
from podtune.runner.settings import RunnerSettings
from podtune.runner.trial_machine import NEVER, TrialMachine

Retention = Literal["None", "Failed", "All"]


class Cleanup:
    """Gathers finished trials whose pods may go, so that one call deletes many; retained pods stay."""

    def __init__(self, retention: Retention, settings: RunnerSettings) -> None:
        self._retention = retention
        self._settings = settings
        self._gathered: dict[str, None] = {}
        self._since = 0.0
        self.wake = NEVER

    def note(self, trial: TrialMachine) -> None:
        """Takes in a trial: once it is finished and durable, its leftover pods are to go."""
        finished = trial.saved.state is not None and trial.saved.state.is_finished and trial.is_durable
        if finished and any(not self._retained(trial, name) for name in trial.leftovers):
            if not any(self._retained(trial, name) for name in trial.leftovers):
                self._gathered.setdefault(trial.name)
        else:
            self._gathered.pop(trial.name, None)

    def leftovers(self, trial: TrialMachine) -> Iterator[DeletePod]:
        """Pods to delete one by one: those of earlier attempts, and those beside a retained one."""
        finished = trial.status.state is not None and trial.status.state.is_finished
        retains = any(self._retained(trial, name) for name in trial.leftovers)
        if not trial.is_durable or (finished and not retains):
            return
        for name, pod in trial.leftovers.items():
            if not self._retained(trial, name) and not pod.deleting and pod.uid not in trial.deleted_uids:
                yield DeletePod(name, pod.uid)

    def due(self, now: float, flights: InFlight) -> Iterator[DeleteFinishedPods]:
        """The bulk deletion, when enough have gathered or the first has waited long enough."""
        self.wake = NEVER
        if not self._gathered:
            self._since = now
            return
        full = len(self._gathered) >= self._settings.cleanup_batch
        at = max(0.0 if full else self._since + self._settings.cleanup_interval, flights.ready_at(("delete-pods", "")))
        if at > now:
            self.wake = at
            return
        names = tuple(self._gathered)[: self._settings.cleanup_batch]
        for name in names:
            del self._gathered[name]
        self._since = now
        yield DeleteFinishedPods(names)

    def _retained(self, trial: TrialMachine, pod_name: str) -> bool:
        if self._retention == "All":
            return True
        last = trial.status.last_attempt
        failed = last is not None and last.failure_class in (FailureClass.USER, FailureClass.FINAL)
        return (
            self._retention == "Failed" and failed and last is not None and pod_name == f"{trial.name}-{last.attempt}"
        )
