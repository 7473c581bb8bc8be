"""What happens when the bucket fails: the failure is reported, and the work is retried after a while or skipped."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from random import Random

from podtune.agent.checkpoints.upload_task import TaskContext
from podtune.agent.event_log import EventLog, LogThrottle
from podtune.protocol.messages import MAX_REPORTED_MESSAGE, StoreProblem
from podtune.storage.backoff import ExponentialBackoff
from podtune.storage.checkpoint.local_tree import UnusableTree
from podtune.storage.errors import StoreError

FIRST_WAIT = 0.5
_LONGEST_WAIT = 15.0
PERMANENT_WAIT = 30.0
"""Seconds until a store is tried again that somebody has to mend first."""
LONGEST_WAIT_ENDING = 5.0
"""Seconds until a store is tried again once the program has ended, for whatever it fails."""


class StoreRetry:
    """Reports a failing store to the operator, and waits until the next retry. For one thread.

    Attributes:
        has_worked: Whether the store has been used, or checked, with success.
    """

    def __init__(self, context: TaskContext, rng: Random, *, has_worked: bool = False) -> None:
        self._attempt = context.attempt
        self._shutdown = context.shutdown
        self._log = context.log
        self._rng = rng
        self._backoff = make_backoff(rng)
        self._failures = LogThrottle()
        self.has_worked = has_worked

    def record_success(self) -> None:
        """The store works, so what was told of its failures is withdrawn."""
        self.has_worked = True
        self._backoff.reset()
        if self._failures.count:
            self._failures = LogThrottle()
            with self._attempt.changed:
                self._attempt.set_store_problem(None)
                self._attempt.changed.notify_all()

    def back_off(self, error: StoreError) -> None:
        """Reports a failure, and waits; only briefly once the program has ended."""
        if self._failures.should_log():
            self._log.warning("store problem", reason=error.reason, message=str(error), times=self._failures.count)
        with self._attempt.changed:
            message = str(error)[:MAX_REPORTED_MESSAGE]
            self._attempt.set_store_problem(StoreProblem(error.reason, message, error.permanent))
            self._attempt.changed.notify_all()
            self.wait(error)

    def wait(self, error: StoreError) -> None:
        """Waits until the store that has failed may be used again; hold `changed`."""
        self._shutdown.wait(self._draw_wait(error.permanent))

    def _draw_wait(self, is_permanent: bool) -> float:
        if self._shutdown.has_begun:
            return min(self._backoff.draw_wait(), LONGEST_WAIT_ENDING)
        return self._rng.uniform(PERMANENT_WAIT / 2, PERMANENT_WAIT) if is_permanent else self._backoff.draw_wait()


def make_backoff(rng: Random) -> ExponentialBackoff:
    """Waits between two tries of what the store has failed to do."""
    return ExponentialBackoff(FIRST_WAIT, _LONGEST_WAIT, rng)


@contextmanager
def warn_of_failure(log: EventLog, event: str) -> Iterator[None]:
    """For what can be done without: that it has failed is logged, but no reason to call the store unusable."""
    try:
        yield
    except (StoreError, UnusableTree, OSError) as error:
        log.warning(event, message=str(error))
