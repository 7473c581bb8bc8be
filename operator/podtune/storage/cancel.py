"""Cancels what takes too long."""

from __future__ import annotations

import threading
from collections.abc import Callable

from podtune.storage.errors import TimedOut


class CancelToken:
    """Tells work that takes long whether it is to go on; it asks again and again. May be used by several threads."""

    def __init__(self, clock: Callable[[], float]) -> None:
        """Lets everything go on; the clock is monotonic, in seconds."""
        self._clock = clock
        self._deadline: float | None = None
        self._limit = ""
        self._cancelled = threading.Event()

    def set_deadline(self, seconds: float, limit: str) -> None:
        """Gives the work that begins now so long; `limit` says in a message which setting that is."""
        self._deadline = self._clock() + seconds
        self._limit = f"{limit} of {seconds:g} s"

    def cancel(self) -> None:
        """Lets nothing go on from now on."""
        self._cancelled.set()

    @property
    def is_cancelled(self) -> bool:
        """Whether nothing goes on any more."""
        return self._cancelled.is_set()

    def check(self) -> None:
        """Asks whether to go on.

        Raises:
            TimedOut: It has taken too long, or is cancelled.
        """
        if self._cancelled.is_set():
            raise TimedOut("there is no time left; raise checkpoints.drain")
        if self._deadline is not None and self._clock() > self._deadline:
            raise TimedOut(f"it took longer than {self._limit}; raise it, or find out what slows the store down")
