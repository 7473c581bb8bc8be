"""What `watch` shows while it is followed: one table that updates itself in a notebook, elsewhere a line a change."""

from __future__ import annotations

import importlib
import sys
import time
from collections.abc import Callable
from datetime import UTC, datetime
from typing import Any, Protocol

from podtune.cli.views.progress import Progress
from podtune.cli.views.watch_view import LineWriter

_PAUSE = 0.5
"""Seconds between two updates of a notebook's table, at least: what changes meanwhile is one update."""


class WatchDisplay(Protocol):
    """Shows an experiment as it goes on."""

    def show(self, progress: Progress, render: Callable[[], str], /) -> None:
        """Shows what is new.

        Args:
            progress: The experiment and its trials, and which of them have changed.
            render: Draws them as HTML.
        """


class NoDisplay:
    """Shows nothing."""

    def show(self, progress: Progress, _render: Callable[[], str], /) -> None:
        """See `WatchDisplay`."""
        progress.changed.clear()


class LineDisplay:
    """Prints a line for each change."""

    def __init__(self, now: Callable[[], datetime] = lambda: datetime.now(UTC)) -> None:
        self._writer = LineWriter(lambda line: print(line, flush=True), now)

    def show(self, progress: Progress, _render: Callable[[], str], /) -> None:
        """See `WatchDisplay`."""
        self._writer.take(progress)


class NotebookDisplay:
    """Updates one table in a notebook's cell."""

    def __init__(
        self, clock: Callable[[], float] = time.monotonic, sleep: Callable[[float], None] = time.sleep
    ) -> None:
        self._clock = clock
        self._sleep = sleep
        self._handle: Any = None
        self._due = 0.0

    def show(self, progress: Progress, render: Callable[[], str], /) -> None:
        """See `WatchDisplay`."""
        progress.changed.clear()
        if (pause := self._due - self._clock()) > 0:
            self._sleep(pause)
        display: Any = importlib.import_module("IPython.display")
        drawing = display.HTML(render())
        if self._handle is None:
            self._handle = display.display(drawing, display_id=True)
        else:
            self._handle.update(drawing)
        self._due = self._clock() + _PAUSE


def choose_display() -> WatchDisplay:
    """The display that fits: a notebook's, where this runs in a kernel of Jupyter, else lines."""
    module: Any = sys.modules.get("IPython")
    shell = module.get_ipython() if module is not None else None
    return NotebookDisplay() if hasattr(shell, "kernel") else LineDisplay()
