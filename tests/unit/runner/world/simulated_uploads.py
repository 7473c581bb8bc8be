"""What may go wrong with the uploads of a simulated pod, beside taking too long or being cut off by its end."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from enum import Enum
from functools import partial

from typing_extensions import override

from podtune.protocol.checkpoint_queue import PendingCheckpoint
from podtune.protocol.messages import CheckpointCommit
from podtune.simulation.environment import AgentEnvironment
from podtune.simulation.uploads import Uploads

TRY_SECONDS = 1.0
"""What it takes to see that a store does not answer."""
WAIT_SECONDS = 5.0
"""Until it is tried again, as by an agent whose program has ended."""


class Trouble(Enum):
    """What stands in the way of an upload."""

    UNREADABLE = "the program has left something that can't be stored"
    UNREACHABLE = "the store does not answer, until the attempt is over"


@dataclass(frozen=True)
class Snag:
    """A trouble that meets the uploads of an attempt: of the checkpoints from iteration `step` on, or the first."""

    trouble: Trouble
    step: int = 0


class SnaggedUploads(Uploads):
    """The checkpoints of one attempt, and the troubles that meet them.

    Attributes:
        reported: The `seq` of all, the oldest first.
        stored: The `seq` of those in the bucket.
        over: The `seq` up to which nothing was left to store when the next one was reported.
    """

    def __init__(
        self,
        environment: AgentEnvironment,
        snag: Snag | None,
        jitter: Callable[[float], float],
        *,
        stored: Callable[[CheckpointCommit], None],
        changed: Callable[[], None],
    ) -> None:
        """Prepares the uploads of an attempt.

        Args:
            environment: Says how long one takes, and how long it may take.
            snag: What meets them.
            jitter: Has them take longer or shorter.
            stored: Is called with each that is in the bucket.
            changed: Is called when there is something to report.
        """
        super().__init__(environment, stored=stored, changed=changed)
        self._snag, self._jitter = snag, jitter
        self.reported: list[int] = []
        self.stored: list[int] = []
        self.over = 0

    def is_lost(self, up_to: float) -> bool:
        """Whether the newest that was reported up to a result is not stored, nor a later one."""
        newest = max((reported for reported in self.reported if reported <= up_to), default=0)
        return newest > max(self.stored, default=0)

    def lacks(self, seq: int) -> bool:
        """Whether the newest that was reported up to a result may still be stored, it or one in the place of it."""
        newest = max((reported for reported in self.reported if reported <= seq), default=0)
        return newest > max([self.over, *self.stored]) and not self.queue.is_stored

    @override
    def add(self, checkpoint: PendingCheckpoint) -> None:
        if self.queue.is_stored:
            self.over = max(self.reported, default=0)  # stored, or given up before this one could take its place
        self.reported.append(checkpoint.seq)
        super().add(checkpoint)

    @override
    def _begin(self, pending: PendingCheckpoint) -> None:
        match self._meets(pending):
            case Trouble.UNREADABLE:
                self._call_later(
                    TRY_SECONDS, partial(self._give_up, pending, "UnusableCheckpoint", "it holds a socket")
                )
            case Trouble.UNREACHABLE:
                self._call_later(TRY_SECONDS, partial(self._fail, pending, "Unreachable", "the store does not answer"))
            case None:
                self._store(pending, self._jitter(self._seconds))

    def _meets(self, pending: PendingCheckpoint) -> Trouble | None:
        if self._snag is None or pending.step < self._snag.step:
            return None
        trouble = self._snag.trouble
        if trouble is Trouble.UNREADABLE:
            self._snag = None  # the next one may be a good one
        return trouble

    @override
    def _succeed(self, pending: PendingCheckpoint) -> None:
        self.stored.append(pending.seq)
        super()._succeed(pending)

    @override
    def _try_again(self) -> None:
        self._call_later(WAIT_SECONDS, self._go_on)
