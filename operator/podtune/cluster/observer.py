"""The interface for what the operator has written or re-read."""

from __future__ import annotations

from typing import Protocol

from podtune.api.resources.experiment import ExperimentStatus
from podtune.api.resources.trial import TrialStatus
from podtune.kube.manifests import Manifest


class Observer(Protocol):
    """Is told of every object that an action made, changed or read again."""

    def observe_experiment(self, body: Manifest) -> None:
        """An Experiment, as the API server has it now."""

    def observe_trial(self, body: Manifest) -> None:
        """A Trial, as the API server has it now."""

    def observe_pod(self, body: Manifest) -> None:
        """A trial's pod, as the API server has it now."""

    def observe_experiment_status(self, metadata: Manifest, status: ExperimentStatus) -> None:
        """An Experiment has got a status; its metadata is as the API server has it now."""

    def observe_trial_status(self, metadata: Manifest, status: TrialStatus) -> None:
        """A Trial has got a status; its metadata is as the API server has it now."""
