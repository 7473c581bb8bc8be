"""How far along what takes long is: a line that is redrawn on a terminal, a line every 30 s elsewhere.

All of it goes to standard error, so that the output of a command that has to build its tools first stays its own.
Nothing is drawn and no thread runs while there is nothing under way.
"""

from __future__ import annotations

import math
import os
import sys
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import TextIO

_REDRAW_SECONDS = 1
_PLAIN_SECONDS = 30
_WORTH_A_LINE_SECONDS = 10
_CLEAR = "\r\x1b[2K"
_OTHERWISE_COLUMNS = 80
# Before so much is done, and with so few, the rate says nothing yet.
_RATE_SECONDS = 10
_RATE_SHARE = 0.02
_RATE_TOTAL = 50


@dataclass
class Task:
    """Something under way.

    Attributes:
        what: Its name, as short as can be.
        unit: What is counted, in the plural.
        total: How many there are; None while that is not known.
        done: How many of them are done.
        detail: What it is at just now.
    """

    what: str
    unit: str = ""
    clock: Callable[[], float] = time.monotonic
    total: int | None = None
    done: int = 0
    detail: str = ""
    began: float = field(init=False)
    _counted_since: float = field(init=False)

    def __post_init__(self) -> None:
        self.began = self._counted_since = self.clock()

    def count_to(self, total: int) -> None:
        """Begin to count; the time left follows from the rate since then."""
        self.total, self.done, self._counted_since = total, 0, self.clock()

    @property
    def seconds(self) -> float:
        """How long it has been under way."""
        return self.clock() - self.began

    @property
    def time_left(self) -> float | None:
        """Seconds that the rest will take at the rate so far; None where that says nothing."""
        if self.total is None:
            return None
        return estimate_left(self.done, self.total, self.clock() - self._counted_since)

    def texts(self) -> tuple[str, str, str]:
        """Return what there is to say, at length, in brief and in a few words."""
        left = self.time_left
        when = say_duration(self.seconds) if left is None else say_left(left)
        if self.total is None:
            return _join(self.what, self.detail, when), f"{self.what}: {when}", self.what
        share = f"{self.done / self.total:.0%}" if self.total >= _RATE_TOTAL else f"{self.done}/{self.total}"
        counted = f"{self.done:,} of {self.total:,} {self.unit}".strip()
        return (
            _join(self.what, counted, self.detail, when),
            _join(self.what, f"{self.done:,}/{self.total:,}", when),
            f"{self.what} {share}" if left is None else f"{self.what} {share}, {when}",
        )


def _join(what: str, *said: str) -> str:
    return f"{what}: {', '.join(filter(None, said))}"


def estimate_left(done: int, total: int, seconds: float) -> float | None:
    """Return how long the rest will take at the rate so far.

    Args:
        done: How many are done.
        total: How many there are.
        seconds: What those that are done have taken.

    Returns:
        Seconds; None where too little is done for a rate, or nothing is left.
    """
    if total < _RATE_TOTAL or seconds < _RATE_SECONDS or done < total * _RATE_SHARE or done >= total:
        return None
    return seconds * (total - done) / done


def say_left(seconds: float) -> str:
    """Return a time left as text: minutes, rounded up, since more precision would be made up."""
    minutes = math.ceil(seconds / 60)
    return "<1 min left" if minutes <= 1 else f"{minutes} min left"


def say_duration(seconds: float) -> str:
    """Return a time that has passed as text."""
    minutes, rest = divmod(int(seconds), 60)
    return f"{minutes} min {rest} s" if minutes else f"{rest} s"


def line_of(tasks: Sequence[Task], columns: int | None) -> str:
    """Return what is under way in one line, in fewer words the narrower it must be.

    Args:
        tasks: What is under way.
        columns: How wide the line may be; None for any width.
    """
    lines = [" · ".join(texts) for texts in zip(*(task.texts() for task in tasks), strict=True)]
    if columns is None:
        return lines[0]
    for line in lines:
        if len(line) <= columns:
            return line
    return lines[-1][: max(columns - 1, 0)] + "…"


class Screen:
    """Where it is said; any thread may.

    Args:
        stream: What to write to; standard error by default.
        columns: Returns the terminal's width, or None where the stream is no terminal.
        clock: Seconds of a clock that never goes back.
    """

    def __init__(
        self,
        stream: TextIO | None = None,
        columns: Callable[[TextIO], int | None] | None = None,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._given_stream = stream
        self._columns = columns or terminal_columns
        self._clock = clock
        self._tasks: list[Task] = []
        self._lock = threading.RLock()
        self._ended = threading.Event()

    @contextmanager
    def task(self, what: str, unit: str = "") -> Iterator[Task]:
        """Show something as under way while the context lasts; afterwards say how long it took, if it took long."""
        task = Task(what, unit, self._clock)
        with self._lock:
            self._tasks.append(task)
            if len(self._tasks) == 1:
                self._ended = threading.Event()
                threading.Thread(target=self._keep_drawing, args=(self._ended,), daemon=True).start()
        try:
            yield task
        except BaseException:
            self._remove(task)
            raise
        self._remove(task)
        if task.seconds >= _WORTH_A_LINE_SECONDS:
            self.say(f"{what}: done in {say_duration(task.seconds)}")

    def say(self, text: str) -> None:
        """Print a line for good; what is under way is drawn again below it."""
        with self._lock:
            self._write(f"{self._clear()}{text}\n")
            if self._columns(self._stream) is not None:
                self.draw()

    def draw(self) -> None:
        """Say what is under way: over what was there on a terminal, as another line elsewhere."""
        with self._lock:
            if not self._tasks:
                return
            columns = self._columns(self._stream)
            if columns is None:
                self._write(f"{line_of(self._tasks, None)}\n")
            else:
                # A line as wide as the terminal would make some of them scroll.
                self._write(f"{_CLEAR}{line_of(self._tasks, columns - 1)}")

    @property
    def _stream(self) -> TextIO:
        return self._given_stream or sys.stderr

    def _remove(self, task: Task) -> None:
        with self._lock:
            self._tasks.remove(task)
            if not self._tasks:
                self._ended.set()
                self._write(self._clear())

    def _clear(self) -> str:
        return "" if self._columns(self._stream) is None else _CLEAR

    def _write(self, text: str) -> None:
        if text:
            self._stream.write(text)
            self._stream.flush()

    def _keep_drawing(self, ended: threading.Event) -> None:
        period = _PLAIN_SECONDS if self._columns(self._stream) is None else _REDRAW_SECONDS
        while not ended.wait(period):
            with self._lock:
                if not ended.is_set():
                    self.draw()


def terminal_columns(stream: TextIO) -> int | None:
    """Return the width of the terminal that a stream goes to, or None where it goes elsewhere."""
    if not stream.isatty() or os.environ.get("TERM") == "dumb":
        return None
    try:
        return os.get_terminal_size(stream.fileno()).columns or _OTHERWISE_COLUMNS
    except OSError:
        return _OTHERWISE_COLUMNS


screen = Screen()
"""The one of this process: it has one standard error."""
