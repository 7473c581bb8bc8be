"""Logs in the operator's form."""

from __future__ import annotations

import json
import logging
import sys

from podtune.dashboard.server.logs import FACTS, JsonFormatter


def test_an_event_is_one_line_with_its_facts() -> None:
    record = logging.makeLogRecord(
        {"msg": "login of %s", "args": ("a\nb",), "levelname": "INFO", FACTS: {"viewer": "alice"}}
    )
    line = JsonFormatter().format(record)
    assert "\n" not in line
    told = json.loads(line)
    assert (told["event"], told["level"], told["viewer"]) == ("login of a\nb", "info", "alice")
    assert told["timestamp"].endswith("Z")


def test_an_exception_comes_with_its_traceback() -> None:
    try:
        raise ValueError("broken")
    except ValueError:
        record = logging.makeLogRecord({"msg": "failed", "exc_info": sys.exc_info()})
    assert "ValueError: broken" in json.loads(JsonFormatter().format(record))["exception"]
