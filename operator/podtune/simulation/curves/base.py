"""What a simulated training reports."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping

from podtune.tuning.searchers.base import Configuration


class CurveError(ValueError):
    """Curves that can't stand for an experiment's trials; the text says what to change."""


class LearningCurve(ABC):
    """All that training with one configuration would report, from the first iteration to the last."""

    @property
    @abstractmethod
    def length(self) -> int:
        """How many iterations there are until the program ends by itself."""

    @abstractmethod
    def compute_metrics(self, iteration: int) -> Mapping[str, float]:
        """What is reported after an iteration, from 1 to `length`, without the iteration itself."""

    @abstractmethod
    def compute_seconds(self, iteration: int) -> float:
        """How long an iteration takes, from 1 to `length`."""


class Curves(ABC):
    """A curve for every configuration that may be proposed."""

    @abstractmethod
    def build_curve(self, configuration: Configuration, trial: int) -> LearningCurve:
        """The curve of a trial.

        Args:
            configuration: What it trains with.
            trial: Its index; where there is chance in training, it is drawn for this trial.
        """

    @property
    @abstractmethod
    def optimum(self) -> float | None:
        """The best value of the objective that any curve reaches; None where it is not known."""
