"""Checkpoints on their way into the bucket, and from there into the trial's status."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable
from dataclasses import dataclass

from podtune.protocol.messages import MAX_COMMITS_A_REPORT, CheckpointCommit, Unstored

MAX_WAITING = 4
MAX_REMEMBERED = 64
"""Checkpoints newer than the newest stored one that are remembered; of more, the oldest and the newest are."""
BACKLOG_SHARE, LONGEST_BACKLOG = 0.25, 20.0


def compute_backlog_time(left: float) -> float:
    """Seconds that older checkpoints that wait at the program's end may take; the rest is the newest one's."""
    return min(left * BACKLOG_SHARE, LONGEST_BACKLOG)


@dataclass(frozen=True, slots=True)
class PendingCheckpoint:
    """A checkpoint that the program has written.

    Attributes:
        seq: The `seq` of the result that it was taken with.
        step: The `step` of that result.
        name: Name of its directory below `checkpoints`.
        metric: The objective's value in that result; None where it is no number.
        time_total: Seconds of training up to that result, over all attempts.
    """

    seq: int
    step: int
    name: str
    metric: float | None = None
    time_total: float = 0.0


class CheckpointQueue:
    """Uploads one checkpoint after the other, and reports each until it is recorded. Not thread-safe.

    A program may write checkpoints faster than they can be stored, and the disk is not endless: beyond a few waiting
    ones the oldest is given up. Never the newest, and never in silence: `add` returns it.
    """

    def __init__(self, max_waiting: int = MAX_WAITING) -> None:
        self._max_waiting = max_waiting
        self._waiting: deque[PendingCheckpoint] = deque()
        self._in_flight: PendingCheckpoint | None = None
        self._commits: dict[str, CheckpointCommit] = {}
        self._unstored: list[tuple[int, int]] = []
        """`seq` and `step` of those that the program has reported since the newest stored one."""

    @property
    def unstored(self) -> Unstored | None:
        """What the program has reported since the newest stored one, stored later or not; None for nothing."""
        if not self._unstored:
            return None
        seq, step = self._unstored[-1]
        return Unstored(since=self._unstored[0][0], seq=seq, step=step, waits=not self.is_stored)

    @property
    def is_stored(self) -> bool:
        """Whether every checkpoint is in the bucket or was given up."""
        return not self._waiting and self._in_flight is None

    @property
    def has_work(self) -> bool:
        """Whether a checkpoint waits and none is in flight."""
        return bool(self._waiting) and self._in_flight is None

    @property
    def commits(self) -> tuple[CheckpointCommit, ...]:
        """Stored checkpoints that are not recorded yet, the oldest first."""
        return tuple(self._commits.values())

    def to_report(self) -> tuple[CheckpointCommit, ...]:
        """The newest of `commits`, as many as fit into a report."""
        return self.commits[-MAX_COMMITS_A_REPORT:]

    def add(self, checkpoint: PendingCheckpoint) -> PendingCheckpoint | None:
        """Takes a new one; returns the one that is given up for it, if any."""
        self._waiting.append(checkpoint)
        self._unstored.append((checkpoint.seq, checkpoint.step))
        if len(self._unstored) > MAX_REMEMBERED:
            del self._unstored[1]
        return self._waiting.popleft() if len(self._waiting) > self._max_waiting else None

    def give_up_all_but_newest(self) -> tuple[PendingCheckpoint, ...]:
        """Leaves only the newest waiting; returns the others."""
        given_up = [self._waiting.popleft() for _ in range(len(self._waiting) - 1)]
        return tuple(given_up)

    def give_up_all(self) -> None:
        """Nothing is to be stored any more: what waits is given up, and one in flight is nobody's loss."""
        self._waiting.clear()
        self._unstored.clear()

    def start(self) -> PendingCheckpoint:
        """Takes the oldest waiting one into flight.

        Raises:
            ValueError: There is no work.
        """
        if not self.has_work:
            raise ValueError("no checkpoint waits, or one is in flight already; look at has_work first")
        self._in_flight = self._waiting.popleft()
        return self._in_flight

    def succeed(self, commit: CheckpointCommit) -> None:
        """The one in flight is in the bucket."""
        self._in_flight = None
        self._commits[commit.checkpoint.uri] = commit
        self._unstored = [(seq, step) for seq, step in self._unstored if seq > commit.seq]

    def retry(self) -> None:
        """The one in flight could not be stored now: it waits again, before all others."""
        if self._in_flight is not None:
            self._waiting.appendleft(self._in_flight)
            self._in_flight = None

    def give_up(self) -> None:
        """The one in flight can't be stored at all."""
        self._in_flight = None

    def acknowledge(self, uris: Iterable[str]) -> None:
        """These are recorded in the trial's status."""
        for uri in uris:
            self._commits.pop(uri, None)
