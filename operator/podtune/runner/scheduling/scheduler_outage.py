"""Whether a scheduler of another package works, and when one that has failed is asked again.

An error may leave a scheduler with half of what it was told, so it is thrown away, and the experiment's planner with
it, since half a decision may be in that. A planner without a scheduler takes its place: trials train on, their results
and ends are recorded, and each Trial's status says what its scheduler has not heard (`UnheardNews`). After a wait, the
next planner gets a new scheduler: it is restored from the Trials' records, as after a restart of the operator, and told
what the one before has not heard. The outage is over once that has answered what the one before failed on, or has
worked for a minute without being asked it.

Nothing of this is on record but what was not heard: a restarted operator asks the scheduler at once.
"""

from __future__ import annotations

from enum import Enum, auto

from podtune.runner.backoff import Backoff
from podtune.tuning.plugins import PluginFailure


class _Stage(Enum):
    WORKING = auto()
    FAILED = auto()
    """It has failed since the last decision: the planner may be half up to date."""
    WAITING = auto()
    """Nobody asks it before the wait is over."""
    RETRIED = auto()
    """It was made anew, and has yet to show that it works."""


class SchedulerOutage:
    """What is known of a scheduler's failures; it lasts when the planner is replaced.

    Attributes:
        failure: The last failure; None once the scheduler works again.
        time_attribute: What the scheduler measures time by, as it said when it was last made; empty before.
        pins_checkpoints: Whether it may ask for checkpoints to be kept; so while nobody knows.
    """

    def __init__(self, backoff: Backoff, key: str) -> None:
        """Begins with a scheduler that works.

        Args:
            backoff: How long one that has failed is not asked.
            key: Whose scheduler it is, for the jitter.
        """
        self.failure: PluginFailure | None = None
        self.time_attribute = ""
        self.pins_checkpoints = True
        self._backoff = backoff
        self._key = key
        self._stage = _Stage.WORKING
        self._count = 0
        self._hook = ""
        """What it failed on."""
        self._has_answered = False
        """Whether it has answered that since it was made anew."""
        self._failed_at = 0.0
        self._retry_at = 0.0

    @property
    def is_on(self) -> bool:
        """Whether nobody asks the scheduler."""
        return self._stage in (_Stage.FAILED, _Stage.WAITING)

    @property
    def next_change(self) -> float:
        """When the scheduler is asked again, or is taken for one that works; infinity where nothing waits for that."""
        match self._stage:
            case _Stage.WAITING:
                return self._retry_at
            case _Stage.RETRIED:
                return self._retry_at + self._backoff.maximum
            case _:
                return float("inf")

    def record_failure(self, hook: str, failure: PluginFailure) -> None:
        """The scheduler has failed: whoever decides next has to hear of it first (`take_up`)."""
        self.failure, self._hook, self._stage = failure, hook, _Stage.FAILED

    def record_answer(self, hook: str) -> None:
        """The scheduler has answered something."""
        self._has_answered = self._has_answered or hook == self._hook

    def take_up(self, now: float) -> bool:
        """Begins a wait if the scheduler has failed; whether it has.

        The waits grow. They begin anew after it has worked for longer than the longest.
        """
        if self._stage is not _Stage.FAILED:
            return False
        longest = self._backoff.maximum
        self._count = 1 if now > self._failed_at + 2 * longest else self._count + 1
        self._failed_at = now
        self._retry_at = now + self._backoff.compute_delay(self._count, self._key)
        self._stage = _Stage.WAITING
        return True

    def retry_if_due(self, now: float) -> bool:
        """Ends the wait if it is over; whether it is."""
        if self._stage is not _Stage.WAITING or now < self._retry_at:
            return False
        self._stage, self._has_answered, self._retry_at = _Stage.RETRIED, False, now
        return True

    def retry_soon(self) -> None:
        """Ends the wait with the next decision, since something has changed."""
        self._retry_at = 0.0

    def end_if_over(self, now: float) -> None:
        """Takes the scheduler for one that works, if it has shown that, after a decision that has gone well."""
        if self._stage is _Stage.RETRIED and (self._has_answered or now >= self.next_change):
            self.failure, self._stage = None, _Stage.WORKING
