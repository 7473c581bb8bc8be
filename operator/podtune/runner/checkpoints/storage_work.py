"""Work in the bucket that no trial's agent can do: the jobs that are due, and one short-lived pod at a time to do them.

A job goes through the Experiment's status like any decision. Its start, with the number of its pod, is written before
the pod is created. How the pod ended is written before the pod is deleted, and before anything that waits for the job
continues. Everything follows from the status as the API server has it and from the observed pods, so a restarted
operator continues with the same step. A job is tried a few times, with a backoff, and then given up, so that nothing
waits for it for ever.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace

from podtune.api.conditions import Condition, clip, set_condition
from podtune.api.names import ConditionType, ExperimentReason
from podtune.api.resources.experiment import ExperimentStatus
from podtune.api.resources.storage_jobs import StorageJob, StorageJobState, StorageStatus
from podtune.protocol.fields import ProtocolError
from podtune.protocol.storage_job import StoragePurpose, StorageReport, StoredTrial, parse_storage_report
from podtune.runner.action_queue import EXPERIMENT, ActionQueue
from podtune.runner.actions import (
    ActionResult,
    ActionStatus,
    CreateStoragePod,
    DeletePod,
    EmitEvent,
    format_storage_pod_name,
)
from podtune.runner.records import Experiment, PodPhase, StoragePod
from podtune.runner.settings import RunnerSettings
from podtune.runner.timestamps import format_rfc3339, parse_rfc3339

CONDITIONS = {
    StoragePurpose.EXPORT: ConditionType.EXPORTED,
    StoragePurpose.PRUNE: ConditionType.BUCKET_PRUNED,
    StoragePurpose.PURGE: ConditionType.BUCKET_PURGED,
}
"""The condition that tells how the latest job of a purpose has gone."""
_TRUTHS = {
    StorageJobState.DONE: (True, ExperimentReason.STORAGE_WORK_DONE),
    StorageJobState.FAILED: (False, ExperimentReason.STORAGE_WORK_FAILED),
}
_BESIDE_TRIALS = (StoragePurpose.PRUNE_STOPPED, StoragePurpose.SNAPSHOT)
"""What is done while trials start and end."""
_AWAITED_TRIES = 2
"""An end does not wait for a job any longer that has failed so often."""
_NO_WORK = StorageStatus()
CREATE_STORAGE_POD = ("create-storage-pod", "")


@dataclass(frozen=True, slots=True)
class StorageJobSpec:
    """A job that is due.

    Attributes:
        trigger: What it is due for; done for this, it is not due again.
    """

    purpose: StoragePurpose
    trigger: str

    def describe_trials(self) -> Sequence[StoredTrial]:
        """What the job's pod has to know of the trials; asked for only when the pod is made."""
        return ()


class StorageWork:
    """The storage pods of one experiment."""

    def __init__(self, experiment: Experiment, actions: ActionQueue, settings: RunnerSettings) -> None:
        self._experiment = experiment
        self._actions = actions
        self._settings = settings
        self._pods: dict[str, StoragePod] = {}
        self._made: set[int] = set()
        """Numbers of the pods that are known to be made, with all that belongs to them."""
        self._refused: dict[int, str] = {}
        """Why pods of these numbers could not be made."""
        self._deleted: set[str] = set()
        """UIDs of pods whose deletion was accepted, and has not been seen yet."""
        self.is_namespace_ending = False
        """Whether pods can no longer be created because the namespace is being deleted."""
        self._told = {(job.purpose, job.trigger) for job in self._status.jobs if job.state is StorageJobState.FAILED}

    # Observations of objects

    def observe_experiment(self, experiment: Experiment) -> None:
        """Takes in a version of the Experiment."""
        self._experiment = experiment

    def owns(self, pod: str) -> bool:
        """Whether a pod of this name is one of ours."""
        return pod in self._pods

    def observe_pod(self, pod: StoragePod) -> None:
        """Takes in a version of a storage pod; one that is gone is reported with `gone` set."""
        known = self._pods.get(pod.name)
        if known is None or known.uid != pod.uid or pod.version >= known.version or pod.gone:
            self._pods[pod.name] = pod

    def on_action_result(self, action: CreateStoragePod | DeletePod, result: ActionResult) -> None:
        """Hears whether a pod was made, or its deletion accepted."""
        match action:
            case DeletePod() if result.status is ActionStatus.DONE:
                self._deleted.add(action.uid)
            case CreateStoragePod() if result.status is ActionStatus.DONE:
                self._made.add(action.number)
            case CreateStoragePod() if result.status is ActionStatus.REFUSED:
                self._refused[action.number] = result.message
                self.is_namespace_ending = result.reason is ExperimentReason.NAMESPACE_ENDING

    # Decisions

    @property
    def is_busy(self) -> bool:
        """Whether a pod is at work at the end: what it was told of the trials has to hold until it has ended."""
        return any(
            job.state is StorageJobState.RUNNING and job.purpose not in _BESIDE_TRIALS for job in self._status.jobs
        )

    def is_over(self, due: StorageJobSpec) -> bool:
        """Whether a job has succeeded or failed for good, and that is on record."""
        return is_over(self._status, due)

    def is_waited_for(self, due: StorageJobSpec, now: float) -> bool:
        """Whether the experiment's end waits for a job: not long, and not again and again, as the store may be gone."""
        job = self._status.find_job(due.purpose)
        if job is None or not _is_for(job, due):
            return True
        until = (parse_rfc3339(job.start_time) or now) + self._settings.storage_end_wait
        is_waited_for = job.tries <= _AWAITED_TRIES and now < until and not job.state.is_finished
        if is_waited_for:
            self._actions.timers.set(EXPERIMENT, until)
        return is_waited_for

    def find_job_problem(self, due: StorageJobSpec) -> str:
        """Why a job was given up; empty where it was not."""
        job = self._status.find_job(due.purpose)
        return job.message if job is not None and _is_for(job, due) and job.state is StorageJobState.FAILED else ""

    def decide(self, due: Sequence[StorageJobSpec], now: float) -> StorageStatus | None:
        """Brings the work forward, asks for the actions that are due, and returns what the status should say of it."""
        self._tell(now)
        self._delete_pods(now)
        storage = self._status
        for known in storage.jobs:
            if known.state is StorageJobState.RUNNING and not any(_is_for(known, one) for one in due):
                return self._call_off(storage, known, now)
        todo = next((one for one in due if not self.is_over(one)), None)
        if todo is None:
            return self._experiment.status.storage
        job = storage.find_job(todo.purpose)
        if job is not None and _is_for(job, todo) and job.state is StorageJobState.RUNNING:
            return self._go_on(storage, job, todo, now)
        if any(map(self._may_start, self._pods.values())):
            return self._experiment.status.storage  # one that was given up: two must not work at the same time
        if job is None or not _is_for(job, todo):
            return storage.put_job(_build_job(todo, storage.pods + 1, 1, now))
        retry = parse_rfc3339(job.retry_time) or 0.0
        if now < retry <= now + self._settings.storage_backoff.maximum:  # or the clock has gone back since
            self._actions.timers.set(EXPERIMENT, retry)
            return storage
        return storage.put_job(_build_job(todo, storage.pods + 1, job.tries + 1, now))

    def _go_on(self, storage: StorageStatus, job: StorageJob, due: StorageJobSpec, now: float) -> StorageStatus:
        """Looks after a job that is on record as running."""
        pod = self._pods.get(self._format_name(job))
        if CREATE_STORAGE_POD in self._actions:
            return storage  # it would make a pod once more that is deleted meanwhile
        if pod is not None and pod.is_over:
            report = _read_report(pod, job.purpose)
            told = job.model_copy(update={"uri": report.uri})
            return storage.put_job(self._record_end(told, report.ok, report.message, now))
        if job.pod in self._refused:
            return storage.put_job(self._record_end(job, False, self._refused[job.pod], now))
        if pod is None or not pod.started:
            late = (parse_rfc3339(job.start_time) or now) + self._settings.storage_start_deadline
            if now >= late:
                why = pod.waiting if pod is not None and pod.waiting else "no reason is known"
                return storage.put_job(self._record_end(job, False, f"the storage pod has not started: {why}", now))
            self._actions.timers.set(EXPERIMENT, late)
        # One that is there may lack what belongs to it, if an operator was killed in between.
        is_whole = job.pod in self._made or (pod is not None and pod.started)
        if not is_whole and self._actions.is_ready(CREATE_STORAGE_POD, now):
            self._actions.enqueue(CreateStoragePod(job.purpose, job.pod, tuple(due.describe_trials())), now)
        return storage

    def _call_off(self, storage: StorageStatus, job: StorageJob, now: float) -> StorageStatus:
        """Ends a job that is no longer due; its record is removed when its pod is gone."""
        pod = self._pods.get(self._format_name(job))
        if CREATE_STORAGE_POD in self._actions:
            return storage
        if pod is not None and not pod.is_over:
            self._delete(pod, now)
            return storage
        return storage.remove_job(job.purpose)

    def _delete_pods(self, now: float) -> None:
        """Deletes pods whose end is on record, and those that were given up."""
        running = {self._format_name(job) for job in self._status.jobs if job.state is StorageJobState.RUNNING}
        for pod in [pod for pod in self._pods.values() if pod.name not in running]:
            if pod.gone:
                del self._pods[pod.name]
                self._deleted.discard(pod.uid)
            else:
                self._delete(pod, now)

    def _may_start(self, pod: StoragePod) -> bool:
        return not (pod.is_over or self._is_going(pod))

    def _is_going(self, pod: StoragePod) -> bool:
        return pod.deleting or pod.uid in self._deleted

    def _delete(self, pod: StoragePod, now: float) -> None:
        if not self._is_going(pod):
            self._actions.enqueue(DeletePod("", pod.name, pod.uid), now)

    def _tell(self, now: float) -> None:
        """Tells people of jobs that were given up."""
        for job in self._status.jobs:
            if job.state is StorageJobState.FAILED and (job.purpose, job.trigger) not in self._told:
                self._told.add((job.purpose, job.trigger))
                message = f"{job.purpose} failed after {job.tries} tries: {job.message}"
                self._actions.enqueue(EmitEvent("", ExperimentReason.STORAGE_WORK_FAILED, message, warning=True), now)

    def _record_end(self, job: StorageJob, ok: bool, message: str, now: float) -> StorageJob:
        if ok or job.tries >= self._settings.storage_tries:
            state = StorageJobState.DONE if ok else StorageJobState.FAILED
            times = {"completion_time": format_rfc3339(now)}
        else:
            state = StorageJobState.WAITING
            wait = self._settings.storage_backoff.compute_delay(job.tries, f"{self._experiment.uid}/{job.purpose}")
            times = {"retry_time": format_rfc3339(now + wait)}
        return job.model_copy(update={"state": state, "message": clip(message), **times})

    @property
    def _status(self) -> StorageStatus:
        return self._experiment.status.storage or _NO_WORK

    def _format_name(self, job: StorageJob) -> str:
        return format_storage_pod_name(self._experiment.name, job.pod)


def is_over(storage: StorageStatus | None, due: StorageJobSpec) -> bool:
    """Whether a job has succeeded or failed for good, by what is on record."""
    job = storage.find_job(due.purpose) if storage is not None else None
    return job is not None and _is_for(job, due) and job.state.is_finished


def set_storage(status: ExperimentStatus, storage: StorageStatus | None, *, now: str) -> ExperimentStatus:
    """The Experiment's status with what it says of work in the bucket, in a condition too."""
    conditions = tuple(status.conditions)
    for job in storage.jobs if storage is not None else ():
        if job.purpose in CONDITIONS:
            holds, reason = _TRUTHS.get(job.state, (None, ExperimentReason.STORAGE_WORK_PENDING))
            type_, generation = CONDITIONS[job.purpose], status.observed_generation
            conditions = set_condition(conditions, type_, holds, reason, job.message, now=now, generation=generation)
        if job.purpose is StoragePurpose.EXPORT and _has_end(conditions) and status.best is not None:
            status = status.model_copy(update={"best": status.best.model_copy(update={"exported": job.uri})})
    return status.model_copy(update={"storage": storage, "conditions": list(conditions)})


def _has_end(conditions: Iterable[Condition]) -> bool:
    """Whether the experiment has ended: otherwise an export from an earlier end may not be the best."""
    ends = (ConditionType.SUCCESS_CRITERIA_MET, ConditionType.FAILURE_TARGET)
    return any(condition.type in ends and condition.status == "True" for condition in conditions)


def _is_for(job: StorageJob, due: StorageJobSpec) -> bool:
    return job.purpose is due.purpose and job.trigger == due.trigger


def _build_job(due: StorageJobSpec, pod: int, tries: int, now: float) -> StorageJob:
    return StorageJob(
        purpose=due.purpose,
        trigger=due.trigger,
        state=StorageJobState.RUNNING,
        pod=pod,
        tries=tries,
        start_time=format_rfc3339(now),
        message=f"pod {pod} is running",
    )


def _read_report(pod: StoragePod, purpose: StoragePurpose) -> StorageReport:
    """What an ended pod says about its job, or what to say instead if it says nothing."""
    try:
        report = parse_storage_report(pod.message)
        if report.purpose is purpose and pod.phase.is_finished:
            return replace(report, ok=report.ok and pod.phase is PodPhase.SUCCEEDED)
    except ProtocolError:
        pass  # it was ended before it could say anything
    if not pod.phase.is_finished:
        return StorageReport(purpose, ok=False, message="the storage pod was deleted before it ended")
    why = pod.message or pod.reason or "no reason is known"
    return StorageReport(purpose, ok=False, message=f"the storage pod ended without a report: {why}")
