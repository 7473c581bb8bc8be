"""Logs in the operator's form."""

from __future__ import annotations

import json
import logging

import pytest

from podtune.dashboard.server.logs import JsonFormatter, get_field_logger


def test_an_event_is_one_line_with_its_fields(caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level("INFO"):
        get_field_logger("podtune.dashboard").info("login", viewer="a\nb")
    line = JsonFormatter().format(caplog.records[0])
    assert "\n" not in line
    told = json.loads(line)
    assert (told["event"], told["level"], told["viewer"]) == ("login", "info", "a\nb")
    assert told["time"].endswith("Z")


def test_an_exception_comes_with_its_traceback(caplog: pytest.LogCaptureFixture) -> None:
    try:
        raise ValueError("broken")
    except ValueError:
        get_field_logger("podtune.dashboard").exception("page not shown", path="/")
    assert "ValueError: broken" in json.loads(JsonFormatter().format(caplog.records[0]))["exception"]


def test_on_a_terminal_the_message_follows_the_event(caplog: pytest.LogCaptureFixture) -> None:
    """`podtune dashboard` prints warnings as they are."""
    get_field_logger("podtune.dashboard").warning("no new credentials", message="100 % refused")
    assert logging.Formatter().format(caplog.records[0]) == "no new credentials: 100 % refused"
