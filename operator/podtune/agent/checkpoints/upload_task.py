"""The interface of the uploader's tasks, and what they share."""

from __future__ import annotations

import time
from dataclasses import dataclass

from podtune.agent.event_log import EventLog
from podtune.agent.settings import Settings
from podtune.agent.state.attempt import Attempt
from podtune.storage.cancel import CancelToken
from podtune.storage.checkpoint.address import TrialAddress
from podtune.storage.object_store import ObjectStore

LAST_WORD = 1.0
"""Seconds that the operator's answer to the last report is waited for."""


class UploadTask:
    """One kind of work in the bucket, and all that is remembered of it. Only the uploader's thread runs it."""

    @property
    def due_in(self) -> float | None:
        """Seconds until it is to run, 0 when it is due; None before something changes. Hold `changed`."""
        return None

    def run(self) -> None:
        """Does what is due."""

    def finish(self) -> None:
        """Does the rest, once the program has ended and no checkpoint is waiting."""


class Shutdown:
    """How the uploads of an attempt come to their end: once the program has ended they finish, or are cancelled.

    Attributes:
        cancel_token: Breaks off what takes too long, or comes too late.
        has_begun: Whether the program has ended: nothing but what waits is still to be stored.
    """

    def __init__(self, attempt: Attempt) -> None:
        self._attempt = attempt
        self.cancel_token = CancelToken(time.monotonic)
        self.has_begun = False

    @property
    def is_over(self) -> bool:
        """Whether there is no further checkpoint to store; hold `changed`."""
        stored = self.has_begun and self._attempt.checkpoints.is_stored
        return self._attempt.fenced or stored or self.cancel_token.is_cancelled

    def is_urgent(self) -> bool:
        """Whether the end, or a checkpoint, is more urgent than all else."""
        with self._attempt.changed:
            return self.has_begun or self._attempt.fenced or self._attempt.checkpoints.has_work

    def wait(self, seconds: float) -> None:
        """Waits so long: the program's end cuts it short, and after that only what leaves nothing to wait for."""
        with self._attempt.changed:
            had_begun = self.has_begun
            self._attempt.changed.wait_for(
                lambda: self._attempt.fenced or (self.cancel_token.is_cancelled if had_begun else self.has_begun),
                seconds,
            )


@dataclass(frozen=True, slots=True)
class TaskContext:
    """What all tasks work with.

    Attributes:
        log: Where to tell of what was stored, and of trouble.
    """

    attempt: Attempt
    settings: Settings
    address: TrialAddress
    store: ObjectStore
    log: EventLog
    shutdown: Shutdown
