"""Which jobs are due in the bucket that no trial's agent does, and when."""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass

from typing_extensions import override

from podtune.api.conditions import find_condition
from podtune.api.names import ConditionType, TrialState
from podtune.api.resources.experiment import ExperimentSpec
from podtune.protocol.storage_job import StoragePurpose, StoredTrial
from podtune.runner.checkpoints import exports
from podtune.runner.checkpoints.retention import STOPPED_REASONS
from podtune.runner.checkpoints.snapshots import Snapshots
from podtune.runner.checkpoints.storage_work import StorageJobSpec, is_over
from podtune.runner.experiment.tracker import ExperimentTracker
from podtune.runner.records import Experiment
from podtune.runner.scheduling.run_status import describe_tracked_run
from podtune.runner.timestamps import parse_rfc3339
from podtune.runner.trial import ledger
from podtune.runner.trial.machine import TrialMachine
from podtune.runner.trials import Trials


@dataclass(frozen=True, slots=True)
class _Export(StorageJobSpec):
    experiment: Experiment
    spec: ExperimentSpec
    trials: Trials
    best: TrialMachine | None

    @override
    def describe_trials(self) -> list[StoredTrial]:
        """The checkpoints to export."""
        return exports.list_wanted(self.experiment, self.spec, self.trials.values(), self.best)


@dataclass(frozen=True, slots=True)
class _Prune(StorageJobSpec):
    experiment: Experiment
    trials: Trials
    snapshots: Snapshots

    @override
    def describe_trials(self) -> list[StoredTrial]:
        """Which checkpoints stay: those that the Trials record; and which decisions and records are still to be stored.

        The Experiment's records come last: those of a machine made anew may be longer, and move no other one.
        """
        records = {record.trial: record for record in self.snapshots.list_last(self.experiment)}
        kept = (
            StoredTrial(
                trial.name,
                kept=tuple(checkpoint.uri for checkpoint in trial.saved.checkpoints),
                ledger=tuple(json.dumps(asdict(entry)) for entry in ledger.list_unexported(trial.saved)),
                record=records.get(trial.name),
                **describe_tracked_run(self.experiment, trial),
            )
            for trial in self.trials.values()
        )
        own = [
            StoredTrial(self.experiment.name, record=record) for record in records.values() if not record.is_of_trial
        ]
        return [*sorted(kept, key=lambda trial: trial.trial), *own]


@dataclass(frozen=True, slots=True)
class _PruneStopped(StorageJobSpec):
    trials: Trials

    @override
    def describe_trials(self) -> list[StoredTrial]:
        """Which checkpoints stay of trials that were stopped: they never run again while the experiment does."""
        return sorted(
            (
                StoredTrial(trial.name, kept=tuple(checkpoint.uri for checkpoint in trial.saved.checkpoints))
                for trial in self.trials.values()
                if trial.saved.state is TrialState.TERMINATED and trial.saved.reason in STOPPED_REASONS
            ),
            key=lambda trial: trial.trial,
        )


def find_due(
    experiment: Experiment, spec: ExperimentSpec, trials: Trials, tracker: ExperimentTracker, snapshots: Snapshots
) -> list[StorageJobSpec]:
    """Finds the jobs that are due, in the order in which to do them, including those that are already done."""
    if spec.checkpoints.store is None or not trials or not tracker.is_over:
        return []
    due: list[StorageJobSpec] = []
    end = _find_end_time(experiment)
    if exports.is_any(spec, trials.values(), tracker.best):
        trigger = f"{end} {exports.compute_settings_tag(experiment, spec)}"
        due.append(_Export(StoragePurpose.EXPORT, trigger, experiment, spec, trials, tracker.best))
    last = _Prune(StoragePurpose.PRUNE, end, experiment, trials, snapshots)
    earlier = None if is_over(experiment.status.storage, last) else snapshots.find_due_at_end(experiment)
    return [*due, *([earlier] if earlier is not None else []), last]


def find_due_while_running(
    experiment: Experiment, trials: Trials, last_stop: str, period: float
) -> tuple[StorageJobSpec, float] | None:
    """Finds the job that is due while trials run, if there is any, and from when on.

    Agents delete what their own trial does not keep. What they leave is that of trials whose agent was gone before a
    better trial displaced theirs, or before it had deleted anything.

    Args:
        experiment: The Experiment.
        trials: Its trials.
        last_stop: See `EndRetention.last_stop`.
        period: Seconds between two such jobs, at least.
    """
    status = experiment.status
    jobs = status.storage.jobs if status.storage is not None else []
    job = next((job for job in jobs if job.purpose is StoragePurpose.PRUNE_STOPPED), None)
    if job is not None and not job.state.is_finished:
        return _PruneStopped(StoragePurpose.PRUNE_STOPPED, job.trigger, trials), 0.0
    pruned = [job for job in jobs if job.purpose in (StoragePurpose.PRUNE, StoragePurpose.PRUNE_STOPPED)]
    if last_stop <= max((job.trigger for job in pruned), default=""):
        return None
    last = max([status.start_time or last_stop, *(job.completion_time or "" for job in pruned)])
    return _PruneStopped(StoragePurpose.PRUNE_STOPPED, last_stop, trials), (parse_rfc3339(last) or 0.0) + period


def _find_end_time(experiment: Experiment) -> str:
    """When the experiment's end was decided. If the experiment resumes, it may end again later."""
    ends = (ConditionType.SUCCESS_CRITERIA_MET, ConditionType.FAILURE_TARGET)
    found = (find_condition(experiment.status.conditions, type_) for type_ in ends)
    return next((end.last_transition_time for end in found if end is not None and end.status == "True"), "")
