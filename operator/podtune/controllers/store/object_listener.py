"""Who hears of each Experiment and Trial that the store takes in."""

from __future__ import annotations

from typing import Protocol

from podtune.runner.records import Experiment, Trial


class ObjectListener(Protocol):
    """Is told of what the API server has; what it does with that must take no time."""

    def observe_experiment(self, experiment: Experiment) -> None:
        """An Experiment, as it is now."""

    def observe_trial(self, experiment: Experiment, trial: Trial) -> None:
        """A Trial, as it is now."""

    def forget_experiment(self, experiment: Experiment) -> None:
        """An Experiment that was deleted, as it was last seen."""

    def forget_trial(self, experiment: Experiment, trial: Trial) -> None:
        """A Trial that was deleted, as it was last seen."""
