"""Results on standard output: which lines are results, and which of them are new."""

from __future__ import annotations

import re
from datetime import datetime

from podtune.agent.result_line import ResultLine
from podtune.protocol.messages import MAX_TEXT, Value, metric_problem

_TIMESTAMP = re.compile(r"(\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d)(?:\.(\d{1,9}))?(Z|[+-]\d\d:\d\d)")


def match_line(pattern: re.Pattern[str], text: str) -> ResultLine | None:
    """The result in a line of output: the pattern's named groups, numbers where they look like numbers."""
    match = pattern.search(text)
    if match is None:
        return None
    metrics: dict[str, Value] = {}
    problems: list[str] = []
    for name, group in match.groupdict().items():
        if group is None:
            continue
        value = _value(group)
        problem = metric_problem(name, value)
        if problem:
            problems.append(f"{name!r} {problem}")
        else:
            metrics[name] = value
    return ResultLine(metrics, problems=tuple(problems)) if metrics else None


def _value(text: str) -> Value:
    for number in (int, float):
        try:
            return number(text)
        except ValueError:
            continue
    return text[:MAX_TEXT]


class LogPosition:
    """How far a log was read, so that a stream that starts over gives every line once.

    A stream is asked for from a time on and repeats what bears that very time; several lines may bear the same one.
    """

    def __init__(self) -> None:
        self.since = ""
        """Timestamp of the last line, as it was written; empty before the first."""
        self._last = -1
        self._seen_at_last = 0
        self._to_skip = 0

    def restart(self) -> None:
        """A stream from `since` on begins."""
        self._to_skip = self._seen_at_last

    def take(self, line: bytes) -> str | None:
        """The text of a line `<timestamp> <text>`; None where it was there before, or has no timestamp."""
        stamp, _, text = line.decode("utf-8", "replace").rstrip("\r\n").partition(" ")
        moment = nanoseconds(stamp)
        if moment is None or moment < self._last:
            return None
        if moment > self._last:
            self.since, self._last, self._seen_at_last, self._to_skip = stamp, moment, 1, 0
            return text
        if self._to_skip > 0:
            self._to_skip -= 1
            return None
        self._seen_at_last += 1
        return text


def nanoseconds(stamp: str) -> int | None:
    """Reads an RFC 3339 timestamp as nanoseconds since the epoch; None where it is none."""
    match = _TIMESTAMP.fullmatch(stamp)
    if match is None:
        return None
    try:
        whole = datetime.fromisoformat(match[1] + match[3])
    except ValueError:
        return None
    return int(whole.timestamp()) * 10**9 + int((match[2] or "").ljust(9, "0"))
