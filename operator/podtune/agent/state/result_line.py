"""Parses lines of results defensively: a bad line affects only the program's own result."""

from __future__ import annotations

import json
import os
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from podtune.protocol.messages import MAX_KEY, MAX_METRICS, MAX_TEXT, MetricValue, find_metric_problem
from podtune.trial.layout import CHECKPOINT_KEY, DONE_KEY, END_KEY, FILLED_IN, RESERVED_KEYS

MAX_VALUES = MAX_METRICS - len(FILLED_IN)
"""Places are kept for what the agent fills in."""
MAX_PROBLEMS = 8
_MAX_NAME = 255
"""Bytes of a directory's name."""
_MAX_LINE = 1 << 18
SHOWN = 200
"""How many characters of a bad line are shown in a message."""


class BadLine(ValueError):
    """A line that is no result; the text says why."""


@dataclass(frozen=True, slots=True)
class ResultLine:
    """What a line says.

    Attributes:
        metrics: Flat values by name; empty where the line only says that the program is done.
        checkpoint: Name of the checkpoint's directory.
        done: Whether the program says that it is done.
        ends: Whether it says that the program moves on to another trial.
        problems: What had to be left out, and why.
    """

    metrics: Mapping[str, MetricValue]
    checkpoint: str | None = None
    done: bool = False
    ends: bool = False
    problems: tuple[str, ...] = ()

    @property
    def is_result(self) -> bool:
        """Whether the line holds a result."""
        return bool(self.metrics) or self.checkpoint is not None


def parse_line(line: bytes, objective: str) -> ResultLine:
    """Reads one line.

    Values that the protocol does not take are left out, and texts too long are cut. The objective's value comes first,
    so that it is the last to go where space is short.

    Raises:
        BadLine: It is not a JSON object, or nothing in it can be used.
    """
    body = _load(line)
    problems: list[str] = []
    metrics: dict[str, MetricValue] = {}
    for key, value in _leaves(body):
        usable = _check_value(key, value, problems)
        if usable is not None:
            metrics[key] = usable
    metrics = _limit_values(metrics, objective, problems)
    done, ends = body.get(DONE_KEY) is True, body.get(END_KEY) is True
    result = ResultLine(metrics, _read_checkpoint(body, problems), done or ends, ends, tuple(problems))
    if not result.is_result and not result.done:
        raise BadLine(f"holds no usable value: {'; '.join(problems) or 'it is empty'}")
    return result


def _load(line: bytes) -> dict[str, Any]:
    try:
        body = json.loads(line)
    except (ValueError, RecursionError) as error:
        raise BadLine(f"is not JSON: {error}: {_show(line)}") from error
    if not isinstance(body, dict):
        raise BadLine(f"is not a JSON object: {_show(line)}")
    return body


def _show(line: bytes) -> str:
    return line[:SHOWN].decode("utf-8", "backslashreplace")


def _leaves(body: dict[str, Any]) -> Iterator[tuple[str, object]]:
    stack: list[tuple[str, Any]] = [(key, body[key]) for key in reversed(body) if key not in RESERVED_KEYS]
    while stack:
        name, value = stack.pop()
        if isinstance(value, dict):
            stack.extend((f"{name}/{key}", value[key]) for key in reversed(value))
        else:
            yield name, value


def _check_value(key: str, value: object, problems: list[str]) -> MetricValue | None:
    if value is None:
        return None  # how many a JSON library writes "no value"
    if isinstance(value, str) and len(value) > MAX_TEXT:
        problems.append(f"{key[:MAX_KEY]} was cut to {MAX_TEXT} characters")
        value = value[: MAX_TEXT - 1] + "…"
    problem = find_metric_problem(key, value)
    if problem is None and isinstance(value, bool | int | float | str):
        return value
    if len(problems) < MAX_PROBLEMS:
        problems.append(f"{key[:MAX_KEY]!r} {problem}")
    return None


def _limit_values(metrics: dict[str, MetricValue], objective: str, problems: list[str]) -> dict[str, MetricValue]:
    if objective in metrics:
        metrics = {objective: metrics[objective], **metrics}
    if len(metrics) > MAX_VALUES:
        problems.append(f"it holds {len(metrics)} values; the first {MAX_VALUES} were taken")
        metrics = dict(list(metrics.items())[:MAX_VALUES])
    return metrics


def _read_checkpoint(body: Mapping[str, Any], problems: list[str]) -> str | None:
    name = body.get(CHECKPOINT_KEY)
    if name is None:
        return None
    if not isinstance(name, str) or not _is_entry_name(name):
        problems.append(f"{CHECKPOINT_KEY} is not the name of a directory: {str(name)[:SHOWN]!r}")
        return None
    return name


def _is_entry_name(name: str) -> bool:
    """Whether a directory may have this name; half a surrogate pair, say, is no text that the file system takes."""
    try:
        length = len(os.fsencode(name))
    except UnicodeEncodeError:
        return False
    return 0 < length <= _MAX_NAME and name not in (".", "..") and not set(name) & {"/", "\0"}


class LineSplitter:
    """Cuts a stream of bytes into lines; a line that is too long is passed over, whatever its length."""

    def __init__(self, max_line: int = _MAX_LINE) -> None:
        self._max_line = max_line
        self._rest = bytearray()
        self._skipping = False
        self.oversized = 0
        """How many lines were passed over."""

    def feed(self, data: bytes) -> list[bytes]:
        """Takes the next bytes in, and returns the lines that are complete now, without their ends."""
        self._rest += data
        *complete, rest = bytes(self._rest).split(b"\n") if b"\n" in data else [bytes(self._rest)]
        lines = [line for line in map(self._check, complete) if line is not None]
        if len(rest) > self._max_line:
            self._skipping, rest = True, b""
        self._rest = bytearray() if self._skipping else bytearray(rest)
        return lines

    def finish(self) -> list[bytes]:
        """The last line, where it lacks its end."""
        return self.feed(b"\n") if self._rest or self._skipping else []

    def _check(self, line: bytes) -> bytes | None:
        skipping, self._skipping = self._skipping, False
        if skipping or len(line) > self._max_line:
            self.oversized += 1
            return None
        return line if line.strip() else None
