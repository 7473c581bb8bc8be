"""What is to be done in the bucket without a running trial, and when."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping
from dataclasses import asdict

from podtune.api.conditions import find_condition
from podtune.api.names import ConditionType
from podtune.api.resources.experiment import ExperimentSpec
from podtune.protocol.storage_job import StoragePurpose, StoredTrial
from podtune.runner.checkpoints import exports
from podtune.runner.checkpoints.storage_work import StorageJobSpec
from podtune.runner.records import Experiment
from podtune.runner.trial import ledger
from podtune.runner.trial.machine import TrialMachine


class DueJobs:
    """Finds the jobs that are due, in the order in which they are to be done."""

    def __init__(self, trials: Mapping[str, TrialMachine], best: Callable[[], TrialMachine | None]) -> None:
        """Makes the policy of an experiment.

        Args:
            trials: Its trials, as they are now.
            best: Which one is the best.
        """
        self._trials = trials
        self._best = best

    def find(
        self, experiment: Experiment, spec: ExperimentSpec, *, is_over: bool, is_recorded: bool
    ) -> list[StorageJobSpec]:
        """The jobs that are due, those included that are done already.

        Args:
            experiment: The Experiment.
            spec: The spec that it is served by.
            is_over: Whether it has come to its end, and nothing of it goes on.
            is_recorded: Whether that stands in its status, as Complete or Failed.
        """
        if spec.checkpoints.store is None or not self._trials or not is_over:
            return []
        due: list[StorageJobSpec] = []
        if exports.is_any(spec, self._trials.values(), self._best()):
            trigger = f"{_end(experiment)} {exports.settings_tag(experiment, spec)}"
            due.append(StorageJobSpec(StoragePurpose.EXPORT, trigger, lambda: self._exported(experiment, spec)))
        if is_recorded:
            due.append(StorageJobSpec(StoragePurpose.PRUNE, _end(experiment), self._kept))
        return due

    def _exported(self, experiment: Experiment, spec: ExperimentSpec) -> list[StoredTrial]:
        return exports.wanted(experiment, spec, self._trials.values(), self._best())

    def _kept(self) -> list[StoredTrial]:
        """Which checkpoints stay: those that the Trials record; and which decisions are still to be stored."""
        return _sorted(
            StoredTrial(
                trial.name,
                kept=tuple(checkpoint.uri for checkpoint in trial.saved.checkpoints),
                ledger=tuple(json.dumps(asdict(entry)) for entry in ledger.not_exported(trial.saved)),
            )
            for trial in self._trials.values()
        )


def _end(experiment: Experiment) -> str:
    """When the experiment's end was decided: it may come to another one, if it goes on."""
    ends = (ConditionType.SUCCESS_CRITERIA_MET, ConditionType.FAILURE_TARGET)
    found = (find_condition(experiment.status.conditions, type_) for type_ in ends)
    return next((end.last_transition_time for end in found if end is not None and end.status == "True"), "")


def _sorted(trials: Iterator[StoredTrial]) -> list[StoredTrial]:
    return sorted(trials, key=lambda trial: trial.trial)
