"""An Experiment that is being deleted together with its checkpoints.

First its pods end, so that no agent stores anything. Then a storage pod deletes the experiment's objects from the
bucket, and the finalizer is removed. If that is impossible, for example in a terminating namespace, the finalizer is
removed all the same: people can delete what is left in a bucket, but not a namespace that hangs.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from podtune.api.names import ExperimentReason
from podtune.api.resources.experiment import ExperimentSpec
from podtune.protocol.assignment import parse_pod_uid
from podtune.protocol.storage_job import StoragePurpose
from podtune.runner.action_queue import ActionQueue
from podtune.runner.actions import DeletePod, EmitEvent, WriteExperimentStatus
from podtune.runner.checkpoints import upload_waits
from podtune.runner.checkpoints.storage_work import StorageJobSpec, StorageWork, set_storage
from podtune.runner.experiment import finalizer
from podtune.runner.experiment.finalizer import Finalizer
from podtune.runner.records import Experiment, Pod
from podtune.runner.timestamps import format_rfc3339
from podtune.runner.trial.machine import TrialMachine

DUE = StorageJobSpec(StoragePurpose.PURGE, "deletion")


class Deletion:
    """Takes an Experiment's deletion step by step to its end."""

    def __init__(self, actions: ActionQueue, storage: StorageWork) -> None:
        self._actions = actions
        self._storage = storage
        self._finalizer = Finalizer(actions)
        self._alive: set[str] | None = None
        """Trials that may have a pod that runs; None before the first look at all of them."""
        self._warned = False

    def decide(
        self,
        experiment: Experiment,
        spec: ExperimentSpec,
        now: float,
        *,
        trials: Mapping[str, TrialMachine],
        strays: Iterable[Pod],
        prefix: str,
        changed: Iterable[str],
    ) -> None:
        """Asks for what is due.

        Args:
            experiment: The Experiment, which is being deleted.
            spec: The spec that it is served by.
            now: The present time.
            trials: Its trials.
            strays: Pods of trials that are gone already.
            prefix: Where its checkpoints are, for people.
            changed: Trials that something has happened to since the last time.
        """
        if not finalizer.is_there(experiment):
            return  # the garbage collector sees to its Trials and pods
        if not finalizer.is_wanted(spec):
            self._finalizer.drop(experiment, now)
            return
        self._alive = set(trials) if self._alive is None else self._alive | set(changed)
        self._alive = {name for name in self._alive if name in trials and _list_living(trials[name].pods)}
        for name in self._alive:
            self._stop(trials[name], now)
        if self._alive or _list_living(strays):
            return
        if self._storage.is_namespace_ending:
            self._warn(prefix, "its namespace is being deleted", now)
            self._finalizer.drop(experiment, now)
            return
        storage = self._storage.decide([DUE], now)
        status = set_storage(experiment.status, storage, now=format_rfc3339(now))
        if status != experiment.status:
            self._actions.enqueue(WriteExperimentStatus(experiment.version, status), now)
        if self._storage.is_over(DUE):
            problem = self._storage.find_job_problem(DUE)
            if problem:
                self._warn(prefix, problem, now)
            self._finalizer.drop(experiment, now)

    def _stop(self, trial: TrialMachine, now: float) -> None:
        for pod in _list_living(trial.pods):
            if not pod.deleting and parse_pod_uid(pod.uid) not in trial.expectations.deletions:
                grace = upload_waits.compute_grace_period(trial, pod)
                self._actions.enqueue(DeletePod(trial.name, pod.name, parse_pod_uid(pod.uid), grace), now)

    def _warn(self, prefix: str, problem: str, now: float) -> None:
        if not self._warned:
            self._warned = True
            message = f"checkpoints may remain at {prefix} ({problem}); delete them there"
            reason = ExperimentReason.CHECKPOINTS_LEFT
            self._actions.enqueue(EmitEvent("", reason, message, warning=True, left_at=prefix), now)


def _list_living(pods: Iterable[Pod]) -> list[Pod]:
    return [pod for pod in pods if not pod.is_over]
