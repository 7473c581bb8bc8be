"""Locks between processes, and between the threads of one."""

from __future__ import annotations

import fcntl
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from e2e.devcluster.progress import Screen, screen


@contextmanager
def locked(path: Path, doing: str, at: Screen = screen) -> Iterator[None]:
    """Hold a lock while the context lasts.

    Args:
        path: The lock's file; it is made where it is missing, and stays.
        doing: What its holder is doing, in the words for somebody who has to wait: ``building the tools``.
        at: Where to say that.
    """
    path.parent.mkdir(parents=True, exist_ok=True)
    with path.open("w") as lock:
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            at.say(f"waiting: somebody else is {doing}")
            fcntl.flock(lock, fcntl.LOCK_EX)
        yield
