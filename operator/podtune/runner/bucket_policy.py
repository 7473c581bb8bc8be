"""What is to be done in the bucket without a running trial, and when."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping

from podtune.api.experiment import ExperimentSpec
from podtune.protocol.storage_job import StoragePurpose, StoredTrial
from podtune.runner.records import Experiment
from podtune.runner.storage_work import Due
from podtune.runner.trial_machine import TrialMachine


class BucketPolicy:
    """Finds the jobs that are due, in the order in which they are to be done."""

    def __init__(self, trials: Mapping[str, TrialMachine]) -> None:
        """Makes the policy of an experiment.

        Args:
            trials: Its trials, as they are now.
        """
        self._trials = trials

    def due(self, experiment: Experiment, spec: ExperimentSpec, *, is_recorded: bool) -> list[Due]:
        """The jobs that are due, those included that are done already.

        Args:
            experiment: The Experiment.
            spec: The spec that it is served by.
            is_recorded: Whether its end stands in its status.
        """
        if spec.checkpoints.store is None or not self._trials:
            return []
        if is_recorded:
            return [Due(StoragePurpose.TIDY, experiment.status.completion_time or "", self._kept)]
        return []

    def _kept(self) -> Iterable[StoredTrial]:
        """Which checkpoints stay: those that the Trials record."""
        return _sorted(
            StoredTrial(trial.name, tuple(checkpoint.uri for checkpoint in trial.saved.checkpoints))
            for trial in self._trials.values()
        )


def _sorted(trials: Iterator[StoredTrial]) -> list[StoredTrial]:
    return sorted(trials, key=lambda trial: trial.trial)
