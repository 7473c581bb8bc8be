"""What the agent of a simulated pod stores: one checkpoint after the other, with the queue of the real agent."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

from podtune.api.base import parse_duration
from podtune.protocol.checkpoint import CheckpointRef
from podtune.protocol.checkpoint_queue import CheckpointQueue, PendingCheckpoint
from podtune.protocol.messages import CheckpointCommit, StoreProblem
from podtune.simulation.environment import SimEnvironment

DIGEST = "sha256:simulated"
OUT_OF_TIME = StoreProblem("TimedOut", "there is no time left; raise checkpoints.drain", permanent=False)


class Uploads:
    """The checkpoints of one attempt on their way into the bucket.

    Attributes:
        queue: Those checkpoints, and what is not recorded yet.
        problem: Why one can't be stored at present.
    """

    def __init__(
        self, environment: SimEnvironment, *, stored: Callable[[CheckpointCommit], None], changed: Callable[[], None]
    ) -> None:
        """Makes uploads that have nothing to do yet.

        Args:
            environment: Says how long a checkpoint takes, and how long it may take.
            stored: Is called with each that is in the bucket.
            changed: Is called when there is something to report.
        """
        self._clock, self._taken = environment.clock, environment.model.checkpoint
        self._timeout, self._retries = parse_duration(environment.sync.timeout), environment.sync.retries
        self._on_stored, self._on_change = stored, changed
        self._tried: PendingCheckpoint | None = None
        self._tries = 0
        self._is_over = False
        self.queue = CheckpointQueue()
        self.problem: StoreProblem | None = None

    def add(self, checkpoint: PendingCheckpoint) -> None:
        """The program has reported one."""
        self.queue.add(checkpoint)
        self._go_on()

    def hurry(self) -> None:
        """Of those that wait only the newest counts."""
        self.queue.give_up_all_but_newest()

    def cancel(self) -> None:
        """There is no time left."""
        self.problem = OUT_OF_TIME
        self.close()

    def close(self) -> None:
        """Nothing more is stored: the agent has ended."""
        self._is_over = True

    def _go_on(self) -> None:
        if self._is_over or not self.queue.has_work:
            return
        pending = self.queue.start()
        if pending is not self._tried:
            self._tried, self._tries = pending, 0
        if self._taken <= self._timeout:
            self._clock.after(self._taken, partial(self._succeed, pending))
        else:
            self._clock.after(self._timeout, partial(self._fail, pending))

    def _succeed(self, pending: PendingCheckpoint) -> None:
        if self._is_over:
            return
        commit = CheckpointCommit(CheckpointRef(pending.name, DIGEST, pending.step), pending.seq, pending.metric)
        self.queue.succeed(commit)
        self.problem = None
        self._on_stored(commit)
        self._go_on()
        self._on_change()

    def _fail(self, pending: PendingCheckpoint) -> None:
        """It has taken longer than it may: it is tried again, and given up in the end."""
        if self._is_over:
            return
        self._tries += 1
        message = f"it took longer than checkpoints.sync.timeout of {self._timeout:g} s; raise it"
        if self._tries > self._retries:
            given_up = f"given up after {self._retries} retries"
            message = f"the checkpoint of step {pending.step} can't be stored: {message} ({given_up})"
            self.queue.give_up()
        else:
            self.queue.retry()
        self.problem = StoreProblem("TimedOut", message, permanent=False)
        self._go_on()
        self._on_change()
