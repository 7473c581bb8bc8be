"""The API server of a simulation: the objects of one experiment."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import TypeVar

from podtune.api.base import ApiModel
from podtune.api.resources.experiment import ExperimentSpec, ExperimentStatus
from podtune.api.resources.trial import TrialSpec, TrialStatus
from podtune.api.resources.trial_requests import RetryRequest
from podtune.api.restore_from import RestoreFrom
from podtune.runner.records import Experiment, Trial
from podtune.simulation.pod import SimulatedPod

ModelT = TypeVar("ModelT", bound=ApiModel)


@dataclass(slots=True)
class Objects:
    """Holds the objects as they were written last.

    Attributes:
        pods: By name; those that are gone are taken out.
    """

    experiment: Experiment
    trials: dict[str, Trial] = field(default_factory=dict)
    pods: dict[str, SimulatedPod] = field(default_factory=dict)

    def create_trial(self, name: str, spec: TrialSpec) -> Trial:
        """Makes a Trial; one that is there stays as it is."""
        return self.trials.setdefault(name, Trial(name, f"{name}-uid", 1, 1, spec, TrialStatus()))

    def add_trial(self, name: str, parameters: Mapping[str, str], restore_from: RestoreFrom | None = None) -> Trial:
        """Makes a Trial as a person does: it belongs to nobody yet."""
        index = int(name.rpartition("-")[2])
        spec = TrialSpec(
            experiment=self.experiment.name, index=index, parameters=dict(parameters), restore_from=restore_from
        )
        return self.trials.setdefault(name, Trial(name, f"{name}-uid", 1, 1, spec, TrialStatus(), owned=False))

    def adopt_trial(self, name: str) -> Trial:
        """Gives a Trial that a person has made its owner."""
        known = self.trials[name]
        trial = self.trials[name] = replace(known, version=known.version + 1, owned=True)
        return trial

    def write_trial(self, name: str, status: TrialStatus) -> Trial:
        """Writes a Trial's status."""
        known = self.trials[name]
        trial = self.trials[name] = replace(known, version=known.version + 1, status=status)
        return trial

    def request_retry(self, name: str) -> Trial:
        """Has a Trial's current attempt retried, as `kubectl podtune retry` does."""
        known = self.trials[name]
        last = known.status.last_attempt
        spec = known.spec.model_copy(update={"retry": RetryRequest(attempt=(last.attempt if last else 0) + 1)})
        trial = replace(known, version=known.version + 1, generation=known.generation + 1, spec=spec)
        self.trials[name] = trial
        return trial

    def change_experiment(self, spec: ExperimentSpec) -> Experiment:
        """Gives the Experiment another spec."""
        known = self.experiment
        changed = replace(known, version=known.version + 1, generation=known.generation + 1, spec=spec)
        self.experiment = changed
        return changed

    def write_experiment(self, status: ExperimentStatus) -> Experiment:
        """Writes the Experiment's status."""
        self.experiment = replace(self.experiment, version=self.experiment.version + 1, status=status)
        return self.experiment

    def write_finalizers(self, finalizers: tuple[str, ...]) -> Experiment:
        """Writes what the Experiment's deletion waits for."""
        self.experiment = replace(self.experiment, version=self.experiment.version + 1, finalizers=finalizers)
        return self.experiment

    def reload(self) -> None:
        """Reads every Trial back as an API server returns it: maps sorted by their keys, defaults left out."""
        for name, trial in self.trials.items():
            self.trials[name] = replace(trial, spec=_write_and_read(trial.spec), status=_write_and_read(trial.status))


def _write_and_read(model: ModelT) -> ModelT:
    written = json.dumps(model.model_dump(mode="json", by_alias=True, exclude_defaults=True), sort_keys=True)
    return type(model).model_validate_json(written)
