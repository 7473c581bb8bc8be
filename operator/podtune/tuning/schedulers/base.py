"""The interface of all schedulers."""

# ruff: noqa: ARG002, B027 - most schedulers have no use for most of what they may hear

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from typing import ClassVar

from podtune.trial.layout import TIMES
from podtune.tuning.numbers import as_number
from podtune.tuning.searchers.base import Configuration

Metrics = Mapping[str, float | int | str | bool]
Record = Mapping[str, Mapping[str, str]]
"""What a scheduler remembers about one trial, as stored in `Trial.status.scheduler`."""


class SchedulerAction(StrEnum):
    """What becomes of a trial after a result."""

    CONTINUE = "CONTINUE"
    PAUSE = "PAUSE"
    STOP = "STOP"


@dataclass(frozen=True, slots=True)
class Exploit:
    """A trial continues from another trial's checkpoint, with another configuration.

    Attributes:
        donor: The trial whose checkpoint is cloned.
        configuration: What it goes on with; complete, in the manifest's order.
        step: Iteration of the result that the donor was ranked with: its newest checkpoint up to that is cloned, and
            waited for while there may still be one. None for its latest checkpoint, whichever that is; where it has
            none, the trial goes on as it is.
    """

    donor: int
    configuration: Configuration
    step: int | None = None


@dataclass(frozen=True, slots=True)
class SchedulerDecision:
    """A scheduler's or stopper's answer to a result, with the numbers behind it.

    Attributes:
        action: What becomes of the trial.
        message: The reason in a sentence that holds the numbers; empty where nothing was decided.
        inputs: The numbers, such as rung, cutoff, metric.
        recorded: Whether the trial's record changed: it has to be made durable before anything acts on it.
        full: Of a STOP: the trial has had its full time; it was not stopped early.
        exploit: Of a PAUSE: the trial gives up what it has learnt and goes on from this, as soon as there is a free
            slot. Where there is nothing to clone, the trial goes on as if nothing had been said (`on_exploit_skipped`).
        wants_checkpoint: Of a CONTINUE: a checkpoint of this result is worth having, such as a donor's.
        milestone: The value of the time attribute at which the result counts, where it counts at one. A searcher that
            learns from unfinished trials (BOHB) is told of these results.
    """

    action: SchedulerAction
    message: str = ""
    inputs: Mapping[str, float | int | str] = field(default_factory=dict)
    recorded: bool = False
    full: bool = False
    exploit: Exploit | None = None
    wants_checkpoint: bool = False
    milestone: int | None = None


CONTINUE = SchedulerDecision(SchedulerAction.CONTINUE)


@dataclass(frozen=True, slots=True)
class StartDecision:
    """The trial to run next.

    Attributes:
        trial: The trial.
        message: Why it, in a sentence that holds the numbers, which is on record before the trial starts; empty for the
            next in the queue.
        inputs: The numbers.
        recorded: Whether the trial's record changed: it has to be durable before the trial starts, or any that is
            chosen after it.
        exploit: What it goes on from instead of its own checkpoint.
    """

    trial: int
    message: str = ""
    inputs: Mapping[str, float | int | str] = field(default_factory=dict)
    recorded: bool = False
    exploit: Exploit | None = None


@dataclass(frozen=True, slots=True)
class StopPaused:
    """A paused trial that will never run again: it is stopped where it is.

    Attributes:
        trial: The trial.
        message: Why, in a sentence that holds the numbers.
        inputs: The numbers.
        full: The trial has had its full time; it was not stopped early.
    """

    trial: int
    message: str
    inputs: Mapping[str, float | int | str] = field(default_factory=dict)
    full: bool = False


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
            seen: The metrics that the result has; times that the agent adds are not told.
            field: The field of the Experiment that names the metric.
            found: The metric's value, where it is there but is no number.
        """
        self.name = name
        self.seen = tuple(sorted(set(seen) - TIMES))
        what = "is not in the result" if found is None else f"is {found!r:.80}, which is not a number"
        super().__init__(
            f"metric {name!r} ({field}) {what}; seen: {', '.join(self.seen) or 'none'}; "
            f"report it with every result, or correct {field}"
        )


def require_number(metrics: Metrics, name: str, field: str = "objective.metric") -> float:
    """A metric that a decision needs.

    Args:
        metrics: The result.
        name: The metric's name.
        field: The field of the Experiment that names it.

    Raises:
        MetricMissing: The result lacks it, or it is no number.
    """
    found = metrics.get(name)
    number = as_number(found)
    if number is None:
        raise MetricMissing(name, seen=metrics, field=field, found=found)
    return number


def require_time(metrics: Metrics, name: str, field: str) -> float:
    """The time attribute, as `require_number` reads it; what is not finite is no time.

    Raises:
        MetricMissing: The result lacks it, or it is no finite number.
    """
    time = require_number(metrics, name, field)
    if not math.isfinite(time):
        raise MetricMissing(name, seen=metrics, field=field, found=time)
    return time


class RecordError(ValueError):
    """What a Trial's status.scheduler holds is not what the scheduler writes there."""


class Scheduler(ABC):
    """Decides after each result whether a trial continues, and which waiting trial runs next.

    A scheduler of your own writes five members: `time_attribute`, `on_result`, `choose`, `record` and `restore`. The
    other methods tell it of what happens besides, and do nothing by default.

    Trials are known by their index. What a scheduler must not forget it keeps in a record a trial: `restore` of all
    the records, in any order, makes a scheduler that decides as the one that they came from. It does no I/O and knows
    no clock; randomness comes from the experiment's seed, the trial's index and what is recorded, nothing else.

    A trial that gets a PAUSE gives its slot back after its checkpoint is committed; from then on it is among those
    that `choose` picks from, until it is started again or stopped for good. What `choose` and `trials_to_stop` answer
    follows from what the scheduler knows: whoever asks twice, or after a restart, hears the same.

    Between a PAUSE and the trial's next start none of its results are shown; it goes on at the first checkpoint from
    that result on, so what it then reports may overshoot a milestone. Its attempt may fail meanwhile: the pause stands.
    When a search is over, nothing runs or could run, and `choose` picks none of the paused trials, these are ended.

    Attributes:
        pauses: Whether it may answer PAUSE: then a checkpoint store is demanded of an experiment that has it as a
            plugin. Of our own schedulers the manifest says it.
    """

    pauses: ClassVar[bool] = True

    @property
    @abstractmethod
    def time_attribute(self) -> str:
        """The metric that counts a trial's progress, such as `training_iteration`."""

    @abstractmethod
    def on_result(self, trial: int, metrics: Metrics, *, waiting: int = 0) -> SchedulerDecision:
        """Decides what becomes of a running trial that reports a result.

        The result's time attribute is above all earlier ones of the trial. A clone goes on with its donor's time: of
        its own, only the results since `on_configuration` count as earlier.

        Args:
            trial: The trial.
            metrics: The result.
            waiting: How many trials could run now if there were a slot for them: new ones, those that are still to be
                proposed included, retries, and paused ones.

        Raises:
            MetricMissing: The result lacks the time attribute or the objective's metric, and they are needed.
        """

    @abstractmethod
    def choose(self, waiting: Sequence[int]) -> StartDecision | None:
        """Picks the next trial to run.

        Slots are offered here first. Those that are left when the answer is None, or nothing waits, are filled with
        new proposals.

        Args:
            waiting: Trials that could start now, new ones, retries and those that the scheduler has paused, first in
                the queue first; not empty. A trial that was picked before and could not be started is among them again.
                It may be large, and knows fast whether it holds a trial (`in`).

        Returns:
            One of them, or None to let none start yet.
        """

    @abstractmethod
    def record(self, trial: int) -> Record:
        """Returns what has to be remembered of a trial; empty where nothing has."""

    @abstractmethod
    def restore(self, trial: int, record: Record, configuration: Configuration) -> None:
        """Takes in a trial after a restart: its record, and the configuration that it runs with now.

        Raises:
            RecordError: The record is not one that this scheduler, with its present settings, could have written.
        """

    # What follows does nothing unless a scheduler has a use for it.

    def on_trial_add(self, trial: int, configuration: Configuration) -> None:
        """Hears that a trial was made: once a trial, in the order of their indexes, unless it is restored.

        What `record` holds of it then (its bracket, say) is as much a change as one that a decision announces:
        decisions that are taken later rest on it. After a restart, trials without a record are added when all others
        are restored.
        """

    def on_trial_complete(self, trial: int, metrics: Metrics) -> bool:
        """Hears that a trial came to a good end, stopped or by itself.

        Args:
            trial: The trial.
            metrics: Its last result, empty where it had none.

        Returns:
            Whether the trial's record changed.
        """
        return False

    def on_trial_error(self, trial: int) -> None:
        """Hears that an attempt failed: the trial is retried, unless `on_trial_remove` is called for it next."""

    def on_trial_remove(self, trial: int) -> None:
        """Hears that a trial will never run again: it failed for good, or was stopped while it waited or was paused.

        Its record stays, and needs not say so: after a restart this is called again for each such trial, when all are
        restored.
        """

    def forget(self, trial: int) -> None:
        """Drops a trial that was deleted, its record included: from now on it is as if it had never been.

        A scheduler that compares trials stops comparing others with it, since after a restart it could not. A trial
        that isn't known is forgotten already.
        """

    def on_configuration(self, trial: int, configuration: Configuration) -> None:
        """Hears that a trial goes on with another configuration: its exploit was carried out, or a user asked for it.

        Its record may change with that. It is made durable together with the configuration, in one write.
        """

    def on_exploit_skipped(self, trial: int) -> None:
        """Hears that a trial goes on as it is, since its donor has no checkpoint that would do.

        Its record may change with that. It is made durable before the trial starts again.
        """

    def pinned_steps(self, trial: int) -> Collection[int]:
        """Returns the iterations of a trial's results by which others may clone it, or are about to.

        Of its checkpoints, the newest one up to each of these is kept, whatever `checkpoints.keep` says.
        """
        return ()

    def on_trial_hold(self, trial: int) -> None:
        """Hears that a user has paused a trial: until `on_trial_release` no other trial waits for it.

        After a restart this is called again for each such trial, when all are restored. One that is still on its way
        to its pause may report results.
        """

    def on_trial_release(self, trial: int) -> None:
        """Hears that a held trial may go on from where it is, wherever the others are by now."""

    def on_search_over(self) -> None:
        """Hears that no trial will be added any more. Called once, after a restart again."""

    def trials_to_stop(self) -> Sequence[StopPaused]:
        """Returns the paused trials that will never run again, until `on_trial_remove` is called for them."""
        return ()

    def rungs_passed(self, trial: int) -> int:
        """Counts the rungs that a trial has passed, which `scheduler.resources` goes by."""
        return 0

    @property
    def records_every_result(self) -> bool:
        """Whether a trial's record changes with every result, as a curve does.

        To write it each time would be a write a result. It need not be written at once then, but before anything that
        rests on it happens: before a STOP or PAUSE of any trial that was decided later is acted on, before the result
        is acknowledged as durable, and with what is written when the trial pauses or ends.
        """
        return False

    def on_progress(self, trial: int, time: float) -> None:
        """Hears how far a restored trial had come: the highest time attribute that was seen of it, where it is known.

        Called after `restore`. The results up to there are not shown again.
        """
