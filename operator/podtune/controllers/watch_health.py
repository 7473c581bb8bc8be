"""Notices a watch that has died without a word.

Every write of ours comes back as a watch event. One that does not within a minute means that the watch no longer tells
us anything, however healthy its connection looks; then the process had better start anew.
"""

from __future__ import annotations

from collections.abc import Callable

PATIENCE = 60.0
"""Seconds after which a write must have come back."""


class WatchHealth:
    """Expects the echo of each write."""

    def __init__(self, monotonic: Callable[[], float]) -> None:
        self._monotonic = monotonic
        self._expected: dict[str, tuple[int, float]] = {}
        self._seen: dict[str, int] = {}

    def wrote(self, uid: str, version: int) -> None:
        """An object was written; the watch is to bring this version or a later one, if it has not already."""
        if version <= self._seen.get(uid, 0):
            return
        since = self._expected[uid][1] if uid in self._expected else self._monotonic()
        self._expected[uid] = (version, since)

    def saw(self, uid: str, version: int) -> None:
        """The watch brought a version of an object."""
        self._seen[uid] = version
        expected = self._expected.get(uid)
        if expected is not None and version >= expected[0]:
            del self._expected[uid]

    def forget(self, uid: str) -> None:
        """The object is gone."""
        self._expected.pop(uid, None)
        self._seen.pop(uid, None)

    @property
    def is_alive(self) -> bool:
        """Whether all writes have come back in time."""
        oldest = min((since for _, since in self._expected.values()), default=None)
        return oldest is None or self._monotonic() - oldest <= PATIENCE
