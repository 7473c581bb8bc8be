"""What every scheduler promises."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from enum import StrEnum

Metrics = Mapping[str, float | int | str | bool]
Record = Mapping[str, Mapping[str, str]]
"""What a scheduler remembers of one trial, as it stands in `Trial.status.scheduler`."""


class Action(StrEnum):
    """What becomes of a trial after a result."""

    CONTINUE = "CONTINUE"
    PAUSE = "PAUSE"
    STOP = "STOP"


@dataclass(frozen=True, slots=True)
class Verdict:
    """A scheduler's or stopper's answer to a result, with the numbers behind it.

    Attributes:
        action: What becomes of the trial.
        message: The reason in a sentence that holds the numbers; empty where nothing was decided.
        because: The numbers, such as rung, cutoff, metric.
        recorded: Whether the trial's record changed: it has to be made durable before anything acts on it.
        full: Of a STOP: the trial has had all the time that there is; it was not stopped early.
    """

    action: Action
    message: str = ""
    because: Mapping[str, float | int | str] = field(default_factory=dict)
    recorded: bool = False
    full: bool = False


CONTINUE = Verdict(Action.CONTINUE)


class MetricMissing(ValueError):
    """A result lacks a number that a decision needs.

    Attributes:
        name: The metric that was looked for.
        seen: The metrics that the result has.
    """

    def __init__(self, name: str, seen: Iterable[str], *, field: str = "objective.metric", found: object = None):
        """Describes what is missing.

        Args:
            name: The metric that was looked for.
            seen: The metrics that the result has.
            field: The field of the Experiment that names the metric.
            found: The metric's value, where it is there but is no number.
        """
        self.name = name
        self.seen = tuple(sorted(seen))
        what = "is not in the result" if found is None else f"is {found!r:.80}, which is not a number"
        super().__init__(
            f"metric {name!r} ({field}) {what}; seen: {', '.join(self.seen) or 'none'}; "
            f"report it with every result, or correct {field}"
        )


class RecordError(ValueError):
    """What a Trial's status.scheduler holds is not what the scheduler writes there."""


class Scheduler(ABC):
    """Decides after each result whether a trial goes on, and which waiting trial runs next.

    Trials are known by their index. What a scheduler must not forget it keeps in a record a trial: `restore` of all
    the records, in any order, makes a scheduler that decides as the one that they came from. It does no I/O and knows
    no clock; randomness comes from the experiment's seed and the trial's index alone.
    """

    @abstractmethod
    def on_trial_add(self, trial: int) -> None:
        """A trial was made. Called once a trial, unless it is restored."""

    @abstractmethod
    def on_result(self, trial: int, metrics: Metrics) -> Verdict:
        """A running trial reported a result whose time attribute is above all its earlier ones.

        Raises:
            MetricMissing: The result lacks the time attribute or the objective's metric, and they are needed.
        """

    @abstractmethod
    def on_trial_complete(self, trial: int, metrics: Metrics) -> bool:
        """A trial came to a good end, stopped or by itself; `metrics` is its last result, empty where it had none.

        Returns:
            Whether the trial's record changed.
        """

    @abstractmethod
    def on_trial_error(self, trial: int) -> None:
        """An attempt failed; the trial may be retried."""

    @abstractmethod
    def on_trial_remove(self, trial: int) -> None:
        """A trial that was waiting or paused was stopped, and will never run again; its record stays."""

    @abstractmethod
    def forget(self, trial: int) -> None:
        """A trial was deleted, and its record with it: from now on it is as if it had never been.

        After a restart it couldn't be otherwise. A trial that isn't known is forgotten already.
        """

    @abstractmethod
    def choose(self, waiting: Sequence[int]) -> int | None:
        """Picks the next trial to run.

        Args:
            waiting: Trials that could start now, first in the queue first; not empty.

        Returns:
            One of them, or None to let none start yet.
        """

    @abstractmethod
    def record(self, trial: int) -> Record:
        """What has to be remembered of a trial; empty where nothing has."""

    @abstractmethod
    def restore(self, trial: int, record: Record) -> None:
        """Takes in a trial's record after a restart.

        Raises:
            RecordError: The record is not one that this scheduler, with its present settings, could have written.
        """

    @property
    @abstractmethod
    def time_attribute(self) -> str:
        """The result that counts a trial's progress."""
