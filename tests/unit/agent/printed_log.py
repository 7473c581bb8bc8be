"""A program's log, as the stand-in for the operator passes it on."""

import threading
from collections.abc import Iterator, Mapping
from functools import partial

from tests.unit.agent.stub_operator import StubOperator


def stamped(number: int, text: str, nanos: int | None = None) -> bytes:
    """A line of the log that is printed at a second of the first hour of 2026."""
    return f"2026-01-01T00:{number // 60:02d}:{number % 60:02d}.{nanos or number:09d}Z {text}\n".encode()


class Log:
    """The program's log at the operator, which gives it from a time on."""

    def __init__(self, operator: StubOperator) -> None:
        self.lines: list[bytes] = []
        self.ended = False
        self.breaks_after: int | None = None
        self.rotations = 0
        self.requests: list[str] = []
        self.queries: list[Mapping[str, str]] = []
        self.changed = threading.Condition()
        operator.log_lines = self._stream

    def print(self, text: str) -> None:
        with self.changed:
            self.lines.append(stamped(len(self.lines) + 1, text))
            self.changed.notify_all()

    def put(self, *lines: bytes) -> None:
        """Prints lines that have their times, with their ends."""
        with self.changed:
            self.lines += lines
            self.changed.notify_all()

    def end(self) -> None:
        with self.changed:
            self.ended = True
            self.changed.notify_all()

    def rotate(self) -> None:
        """Ends the streams there are, as if all had been said."""
        with self.changed:
            self.rotations += 1
            self.changed.notify_all()

    def _has_news(self, number: int, rotations: int) -> bool:
        return self.ended or number < len(self.lines) or self.rotations > rotations

    def _stream(self, query: Mapping[str, str]) -> Iterator[bytes]:
        with self.changed:
            rotations = self.rotations
            since = query.get("since", "")
            self.requests.append(since)
            self.queries.append(query)
            # The API server knows whole seconds alone.
            number = next((n for n, line in enumerate(self.lines) if line[:19] >= since[:19].encode()), len(self.lines))
            if "tail" in query:
                number = max(0, len(self.lines) - int(query["tail"]))
        while True:
            with self.changed:
                if query.get("follow") == "false" and number >= len(self.lines):
                    return
                assert self.changed.wait_for(partial(self._has_news, number, rotations), 60)
                if number >= len(self.lines):
                    return
                if self.breaks_after == number:
                    self.breaks_after = None
                    raise ConnectionResetError
            yield self.lines[number]
            number += 1
