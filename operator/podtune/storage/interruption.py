"""Breaking off what takes too long."""

from __future__ import annotations

import threading
from collections.abc import Callable

from podtune.storage.errors import TimedOut


class Interruption:
    """Work that takes long asks it, again and again, whether it is to go on. May be used by several threads."""

    def __init__(self, clock: Callable[[], float]) -> None:
        """Lets everything go on.

        Args:
            clock: Monotonic time in seconds.
        """
        self._clock = clock
        self._deadline: float | None = None
        self._limit = ""
        self._broken_off = threading.Event()

    def allow(self, seconds: float, limit: str) -> None:
        """Begins a piece of work that may take so long; `limit` says in a message who has set that."""
        self._deadline = self._clock() + seconds
        self._limit = f"{limit} of {seconds:g} s"

    def break_off(self) -> None:
        """Nothing goes on from now on."""
        self._broken_off.set()

    @property
    def is_broken_off(self) -> bool:
        """Whether nothing goes on any more."""
        return self._broken_off.is_set()

    def check(self) -> None:
        """Asks whether to go on.

        Raises:
            TimedOut: It has taken too long, or is broken off.
        """
        if self._broken_off.is_set():
            raise TimedOut("there is no time left; raise checkpoints.drain")
        if self._deadline is not None and self._clock() > self._deadline:
            raise TimedOut(f"it took longer than {self._limit}; raise it, or see what slows the store down")
