"""Which ended pods are deleted, and when."""

from __future__ import annotations

from itertools import islice
from typing import Literal

from podtune.runner.actions import DeleteFinishedPods, DeletePod
from podtune.runner.alarms import EXPERIMENT
from podtune.runner.dispatch import Dispatch
from podtune.runner.failures import OWN
from podtune.runner.records import Pod
from podtune.runner.settings import RunnerSettings
from podtune.runner.trial_machine import TrialMachine

Retention = Literal["None", "Failed", "All"]


class Cleanup:
    """Gathers finished trials whose pods may go, so that one call deletes many; retained pods stay until the end.

    Deleting a pod costs the API server about as much as making one. So it is not done at once, which also leaves time
    to look at the log of a trial that has just ended.
    """

    def __init__(self, retention: Retention, settings: RunnerSettings, dispatch: Dispatch) -> None:
        self.retention = retention
        self._settings = settings
        self._dispatch = dispatch
        self._gathered: dict[str, tuple[float, TrialMachine]] = {}
        """By name, the earliest first: since when the trial's pods are not needed any more."""
        self._retaining: dict[str, TrialMachine] = {}
        self._over = False

    def settle(self, trial: TrialMachine, now: float) -> None:
        """Takes in a trial: once its end is durable all its pods are to go, and before that those of old attempts."""
        since = self._gathered.pop(trial.name, (now, trial))[0]
        self._retaining.pop(trial.name, None)
        if not trial.is_durable or trial.deleting:
            return
        retained = {pod.uid for pod in trial.leftovers.values() if self._retains(trial, pod)}
        if retained:
            self._retaining[trial.name] = trial
        doomed = [
            pod
            for pod in trial.leftovers.values()
            if pod.uid not in retained
            and not pod.deleting
            and pod.uid not in trial.unseen.deletions
            and (trial.is_finished or pod.attempt < trial.attempt)  # a later one is for another operator to judge
        ]
        if trial.is_finished and not retained and any(pod.is_over for pod in doomed):
            self._gathered[trial.name] = (since, trial)
            doomed = [pod for pod in doomed if not pod.is_over]  # a bulk deletion passes these over
        for pod in doomed:
            self._dispatch.ask(DeletePod(trial.name, pod.name, pod.uid), now, trial.name)

    def release(self) -> list[str]:
        """The experiment is over, nothing is retained any more: the trials that have to be looked at for that."""
        self._over = True
        self.retention = "None"
        return list(self._retaining)

    def sweep(self, now: float) -> None:
        """Asks for a bulk deletion when the experiment is over, too many pods lie about, or they have long enough."""
        if not self._gathered:
            return
        full = len(self._gathered) > self._settings.finished_pods
        due = now if self._over or full else next(iter(self._gathered.values()))[0] + self._settings.finished_pod_time
        if due > now:
            self._dispatch.alarms.set(EXPERIMENT, due)
            return
        trials = [trial for _, trial in islice(self._gathered.values(), self._settings.cleanup_batch)]
        if self._dispatch.ask(DeleteFinishedPods(tuple(trial.name for trial in trials)), now):
            for trial in trials:
                trial.unseen.deletions.update(pod.uid for pod in trial.leftovers.values() if pod.is_over)
                del self._gathered[trial.name]

    def _retains(self, trial: TrialMachine, pod: Pod) -> bool:
        if self.retention == "None" or not pod.is_over:
            return False
        last = trial.status.last_attempt
        failed = last is not None and last.failure_class in OWN
        return self.retention == "All" or (failed and last is not None and pod.attempt == last.attempt)
