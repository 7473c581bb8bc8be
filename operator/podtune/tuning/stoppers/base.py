"""What every stopper promises.

A stopper ends what has had enough, for reasons that no comparison with other trials is needed for. There are two kinds,
since they are asked at different times: after each result of a trial, and when time has passed.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass

from podtune.tuning.schedulers.base import Metrics, Verdict


class TrialStopper(ABC):
    """Ends single trials. It does no I/O and knows no clock."""

    @abstractmethod
    def on_result(self, trial: int, metrics: Metrics) -> Verdict:
        """A running trial reported a result.

        Returns:
            STOP with the reason, or CONTINUE. A result that lacks what the stopper looks at goes on.
        """


@dataclass(frozen=True, slots=True)
class Progress:
    """How far an experiment has come.

    Attributes:
        elapsed: Seconds since its first trial was made.
    """

    elapsed: float


class ExperimentStopper(ABC):
    """Ends the whole experiment. It does no I/O and knows no clock."""

    @abstractmethod
    def check(self, progress: Progress) -> Verdict:
        """Looks at an experiment.

        Returns:
            STOP with the reason, or CONTINUE.
        """

    @abstractmethod
    def deadline(self) -> float | None:
        """Seconds after the first trial at which the answer changes by time alone; None where it never does."""
