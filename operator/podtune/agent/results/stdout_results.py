"""Results on standard output: which lines are results, and which of them are new."""

from __future__ import annotations

import re
from collections.abc import Iterator
from datetime import datetime
from typing import Protocol

from podtune.agent.state.result_line import MAX_PROBLEMS, MAX_VALUES, ResultLine
from podtune.protocol.messages import MAX_KEY, MAX_TEXT, MetricValue, find_metric_problem

NAME, VALUE = "name", "value"
"""Groups of a pattern that finds the metric's name in the line."""

_TIMESTAMP = re.compile(r"(\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d)(?:\.(\d{1,9}))?(Z|[+-]\d\d:\d\d)")


class LogParser(Protocol):
    """Finds results in lines of output, one after the other."""

    def take(self, text: str) -> Iterator[ResultLine]:
        """The results that are complete with a line of output."""

    def finish(self) -> Iterator[ResultLine]:
        """The results that are complete since nothing follows."""


class LineParser:
    """Results of one line each: the pattern's named groups are their metrics."""

    def __init__(self, pattern: re.Pattern[str]) -> None:
        """Reads what a pattern with at least one named group finds."""
        self._pattern = pattern

    def take(self, text: str) -> Iterator[ResultLine]:
        """The result in a line of output, if there is one."""
        line = match_line(self._pattern, text)
        if line is not None:
            yield line

    def finish(self) -> Iterator[ResultLine]:
        """Nothing: no result is held back."""
        yield from ()


class NamedValueParser:
    """Results of several lines, each of which names its metric, as programs print them that were written for Katib.

    The pattern is looked for as often as it is found in a line; its groups `name` and `value` are a metric, and others
    are metrics of their own name. A result is complete with the metric that is said to come last, or as soon as one of
    its metrics comes once more: that begins the next. What makes a result follows from the lines alone, so a restarted
    agent that reads them again finds the same.
    """

    def __init__(self, pattern: re.Pattern[str], last: str = "") -> None:
        """Reads the groups `name` and `value` of a pattern; `last` is the last metric of each result, where known."""
        self._pattern = pattern
        self._last = last
        self._metrics: dict[str, MetricValue] = {}
        self._problems: list[str] = []

    def take(self, text: str) -> Iterator[ResultLine]:
        """The results that are complete with a line of output."""
        for match in self._pattern.finditer(text):
            for name, value in _read_metrics(match):
                yield from self._add(name, value)

    def finish(self) -> Iterator[ResultLine]:
        """The result that was being gathered, if there is one."""
        if self._metrics:
            yield ResultLine(self._metrics, problems=tuple(self._problems))
            self._metrics, self._problems = {}, []

    def _add(self, name: str, value: MetricValue) -> Iterator[ResultLine]:
        problem = find_metric_problem(name, value)
        if problem:
            self._complain(name, problem)
            return
        if name in self._metrics:
            yield from self.finish()
        is_last = name == self._last
        if len(self._metrics) < MAX_VALUES - (bool(self._last) and not is_last):  # room is kept for the last one
            self._metrics[name] = value
        else:
            self._complain(name, f"was left out: a result has {MAX_VALUES} values at most")
        if is_last:
            yield from self.finish()

    def _complain(self, name: str, problem: str) -> None:
        if len(self._problems) < MAX_PROBLEMS:
            self._problems.append(f"{name[:MAX_KEY]!r} {problem}")


def make_log_parser(pattern: re.Pattern[str], last: str = "") -> LogParser:
    """Makes what reads results by a pattern."""
    return NamedValueParser(pattern, last) if {NAME, VALUE} <= pattern.groupindex.keys() else LineParser(pattern)


def _read_metrics(match: re.Match[str]) -> Iterator[tuple[str, MetricValue]]:
    """The metrics of one match of the pattern, in the order of its groups."""
    groups = match.groupdict()
    for group in sorted(groups, key=match.re.groupindex.__getitem__):
        text = groups[group]
        if group == NAME or not text:
            continue
        name = groups[NAME] if group == VALUE else group
        if name:
            yield name, parse_metric_value(text)


def match_line(pattern: re.Pattern[str], text: str) -> ResultLine | None:
    """The result in a line of output: the pattern's named groups, numbers where they look like numbers."""
    match = pattern.search(text)
    if match is None:
        return None
    metrics: dict[str, MetricValue] = {}
    problems: list[str] = []
    for name, group in match.groupdict().items():
        if group is None:
            continue
        value = parse_metric_value(group)
        problem = find_metric_problem(name, value)
        if problem:
            problems.append(f"{name!r} {problem}")
        else:
            metrics[name] = value
    return ResultLine(metrics, problems=tuple(problems)) if metrics else None


def parse_metric_value(text: str) -> MetricValue:
    """The number that a text reads as, else the text, cut where it is too long."""
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

    def __init__(self, since: str = "") -> None:
        """Begins before the first line; what is older than `since`, an RFC 3339 time, is passed over."""
        self.since = since
        """Timestamp of the last line, as it was written; before the first, that of the begin, empty where it is not
        limited."""
        self._last = (parse_nanoseconds(since) or 0) - 1
        self._seen_at_last = 0
        self._to_skip = 0

    def restart(self) -> None:
        """A stream from `since` on begins."""
        self._to_skip = self._seen_at_last

    def take(self, line: bytes) -> str | None:
        """The text of a line `<timestamp> <text>`; None where it was there before, or has no timestamp."""
        stamp, _, text = line.decode("utf-8", "replace").rstrip("\r\n").partition(" ")
        moment = parse_nanoseconds(stamp)
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


def parse_nanoseconds(stamp: str) -> int | None:
    """Reads an RFC 3339 timestamp as nanoseconds since the epoch; None where it is none."""
    match = _TIMESTAMP.fullmatch(stamp)
    if match is None:
        return None
    try:
        whole = datetime.fromisoformat(match[1] + match[3])
    except ValueError:
        return None
    return int(whole.timestamp()) * 10**9 + int((match[2] or "").ljust(9, "0"))
