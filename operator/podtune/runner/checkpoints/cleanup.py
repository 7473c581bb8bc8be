"""Which ended pods are deleted, and when."""

from __future__ import annotations

from itertools import islice
from typing import Literal

from typing_extensions import override

from podtune.api.base import parse_duration
from podtune.api.resources.experiment import ExperimentSpec
from podtune.runner.action_queue import EXPERIMENT, ActionQueue
from podtune.runner.actions import ActionResult, ActionStatus, DeleteFinishedPods, DeletePod
from podtune.runner.attempts.classification import OWN_FAILURES
from podtune.runner.records import Pod
from podtune.runner.settings import RunnerSettings
from podtune.runner.trial.machine import TrialMachine
from podtune.runner.trials import TrialIndex, Trials

Retention = Literal["None", "Failed", "All"]


class Cleanup(TrialIndex):
    """Gathers finished trials whose pods may go, so that one call deletes many; retained pods stay for a while.

    The time that they stay after the experiment's end counts from the end that its status records, so an operator that
    was away meanwhile deletes them when it comes back.

    Deleting a pod costs the API server about as much as making one. So it is not done at once, which also leaves time
    to look at the log of a trial that has just ended.
    """

    def __init__(self, spec: ExperimentSpec, settings: RunnerSettings, actions: ActionQueue) -> None:
        self._settings = settings
        self._actions = actions
        self._gathered: dict[str, tuple[float, TrialMachine]] = {}
        """By name, the earliest first: since when the trial's pods are no longer needed."""
        self._retaining: dict[str, TrialMachine] = {}
        self._surplus: set[str] = set()
        """Trials whose pods are too many to be retained."""
        self._over = False
        self._expired = False
        self.take_spec(spec)

    def take_spec(self, spec: ExperimentSpec) -> None:
        """Hears what the user wants retained, and for how long."""
        self._wanted: Retention = spec.pod_retention
        self._time = parse_duration(spec.pod_retention_time)

    @property
    def retention(self) -> Retention:
        """Which pods are retained at present."""
        return "None" if self._expired else self._wanted

    @override
    def update(self, trial: TrialMachine, now: float) -> None:
        """Takes in a trial: once its end is durable, all its pods are to go; before that, those of old attempts."""
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
            and pod.uid not in trial.expectations.deletions
            and (trial.is_finished or pod.attempt < trial.attempt)  # a later one is another operator's to decide on
        ]
        if trial.is_finished and not retained and any(pod.is_over for pod in doomed):
            self._gathered[trial.name] = (since, trial)
            doomed = [pod for pod in doomed if not pod.is_over]  # a bulk deletion passes these over
        for pod in doomed:
            self._actions.enqueue(DeletePod(trial.name, pod.name, pod.uid), now, trial.name)

    def follow_end(self, ended: float | None, now: float, *, shared: bool) -> list[str]:
        """Takes in when the experiment ended, or that it has not.

        Args:
            ended: When that was; None while something of the experiment is still running.
            now: The present time.
            shared: Whether pods that have served several trials are retained.

        Returns:
            Names of trials to check: their retained pods may be deleted.
        """
        self._over = ended is not None
        self._expired = ended is not None and now >= ended + self._time
        if ended is None:
            self._surplus.clear()
            return []
        if self._expired:
            return list(self._retaining)
        if self._retaining or shared:
            self._actions.timers.set(EXPERIMENT, ended + self._time)
        return self._pick_surplus()

    def _pick_surplus(self) -> list[str]:
        """The first trials to end, if pods of too many trials are retained."""
        surplus = len(self._retaining) - self._settings.retained_pods
        if surplus <= 0:
            return []
        trials = sorted(self._retaining.values(), key=lambda trial: (trial.status.completion_time or "", trial.index))
        names = [trial.name for trial in trials[:surplus]]
        self._surplus.update(names)
        return names

    def delete_due(self, now: float) -> None:
        """Asks for a bulk deletion when the experiment is over, too many pods lie about, or they have long enough."""
        if not self._gathered:
            return
        full = len(self._gathered) > self._settings.finished_pods
        due = now if self._over or full else next(iter(self._gathered.values()))[0] + self._settings.finished_pod_time
        if due > now:
            self._actions.timers.set(EXPERIMENT, due)
            return
        trials = [trial for _, trial in islice(self._gathered.values(), self._settings.cleanup_batch)]
        if self._actions.enqueue(DeleteFinishedPods(tuple(trial.name for trial in trials)), now):
            for trial in trials:
                trial.expectations.deletions.update(pod.uid for pod in trial.leftovers.values() if pod.is_over)
                del self._gathered[trial.name]

    def on_action_result(self, action: DeleteFinishedPods, result: ActionResult, trials: Trials) -> list[str]:
        """Hears how a bulk deletion went; if not well, the pods that are still there are deleted once more.

        Returns:
            Names of the trials that have to be looked at for that.
        """
        failed = action.trials if result.status is not ActionStatus.DONE else ()
        known = [name for name in failed if name in trials]
        for name in known:
            trials[name].expectations.deletions.clear()
        return known

    def _retains(self, trial: TrialMachine, pod: Pod) -> bool:
        if self.retention == "None" or trial.name in self._surplus or not pod.is_over:
            return False
        last = trial.status.last_attempt
        failed = last is not None and last.failure_class in OWN_FAILURES
        return self.retention == "All" or (failed and last is not None and pod.attempt == last.attempt)
