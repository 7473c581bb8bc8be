"""What is stored of the experiment itself, so that it can be made anew where the cluster is lost.

The agent of a running trial stores that Trial's record, and the agent of the running trial with the lowest number the
Experiment's: they ask for it with their reports. The records of trials without a pod are stored by a storage pod, the
job `Snapshot`, at most once each period while there is something new. At the experiment's end, the pod that prunes its
bucket stores what is left.

What the experiment has learnt from an earlier one (its warm start) never changes and may be large. So the agent that
stores the Experiment's record looks whether the store has it, and asks for it only if not; of the jobs, the first and
the last have it.

What such jobs have stored follows from the trigger of the latest one alone, so that a restarted operator knows as much
as the one before it. It is `before-from-to-generation`: three resource versions, and the Experiment's generation. The
job stores the trials without a pod that have changed after `before` and up to `to`; one is due again when a trial has
changed after `to`. The job before it went up to `from`: what changed in between is stored once more, for a version may
be seen later than a higher one.

Each job stores the Experiment's record. While no trial runs, one is also due when the Experiment has another generation
than in the trigger: somebody has edited it, and no agent asks for its record.
"""

from __future__ import annotations

import heapq
import json
import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from typing_extensions import override

from podtune.api.base import ApiModel
from podtune.api.names import ANNOTATION_AUTHOR, API_VERSION, EXPERIMENT_KIND, TRIAL_KIND, TrialState
from podtune.api.resources.experiment import ExperimentSpec
from podtune.api.resources.storage_jobs import StorageJob, StorageJobState
from podtune.api.resources.trial_numbers import is_added
from podtune.protocol.messages import Report
from podtune.protocol.snapshot import MAX_RECORD, WARM_START, SnapshotRecord
from podtune.protocol.storage_job import StoragePurpose, StoredTrial
from podtune.runner.checkpoints.storage_work import StorageJobSpec
from podtune.runner.records import Experiment
from podtune.runner.scheduling.run_status import RunDescription, describe_tracked_run
from podtune.runner.search import warm_start
from podtune.runner.search.added_trials import strip_spec
from podtune.runner.timestamps import parse_rfc3339
from podtune.runner.trial.machine import TrialMachine
from podtune.runner.trials import Trials
from podtune.tuning.searchers.base import Observation

TRIALS_A_JOB = 1000
"""How many trials a job is due for, at most: the operator has all their records in memory at once."""


@dataclass(frozen=True, slots=True)
class _Window:
    """What a job stores, as its trigger tells it."""

    before: int = 0
    start: int = 0
    to: int = 0
    generation: int = 0

    def format(self) -> str:
        return f"{self.before}-{self.start}-{self.to}-{self.generation}"


@dataclass(frozen=True, slots=True)
class SnapshotJob(StorageJobSpec):
    """A job that stores records."""

    experiment: Experiment
    snapshots: Snapshots

    @override
    def describe_trials(self) -> list[StoredTrial]:
        """The records to store; the first job's with that of the warm start."""
        window = _parse_window(self.trigger)
        records = self.snapshots.encode_window(self.experiment, window.before, window.to)
        if not window.start:
            records += self.snapshots.list_warm_start()
        return [
            StoredTrial(
                record.trial if record.is_of_trial else self.experiment.name,
                record=record,
                **self.snapshots.describe_run_of(self.experiment, record),
            )
            for record in records
        ]


class Snapshots:
    """Knows which trials' records no agent stores, and answers the agents that store the others."""

    def __init__(
        self, spec: ExperimentSpec, trials: Trials, prior_observations: Sequence[Observation] | None = None
    ) -> None:
        """Knows of no trial yet.

        Args:
            spec: The spec that the experiment is served by.
            trials: Its trials.
            prior_observations: What an earlier experiment has found; None while that is not known.
        """
        self._spec = spec
        self._trials = trials
        self._prior_observations = prior_observations
        self._to = 0
        self._changed: dict[str, int] = {}
        """Versions of trials without a pod that have changed after `_to`."""
        self._running: set[int] = set()
        self._lowest: list[int] = []
        """A heap of indexes; those that are not in `_running` any more are passed over."""

    def take_spec(self, spec: ExperimentSpec) -> None:
        """Goes by another spec from now on."""
        self._spec = spec

    def take_prior_observations(self, observations: Sequence[Observation]) -> None:
        """Hears what an earlier experiment has found."""
        self._prior_observations = observations

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
        if report.stored.lacks_warm_start:
            return tuple(_leave_out_large(self.list_warm_start()))
        records = []
        if trial.seen.version > report.stored.trial:
            records.append(encode_trial(experiment.namespace, trial))
        if experiment.version > report.stored.experiment and self._is_lowest(trial):
            records.append(self._encode_experiment(experiment))
        return tuple(_leave_out_large(records))

    # Records

    def describe_run_of(self, experiment: Experiment, record: SnapshotRecord) -> RunDescription:
        """What a tracker is to be told of the trial that a record is of; nothing where it is no trial's."""
        trial = self._trials.get(record.trial) if record.is_of_trial else None
        return describe_tracked_run(experiment, trial) if trial is not None else {}

    def list_warm_start(self) -> list[SnapshotRecord]:
        """The record of what the experiment has learnt from an earlier one; none where there is nothing, or not yet.

        It is a ConfigMap like the one that the operator keeps, and has only this one version.
        """
        if not self._has_warm_start:
            return []
        assert self._spec.search.warm_start is not None
        assert self._prior_observations is not None
        data = warm_start.format_data(self._spec.search.warm_start.experiment, self._prior_observations)
        return [SnapshotRecord(WARM_START, 1, json.dumps({"apiVersion": "v1", "kind": "ConfigMap", "data": data}))]

    def encode_window(self, experiment: Experiment, before: int, to: float = math.inf) -> list[SnapshotRecord]:
        """Records of the trials without a pod that have changed after `before` and up to `to`, and the Experiment's."""
        chosen = [trial for trial in self._trials.values() if _lacks_pod(trial) and before < trial.seen.version <= to]
        records = [encode_trial(experiment.namespace, trial) for trial in sorted(chosen, key=lambda trial: trial.name)]
        return [*_leave_out_large([*records, self._encode_experiment(experiment)])]

    def _encode_experiment(self, experiment: Experiment) -> SnapshotRecord:
        return replace(encode_experiment(experiment, self._spec), has_warm_start=self._has_warm_start)

    @property
    def _has_warm_start(self) -> bool:
        return self._spec.search.warm_start is not None and self._prior_observations is not None

    # The jobs of storage pods

    def find_due_while_running(self, experiment: Experiment, now: float) -> tuple[StorageJobSpec | None, float] | None:
        """The job that is due while the experiment goes on, and from when on; no job where that is later than now."""
        job = _find_job(experiment)
        if job is not None and not job.state.is_finished:
            return self._make_job(experiment, job.trigger), 0.0
        window = self._follow(job)
        last = max(experiment.status.start_time or "", (job.completion_time if job is not None else "") or "")
        is_edited = last != "" and not self._running and experiment.generation != window.generation
        if not self.is_enabled or not (self._changed or is_edited):
            return None
        at = (parse_rfc3339(last) or now) + self._spec.snapshot.seconds
        return self._make_job(experiment, self._extend(window, experiment).format()) if at <= now else None, at

    def find_due_at_end(self, experiment: Experiment) -> StorageJobSpec | None:
        """The job that is due before the last records are stored: one that has begun, or where there are too many."""
        job = _find_job(experiment)
        window = self._follow(job)
        is_many = len(self._changed) > TRIALS_A_JOB
        if job is not None and (job.state is StorageJobState.RUNNING or (is_many and not job.state.is_finished)):
            return self._make_job(experiment, job.trigger)
        if not self.is_enabled or not is_many:
            return None
        return self._make_job(experiment, self._extend(window, experiment).format())

    def list_last(self, experiment: Experiment) -> list[SnapshotRecord]:
        """The records that are left to be stored at the end; none where none are kept.

        The Experiment's come last, with that of its warm start.
        """
        if not self.is_enabled:
            return []
        records = self.encode_window(experiment, self._follow(_find_job(experiment)).before)
        return records + self.list_warm_start()

    def _make_job(self, experiment: Experiment, trigger: str) -> SnapshotJob:
        return SnapshotJob(StoragePurpose.SNAPSHOT, trigger, experiment, self)

    def _follow(self, job: StorageJob | None) -> _Window:
        """What jobs have stored so far, as the next one's window begins; brings up to date which trials changed since.

        One that was given up has stored nothing. The next one begins where it did, but is due only when a trial has
        changed after it, or the Experiment was edited: it would be given up like the one before.
        """
        window = _Window()
        if job is not None:
            known = _parse_window(job.trigger)
            is_stored = job.state is StorageJobState.DONE
            window = replace(known, before=known.start, start=known.to) if is_stored else known
        if window.to != self._to:
            self._to = window.to
            self._changed = {
                trial.name: trial.seen.version
                for trial in self._trials.values()
                if _lacks_pod(trial) and trial.seen.version > self._to
            }
        return window

    def _extend(self, window: _Window, experiment: Experiment) -> _Window:
        """The window with the oldest changes since, as many as one job stores, and the Experiment as it is now."""
        oldest = heapq.nsmallest(TRIALS_A_JOB, self._changed.values())
        return replace(window, to=max(oldest, default=window.to), generation=experiment.generation)


def _leave_out_large(records: Sequence[SnapshotRecord]) -> Iterator[SnapshotRecord]:
    return (record for record in records if len(record.body) <= MAX_RECORD)


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
    return _Window(*map(int, trigger.split("-")))
