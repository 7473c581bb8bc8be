"""Notices a watch that has silently died.

Every write of the operator comes back as a watch event. A watch that has not reached a write within a minute is dead,
however healthy its connection looks; then it is best to restart the process.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

ECHO_PATIENCE = 60.0
"""Seconds after which a write must have come back."""

Watch = tuple[str, str]
"""Kind and namespace: within these, events come in the order of their versions."""


@dataclass(slots=True)
class _Progress:
    """How far a watch has come, and how far it is to come.

    Attributes:
        awaited: The version that it is to bring next; none where that is not above `seen`.
        last: The version that was written last, and when.
    """

    seen: int = 0
    awaited: int = 0
    since: float = 0.0
    last: tuple[int, float] = (0, 0.0)


class WatchHealth:
    """Expects each watch to come as far as the last write.

    Watches are looked at as a whole, not an object at a time: any later event proves as much as the echo itself, so
    an object that is deleted right after it was written leaves nothing behind that would be waited for in vain.
    """

    def __init__(
        self, monotonic: Callable[[], float], is_watched: Callable[[str, str], bool] = lambda *_: True
    ) -> None:
        """Makes the health of watches that have seen nothing.

        Args:
            monotonic: Seconds, for periods.
            is_watched: Whether objects of a kind and namespace are watched at present.
        """
        self._monotonic = monotonic
        self._is_watched = is_watched
        self._watches: dict[Watch, _Progress] = {}

    def wrote(self, kind: str, body: Mapping[str, Any]) -> None:
        """An object was written, or read by itself: the watch is to come as far as this version."""
        watch, version = self._get_progress(kind, body)
        now = self._monotonic()
        if watch.awaited <= watch.seen < version:
            watch.awaited, watch.since = version, now
        if version > watch.last[0]:
            watch.last = (version, now)

    def saw(self, kind: str, body: Mapping[str, Any]) -> None:
        """The watch brought a version of an object, or its deletion."""
        watch, version = self._get_progress(kind, body)
        watch.seen = max(watch.seen, version)
        if watch.awaited <= watch.seen < watch.last[0]:
            watch.awaited, watch.since = watch.last

    def forget_namespace(self, namespace: str) -> None:
        """The watches of a namespace are about to begin: what was written before, their lists hold."""
        for watch in [watch for watch in self._watches if watch[1] == namespace and not self._is_watched(*watch)]:
            del self._watches[watch]

    @property
    def is_alive(self) -> bool:
        """Whether all writes have come back in time."""
        return self.compute_lag() <= ECHO_PATIENCE

    def compute_lag(self) -> float:
        """For how many seconds the watch that is furthest behind has not brought a write; 0 where all have."""
        now = self._monotonic()
        behind = (
            now - watch.since
            for key, watch in self._watches.items()
            if watch.awaited > watch.seen and self._is_watched(*key)
        )
        return max(behind, default=0.0)

    def _get_progress(self, kind: str, body: Mapping[str, Any]) -> tuple[_Progress, int]:
        metadata = body["metadata"]
        watch = self._watches.setdefault((kind, metadata.get("namespace", "")), _Progress())
        return watch, int(metadata["resourceVersion"])
