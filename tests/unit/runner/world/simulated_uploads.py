"""What the agent of a simulated pod stores: one checkpoint after the other, with the queue of the real agent.

An upload takes its time. It may be broken off: by the end of the pod, by `checkpoints.sync.timeout`, by a store that
does not answer, by files that can't be read.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from enum import Enum
from typing import Protocol

from podtune.api.base import parse_duration
from podtune.api.resources.checkpoints import Sync
from podtune.protocol.checkpoint import CheckpointRef
from podtune.protocol.checkpoint_queue import CheckpointQueue, PendingCheckpoint
from podtune.protocol.messages import CheckpointCommit, StoreProblem

TRY_SECONDS = 1.0
"""What it takes to see that a store does not answer."""
WAIT_SECONDS = 5.0
"""Until it is tried again, as by an agent whose program has ended."""
OUT_OF_TIME = StoreProblem("TimedOut", "there is no time left; raise checkpoints.drain", permanent=False)


class Trouble(Enum):
    """What stands in the way of an upload."""

    UNREADABLE = "the program has left something that can't be stored"
    UNREACHABLE = "the store does not answer, until the attempt is over"


@dataclass(frozen=True)
class Snag:
    """A trouble that meets the uploads of an attempt: of the checkpoints from iteration `step` on, or the first."""

    trouble: Trouble
    step: int = 0


class Clock(Protocol):
    """What uploads need of the simulation."""

    def after_unless_frozen(self, delay: float, what: Callable[[], object]) -> None: ...

    def jitter(self, seconds: float) -> float: ...


class SimulatedUploads:
    """The checkpoints of one attempt.

    Attributes:
        queue: Those on their way, as the real agent has them.
        problem: Why one can't be stored at present.
        reported: The `seq` of all, the oldest first.
        stored: The `seq` of those in the bucket.
    """

    def __init__(
        self,
        clock: Clock,
        sync: Sync,
        *,
        upload: float,
        snag: Snag | None,
        stored: Callable[[CheckpointCommit], None],
        changed: Callable[[], None],
    ) -> None:
        """Prepares the uploads of an attempt.

        Args:
            clock: Has them take their time.
            sync: The experiment's settings.
            upload: How long one takes; infinity for as long as it may.
            snag: What meets them.
            stored: Is called with each that is in the bucket.
            changed: Is called when there is something to report.
        """
        self._clock, self._upload, self._snag = clock, upload, snag
        self._timeout, self._retries = parse_duration(sync.timeout), sync.retries
        self._on_stored, self._on_change = stored, changed
        self._tried: PendingCheckpoint | None = None
        self._tries = 0
        self._is_over = False
        self.queue = CheckpointQueue()
        self.problem: StoreProblem | None = None
        self.reported: list[int] = []
        self.stored: list[int] = []

    @property
    def is_done(self) -> bool:
        """Whether all is stored that can be."""
        return self.queue.is_stored

    @property
    def is_lost(self) -> bool:
        """Whether the newest that was reported is not stored."""
        return max(self.reported, default=0) > max(self.stored, default=0)

    def lacks(self, seq: int) -> bool:
        """Whether the newest that was reported up to a result may still be stored, it or one in the place of it."""
        newest = max((reported for reported in self.reported if reported <= seq), default=0)
        return newest > max(self.stored, default=0) and not self.is_done

    def add(self, seq: int, step: int, uri: str, metric: float | None) -> None:
        """The program has reported one."""
        self.reported.append(seq)
        self.queue.add(PendingCheckpoint(seq, step, uri, metric))
        self._go_on()

    def hurry(self) -> None:
        """Of those that wait only the newest counts."""
        if not self._is_over:
            self.queue.give_up_all_but_newest()

    def cancel(self) -> None:
        """There is no time left."""
        if not self._is_over and not self.is_done:
            self.queue.retry()
            self.problem = self.problem or OUT_OF_TIME
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
        match self._meets(pending):
            case Trouble.UNREADABLE:
                message = f"the checkpoint of step {pending.step} can't be stored: it holds a socket"
                self._then(TRY_SECONDS, lambda: self._give_up("UnusableCheckpoint", message))
            case Trouble.UNREACHABLE:
                self._then(TRY_SECONDS, lambda: self._fail("Unreachable", "the store does not answer"))
            case None if (taken := self._clock.jitter(self._upload)) <= self._timeout:
                self._then(taken, lambda: self._succeed(pending))
            case None:
                too_long = f"it took longer than checkpoints.sync.timeout of {self._timeout:g} s"
                self._then(self._timeout, lambda: self._fail("TimedOut", too_long))

    def _then(self, delay: float, what: Callable[[], None]) -> None:
        self._clock.after_unless_frozen(delay, lambda: None if self._is_over else what())

    def _meets(self, pending: PendingCheckpoint) -> Trouble | None:
        if self._snag is None or pending.step < self._snag.step:
            return None
        trouble = self._snag.trouble
        if trouble is Trouble.UNREADABLE:
            self._snag = None  # the next one may be a good one
        return trouble

    def _succeed(self, pending: PendingCheckpoint) -> None:
        ref = CheckpointRef(pending.name, f"sha256:{pending.step:04x}", pending.step)
        commit = CheckpointCommit(ref, pending.seq, pending.metric)
        self.queue.succeed(commit)
        self.problem = None
        self.stored.append(pending.seq)
        self._on_stored(commit)
        self._go_on()
        self._on_change()

    def _fail(self, reason: str, message: str) -> None:
        self._tries += 1
        if self._tries > self._retries:
            self._give_up(reason, f"{message} (given up after {self._retries} retries)")
            return
        self.problem = StoreProblem(reason, message, permanent=False)
        self.queue.retry()
        self._then(WAIT_SECONDS, self._go_on)
        self._on_change()

    def _give_up(self, reason: str, message: str) -> None:
        self.queue.give_up()
        self.problem = StoreProblem(reason, message, permanent=False)
        self._go_on()
        self._on_change()
