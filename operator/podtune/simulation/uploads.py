"""What the agent of a simulated pod stores: one checkpoint after the other, with the queue of the real agent."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

from podtune.api.base import parse_duration
from podtune.protocol.checkpoint import CheckpointRef
from podtune.protocol.checkpoint_queue import CheckpointQueue, PendingCheckpoint
from podtune.protocol.messages import CheckpointCommit, StoreProblem
from podtune.simulation.environment import AgentEnvironment

DIGEST = "sha256:simulated"
OUT_OF_TIME = StoreProblem("TimedOut", "there is no time left; raise checkpoints.drain", permanent=False)


class Uploads:
    """The checkpoints of one attempt on their way into the bucket.

    Attributes:
        queue: Those checkpoints, and what is not recorded yet.
    """

    def __init__(
        self, environment: AgentEnvironment, *, stored: Callable[[CheckpointCommit], None], changed: Callable[[], None]
    ) -> None:
        """Makes uploads that have nothing to do yet.

        Args:
            environment: Says how long a checkpoint takes, and how long it may take.
            stored: Is called with each that is in the bucket.
            changed: Is called when there is something to report.
        """
        self._clock, self._seconds = environment.clock, environment.upload_seconds
        self._timeout, self._retries = parse_duration(environment.sync.timeout), environment.sync.retries
        self._on_stored, self._on_change = stored, changed
        self._tried: PendingCheckpoint | None = None
        self._tries = 0
        self._is_over = False
        self._discards = False
        self.queue = CheckpointQueue()
        self.problem: StoreProblem | None = None

    def add(self, checkpoint: PendingCheckpoint) -> None:
        """The program has reported one."""
        if not self._discards:
            self.queue.add(checkpoint)
            self._go_on()

    def hurry(self) -> None:
        """Only the newest of those that wait counts."""
        if not self._is_over:
            self.queue.give_up_all_but_newest()

    def discard(self) -> None:
        """None is stored any more, and that is nobody's loss."""
        if self._discards or self._is_over:
            return
        self._discards = True
        self.queue.give_up_all()
        self.queue.give_up()
        self.problem = None
        self.close()
        self._on_change()

    def cancel(self) -> None:
        """There is no time left."""
        if not self._is_over and not self.queue.is_stored:
            waits_to_try_again = self.queue.has_work and self.problem is not None
            self.problem = self.problem if waits_to_try_again else OUT_OF_TIME
        self.close()

    def close(self) -> None:
        """Nothing more is stored: the agent has ended, or its attempt counts no more."""
        self._is_over = True

    def _go_on(self) -> None:
        if self._is_over or not self.queue.has_work:
            return
        pending = self.queue.start()
        if pending is not self._tried:
            self._tried, self._tries = pending, 0
        self._begin(pending)

    def _begin(self, pending: PendingCheckpoint) -> None:
        """Begins to store one."""
        self._store(pending, self._seconds)

    def _store(self, pending: PendingCheckpoint, taken: float) -> None:
        if taken <= self._timeout:
            self._call_later(taken, partial(self._succeed, pending))
        else:
            too_long = f"it took longer than checkpoints.sync.timeout of {self._timeout:g} s; raise it"
            self._call_later(self._timeout, partial(self._fail, pending, "TimedOut", too_long))

    def _call_later(self, delay: float, what: Callable[[], None]) -> None:
        self._clock.call_later(delay, partial(self._do_unless_over, what))

    def _do_unless_over(self, what: Callable[[], None]) -> None:
        if not self._is_over:
            what()

    def _succeed(self, pending: PendingCheckpoint) -> None:
        commit = CheckpointCommit(CheckpointRef(pending.name, DIGEST, pending.step), pending.seq, pending.metric)
        self.queue.succeed(commit)
        self.problem = None
        self._on_stored(commit)
        self._go_on()
        self._on_change()

    def _fail(self, pending: PendingCheckpoint, reason: str, message: str) -> None:
        """It could not be stored: it is tried again, and given up in the end."""
        self._tries += 1
        if self._tries > self._retries:
            self._give_up(pending, reason, f"{message} (given up after {self._retries} retries)")
            return
        self.queue.retry()
        self.problem = StoreProblem(reason, message, permanent=False)
        self._try_again()
        self._on_change()

    def _try_again(self) -> None:
        """The one that waits longest is tried at once."""
        self._go_on()

    def _give_up(self, pending: PendingCheckpoint, reason: str, message: str) -> None:
        self.queue.give_up()
        message = f"the checkpoint of step {pending.step} can't be stored: {message}"
        self.problem = StoreProblem(reason, message, permanent=False)
        self._go_on()
        self._on_change()
