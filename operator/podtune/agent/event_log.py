"""The agent's own log: one line of JSON an event."""

from __future__ import annotations

import json
import sys
import time
from collections.abc import Callable, Mapping
from typing import TextIO

_COMPONENT = "agent"


class EventLog:
    """Writes events, each with what it is about. Lines of several threads don't mix: each is one write."""

    def __init__(
        self, clock: Callable[[], float], context: Mapping[str, str | int] | None = None, stream: TextIO | None = None
    ) -> None:
        """Starts a log.

        Args:
            clock: Seconds since the epoch.
            context: What every line contains, such as the trial.
            stream: Where it goes; standard error when None.
        """
        self._clock = clock
        self._context = {"component": _COMPONENT, **(context or {})}
        self._stream = stream or sys.stderr

    def bind(self, **context: str | int) -> EventLog:
        """The same log, with other words on what it is about."""
        return EventLog(self._clock, {**self._context, **context}, self._stream)

    def info(self, event: str, **details: object) -> None:
        """Something went as it should."""
        self._write("info", event, details)

    def warning(self, event: str, **details: object) -> None:
        """Something went wrong that the agent deals with."""
        self._write("warning", event, details)

    def error(self, event: str, **details: object) -> None:
        """Something went wrong that somebody has to look at."""
        self._write("error", event, details)

    def _write(self, level: str, event: str, details: dict[str, object]) -> None:
        self._stream.write(self._format_line(level, event, details))
        self._stream.flush()

    def _format_line(self, level: str, event: str, details: dict[str, object]) -> str:
        line = {"time": self._format_now(), "level": level, "event": event, **self._context, **details}
        return json.dumps(line, default=str) + "\n"

    def _format_now(self) -> str:
        now = self._clock()
        return f"{time.strftime('%Y-%m-%dT%H:%M:%S', time.gmtime(now))}.{int(now % 1 * 1000):03d}Z"


class LogThrottle:
    """Throttles a message that comes again and again: ten times, then every tenth time, from 100 every hundredth."""

    def __init__(self) -> None:
        self.count = 0

    def should_log(self) -> bool:
        """Counts one more; returns whether to log it."""
        self.count += 1
        step: int = 10 ** (len(str(self.count)) - 1)
        return self.count % step == 0
