"""Which jobs are due in the bucket without a running trial, and when."""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass

from typing_extensions import override

from podtune.api.conditions import find_condition
from podtune.api.names import ConditionType
from podtune.api.resources.experiment import ExperimentSpec
from podtune.protocol.storage_job import StoragePurpose, StoredTrial
from podtune.runner.checkpoints import exports
from podtune.runner.checkpoints.storage_work import StorageJobSpec
from podtune.runner.experiment.tracker import ExperimentTracker
from podtune.runner.records import Experiment
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
    trials: Trials

    @override
    def describe_trials(self) -> list[StoredTrial]:
        """Which checkpoints stay: those that the Trials record; and which decisions are still to be stored."""
        kept = (
            StoredTrial(
                trial.name,
                kept=tuple(checkpoint.uri for checkpoint in trial.saved.checkpoints),
                ledger=tuple(json.dumps(asdict(entry)) for entry in ledger.list_unexported(trial.saved)),
            )
            for trial in self.trials.values()
        )
        return sorted(kept, key=lambda trial: trial.trial)


def find_due(
    experiment: Experiment, spec: ExperimentSpec, trials: Trials, tracker: ExperimentTracker
) -> list[StorageJobSpec]:
    """Finds the jobs that are due, in the order in which to do them, including those that are already done."""
    if spec.checkpoints.store is None or not trials or not tracker.is_over:
        return []
    due: list[StorageJobSpec] = []
    end = _find_end_time(experiment)
    if exports.is_any(spec, trials.values(), tracker.best):
        trigger = f"{end} {exports.compute_settings_tag(experiment, spec)}"
        due.append(_Export(StoragePurpose.EXPORT, trigger, experiment, spec, trials, tracker.best))
    if tracker.is_recorded:
        due.append(_Prune(StoragePurpose.PRUNE, end, trials))
    return due


def _find_end_time(experiment: Experiment) -> str:
    """When the experiment's end was decided. If the experiment resumes, it may end again later."""
    ends = (ConditionType.SUCCESS_CRITERIA_MET, ConditionType.FAILURE_TARGET)
    found = (find_condition(experiment.status.conditions, type_) for type_ in ends)
    return next((end.last_transition_time for end in found if end is not None and end.status == "True"), "")
