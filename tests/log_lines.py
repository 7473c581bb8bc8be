"""Compares log lines with their schema, docs/reference_pages/log_fields.yaml; unit tests compare all that they log."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterator, Mapping, MutableMapping
from contextlib import contextmanager
from typing import Any

import pytest
import structlog
from structlog.testing import LogCapture

from docs.reference_pages.logs import EVERY_LINE, read_log_fields
from podtune.agent.event_log import EventLog
from podtune.dashboard.server.logs import FieldLogger

LEVELS = ("debug", "info", "warning", "error", "critical")
OF_LIBRARIES = "logger"
_TIME = re.compile(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(\.\d+)?(Z|\+00:00)")
_TYPES: Mapping[str, Callable[[Any], bool]] = {
    "string": lambda value: isinstance(value, str),
    "time": lambda value: isinstance(value, str) and _TIME.fullmatch(value) is not None,
    "integer": lambda value: isinstance(value, int) and not isinstance(value, bool),
    "number": lambda value: isinstance(value, int | float) and not isinstance(value, bool),
    "boolean": lambda value: isinstance(value, bool),
    "list of strings": lambda value: isinstance(value, list | tuple) and all(isinstance(item, str) for item in value),
    "map of booleans": lambda value: isinstance(value, dict) and all(isinstance(item, bool) for item in value.values()),
}
_UNWRITTEN = ("log_level", "exc_info")
"""What structlog adds to an event, or takes from it, on its way to the line."""


def find_problems(line: Mapping[str, Any]) -> list[str]:
    """What of a whole line is not as the schema has it."""
    fields = read_log_fields()
    lacking = [name for name, field in fields.items() if field.group == EVERY_LINE and name not in line]
    level = [] if line.get("level") in LEVELS else [f"level is {line.get('level')!r}"]
    return [*(f"{name} is missing" for name in lacking), *level, *find_field_problems(line)]


def find_field_problems(line: Mapping[str, Any]) -> list[str]:
    """What of some fields is not as the schema has it: of one that is unknown, of another type, or stands alone."""
    fields, problems = read_log_fields(), []
    for name, value in line.items():
        if name not in fields:
            problems.append(f"{name} is no field of the schema")
        elif not _TYPES[fields[name].kind](value):
            problems.append(f"{name} is {value!r}, not of type {fields[name].kind}")
        elif fields[name].needs and fields[name].needs not in line:
            problems.append(f"{name} stands without {fields[name].needs}")
    return problems


@contextmanager
def collect_problems() -> Iterator[list[str]]:
    """Gives the list that the problems of all lines are added to which this process writes meanwhile."""
    problems: list[str] = []

    def note(event: object, found: list[str]) -> None:
        problems.extend(f"{event!r}: {problem}" for problem in found)

    format_line, process, capture = EventLog._format_line, FieldLogger.process, LogCapture.__call__

    def format_checked(log: EventLog, level: str, event: str, details: dict[str, object]) -> str:
        line = format_line(log, level, event, details)
        note(event, find_problems(json.loads(line)))
        return line

    def process_checked(log: FieldLogger, msg: Any, kwargs: MutableMapping[str, Any]) -> Any:
        note(msg, find_field_problems({name: value for name, value in kwargs.items() if name not in _UNWRITTEN}))
        return process(log, msg, kwargs)

    def check(_logger: object, _method: str, event: MutableMapping[str, Any]) -> MutableMapping[str, Any]:
        note(event.get("event"), find_field_problems({k: v for k, v in event.items() if k not in _UNWRITTEN}))
        return event

    def capture_checked(own: LogCapture, logger: Any, method: str, event: MutableMapping[str, Any]) -> Any:
        return capture(own, logger, method, check(logger, method, event))

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(EventLog, "_format_line", format_checked)
        patch.setattr(FieldLogger, "process", process_checked)
        patch.setattr(LogCapture, "__call__", capture_checked)
        before = structlog.get_config()
        structlog.configure(processors=[check, *before["processors"]])
        try:
            yield problems
        finally:
            structlog.configure(processors=before["processors"])
