"""What is stored of the experiment itself, so that it can be made anew where the cluster is lost.

The agent of a running trial stores that Trial's record, and the agent of the running trial with the lowest number the
Experiment's: they ask for it with their reports. The records of trials without a pod are stored by a storage pod, the
job `Snapshot`, at most once each period while there is something new. At the experiment's end, the pod that prunes its
bucket stores what is left.

What such jobs have stored follows from the trigger of the latest one alone: three resource versions, `before-from-to`.
The job stores the trials without a pod that have changed after `before` and up to `to`; one is due again when a trial
has changed after `to`. The job before it went up to `from`: what changed in between is stored once more, for a version
may be seen later than a higher one. So a restarted operator knows as much as the one before it.
"""

from __future__ import annotations

import heapq
import json
import math
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

from typing_extensions import override

from podtune.api.base import ApiModel
from podtune.api.names import ANNOTATION_AUTHOR, API_VERSION, EXPERIMENT_KIND, TRIAL_KIND, TrialState
from podtune.api.resources.experiment import ExperimentSpec
from podtune.api.resources.storage_jobs import StorageJob, StorageJobState
from podtune.api.resources.trial_numbers import is_added
from podtune.protocol.messages import Report
from podtune.protocol.snapshot import MAX_RECORD, SnapshotRecord
from podtune.protocol.storage_job import StoragePurpose, StoredTrial
from podtune.runner.checkpoints.storage_work import StorageJobSpec
from podtune.runner.records import Experiment
from podtune.runner.search.added_trials import strip_spec
from podtune.runner.timestamps import parse_rfc3339
from podtune.runner.trial.machine import TrialMachine
from podtune.runner.trials import Trials

TRIALS_A_JOB = 1000
"""How many trials a job is due for, at most: the operator has all their records in memory at once."""


@dataclass(frozen=True, slots=True)
class _Window:
    """What a job stores, as its trigger tells it."""

    before: int = 0
    start: int = 0
    to: int = 0

    def format(self) -> str:
        return f"{self.before}-{self.start}-{self.to}"


@dataclass(frozen=True, slots=True)
class SnapshotJob(StorageJobSpec):
    """A job that stores records."""

    experiment: Experiment
    spec: ExperimentSpec
    trials: Trials

    @override
    def describe_trials(self) -> list[StoredTrial]:
        """The records to store."""
        window = _parse_window(self.trigger)
        records = _encode_all(self.experiment, self.spec, self.trials, window.before, window.to)
        return [StoredTrial(record.trial or self.experiment.name, record=record) for record in records]


class Snapshots:
    """Knows which trials' records no agent stores, and answers the agents that store the others."""

    def __init__(self, spec: ExperimentSpec, trials: Trials) -> None:
        self._spec = spec
        self._trials = trials
        self._to = 0
        self._changed: dict[str, int] = {}
        """Versions of trials without a pod that have changed after `_to`."""
        self._running: set[int] = set()
        self._lowest: list[int] = []
        """A heap of indexes; those that are not in `_running` any more are passed over."""

    def take_spec(self, spec: ExperimentSpec) -> None:
        """Goes by another spec from now on."""
        self._spec = spec

    @property
    def is_enabled(self) -> bool:
        """Whether snapshots are stored."""
        return self._spec.checkpoints.store is not None and self._spec.snapshot.seconds > 0

    # Which trials need what

    def update(self, trial: TrialMachine, now: float) -> None:  # noqa: ARG002
        """See `TrialIndex.update`."""
        if _lacks_pod(trial) and trial.seen.version > self._to:
            self._changed[trial.name] = trial.seen.version
        else:
            self._changed.pop(trial.name, None)
        if _lacks_pod(trial):
            self._running.discard(trial.index)
        elif trial.index not in self._running:
            self._running.add(trial.index)
            heapq.heappush(self._lowest, trial.index)

    def forget(self, trial: TrialMachine) -> None:
        """A Trial was deleted."""
        self._changed.pop(trial.name, None)
        self._running.discard(trial.index)

    def _is_lowest(self, trial: TrialMachine) -> bool:
        """Whether no running trial has a lower number."""
        while self._lowest and self._lowest[0] not in self._running:
            heapq.heappop(self._lowest)
        return not self._lowest or trial.index <= self._lowest[0]

    def answer(self, trial: TrialMachine, report: Report, experiment: Experiment) -> tuple[SnapshotRecord, ...]:
        """The records that an agent asks for, where they are newer than those that it has stored."""
        if report.stored is None or not self.is_enabled:
            return ()
        records = []
        if trial.seen.version > report.stored.trial:
            records.append(encode_trial(experiment.namespace, trial))
        if experiment.version > report.stored.experiment and self._is_lowest(trial):
            records.append(encode_experiment(experiment, self._spec))
        return tuple(record for record in records if len(record.body) <= MAX_RECORD)

    # The jobs of storage pods

    def find_due_while_running(self, experiment: Experiment, now: float) -> tuple[StorageJobSpec | None, float] | None:
        """The job that is due while the experiment goes on, and from when on; no job where that is later than now."""
        job = _find_job(experiment)
        if job is not None and not job.state.is_finished:
            return self._make_job(experiment, job.trigger), 0.0
        window = self._follow(job)
        if not self.is_enabled or not self._changed:
            return None
        status = experiment.status
        last = max(status.start_time or "", (job.completion_time if job is not None else "") or "")
        at = (parse_rfc3339(last) or now) + self._spec.snapshot.seconds
        return self._make_job(experiment, self._extend(window).format()) if at <= now else None, at

    def find_due_at_end(self, experiment: Experiment) -> StorageJobSpec | None:
        """The job that is due before the last records are stored: one that has begun, or where there are too many."""
        job = _find_job(experiment)
        window = self._follow(job)
        is_many = len(self._changed) > TRIALS_A_JOB
        if job is not None and (job.state is StorageJobState.RUNNING or (is_many and not job.state.is_finished)):
            return self._make_job(experiment, job.trigger)
        if not self.is_enabled or not is_many:
            return None
        return self._make_job(experiment, self._extend(window).format())

    def list_last(self, experiment: Experiment) -> list[SnapshotRecord]:
        """The records that are left to be stored at the end, the Experiment's last; none where none are kept."""
        if not self.is_enabled:
            return []
        return _encode_all(experiment, self._spec, self._trials, self._follow(_find_job(experiment)).before)

    def _make_job(self, experiment: Experiment, trigger: str) -> SnapshotJob:
        return SnapshotJob(StoragePurpose.SNAPSHOT, trigger, experiment, self._spec, self._trials)

    def _follow(self, job: StorageJob | None) -> _Window:
        """What jobs have stored so far, as the next one's window begins; brings up to date which trials changed since.

        One that was given up has stored nothing. The next one begins where it did, but is due only when a trial has
        changed after it: it would be given up like the one before.
        """
        window = _Window()
        if job is not None:
            known = _parse_window(job.trigger)
            is_stored = job.state is StorageJobState.DONE
            window = _Window(known.start, known.to, known.to) if is_stored else known
        if window.to != self._to:
            self._to = window.to
            self._changed = {
                trial.name: trial.seen.version
                for trial in self._trials.values()
                if _lacks_pod(trial) and trial.seen.version > self._to
            }
        return window

    def _extend(self, window: _Window) -> _Window:
        """The window with the oldest changes since, as many as one job stores."""
        oldest = heapq.nsmallest(TRIALS_A_JOB, self._changed.values())
        return replace(window, to=max(oldest, default=window.to))


def _encode_all(
    experiment: Experiment, spec: ExperimentSpec, trials: Trials, before: int, to: float = math.inf
) -> list[SnapshotRecord]:
    """The records of the trials without a pod that have changed after `before` and up to `to`, and the Experiment's."""
    chosen = [trial for trial in trials.values() if _lacks_pod(trial) and before < trial.seen.version <= to]
    records = [encode_trial(experiment.namespace, trial) for trial in sorted(chosen, key=lambda trial: trial.name)]
    records.append(encode_experiment(experiment, spec))
    return [record for record in records if len(record.body) <= MAX_RECORD]


def encode_trial(namespace: str, trial: TrialMachine) -> SnapshotRecord:
    """A Trial's record."""
    seen = trial.seen
    metadata: dict[str, Any] = {"namespace": namespace, "name": seen.name, "uid": seen.uid}
    metadata["generation"] = seen.generation
    if seen.author:
        metadata["annotations"] = {ANNOTATION_AUTHOR: seen.author}
    spec = strip_spec(seen.spec, trial.context.spec) if is_added(seen.spec.index) else seen.spec
    body = {"kind": TRIAL_KIND, "metadata": metadata, "spec": _dump(spec), "status": _dump(seen.status)}
    return SnapshotRecord(trial.name, seen.version, _encode(body))


def encode_experiment(experiment: Experiment, spec: ExperimentSpec) -> SnapshotRecord:
    """The Experiment's record: with the spec that it is served by."""
    metadata = {
        "namespace": experiment.namespace,
        "name": experiment.name,
        "uid": experiment.uid,
        "generation": experiment.generation,
        "labels": dict(experiment.labels),
        "annotations": dict(experiment.annotations),
    }
    written = spec.model_dump(mode="json", by_alias=True, exclude_unset=True)
    body = {"kind": EXPERIMENT_KIND, "metadata": metadata, "spec": written, "status": _dump(experiment.status)}
    return SnapshotRecord("", experiment.version, _encode(body))


def _dump(model: ApiModel) -> dict[str, Any]:
    return model.model_dump(mode="json", by_alias=True, exclude_defaults=True, warnings=False)


def _encode(body: Mapping[str, Any]) -> str:
    return json.dumps({"apiVersion": API_VERSION, **body}, separators=(",", ":"))


def _lacks_pod(trial: TrialMachine) -> bool:
    """Whether no agent stores a trial's record: the status alone says so, whatever is known of pods."""
    return trial.saved.state is not TrialState.RUNNING


def _find_job(experiment: Experiment) -> StorageJob | None:
    storage = experiment.status.storage
    return storage.find_job(StoragePurpose.SNAPSHOT) if storage is not None else None


def _parse_window(trigger: str) -> _Window:
    before, start, to = map(int, trigger.split("-"))
    return _Window(before, start, to)
