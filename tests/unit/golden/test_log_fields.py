"""Whoever filters logs can rely on their fields: all that the processes log is of one schema, and real lines are."""

from __future__ import annotations

import json
import subprocess
import sys

import pytest

from docs.reference_pages.log_calls import LogCall, list_context_fields, list_log_calls
from docs.reference_pages.logs import EVERY_LINE, EXAMPLE, read_log_fields
from tests.log_lines import OF_LIBRARIES, find_problems

CALLS = list_log_calls()
OPERATOR = """
import asyncio, logging, warnings, structlog
from podtune.app.main import _configure_logging

_configure_logging("debug")
log = structlog.get_logger("podtune.test")
log.warning("action not done", namespace="team", experiment="digits", action="MakePod", outcome="FAILED", message="no")
try:
    raise ValueError("broken")
except ValueError:
    log.exception("action failed", namespace="team", experiment="digits", action="MakePod")
    logging.getLogger("aiohttp.server").exception("Error handling request from %s", "10.0.0.7")
logging.getLogger("kopf.objects").critical("it's %d %%", 7, extra={"k8s_ref": {"name": "digits"}})
logging.getLogger("asyncio").debug("Using selector: %s", "epoll")
warnings.warn("old", DeprecationWarning)
async def fail():
    raise RuntimeError("in a task")
async def main():
    task = asyncio.ensure_future(fail())
    await asyncio.sleep(0)
    await asyncio.sleep(0)
asyncio.run(main())
"""
DASHBOARD = """
import logging, warnings
from podtune.dashboard.server.logs import configure_logging, get_field_logger

configure_logging("debug")
log = get_field_logger("podtune.dashboard.access.login")
log.info("login", viewer="alice", client="10.0.0.7")
log.warning("stream ends", message="100 % broken")
try:
    raise ValueError("broken")
except ValueError:
    log.exception("page not shown", path="/")
    logging.getLogger("aiohttp.server").exception("Error handling request from %s", "10.0.0.7")
logging.getLogger("asyncio").debug("Using selector: %s", "epoll")
warnings.warn("old", DeprecationWarning)
"""
AGENT = """
import io, random, sys, time
from podtune.agent.event_log import EventLog

log = EventLog(time.time, {"command": "run", "namespace": "team", "experiment": "digits", "trial": "digits-0"})
log.bind(attempt=2, attempt_id="u-1").info("checkpoint stored", step=3, uri="s3://b/k", seconds=0.5)
"""


def run(program: str) -> list[dict[str, object]]:
    """The lines that a program logs, each of which has to be JSON."""
    done = subprocess.run([sys.executable, "-W", "always", "-c", program], check=True, capture_output=True, text=True)
    assert done.stdout == ""
    return [json.loads(line) for line in done.stderr.splitlines()]


@pytest.mark.parametrize("call", CALLS, ids=lambda call: call.place)
def test_every_call_names_its_event_and_its_fields(call: LogCall) -> None:
    assert not call.problem, "who filters by an event or a field looks for it on the page: write constants"
    unknown = set(call.fields) - read_log_fields().keys()
    assert not unknown, "use a field of docs/reference_pages/log_fields.yaml that means the same, or add one"


@pytest.mark.parametrize("call", [call for call in CALLS if call.component != "agent"], ids=lambda call: call.place)
def test_a_line_about_an_experiment_says_in_which_namespace(call: LogCall) -> None:
    """And so for other fields that mean little without another one. The agent's log has these in each of its lines."""
    fields = read_log_fields()
    assert [name for name in call.fields if fields[name].needs and fields[name].needs not in call.fields] == []


def test_every_field_is_in_use() -> None:
    used = {name for call in CALLS for name in call.fields} | list_context_fields() | {OF_LIBRARIES}
    of_all = {name for name, field in read_log_fields().items() if field.group == EVERY_LINE}
    assert read_log_fields().keys() - used - of_all == set(), "a field that is no longer used: see the table's head"
    assert not used & of_all, "these are added to each line"


def test_fields_that_count_or_measure_say_in_what() -> None:
    for field in read_log_fields().values():
        assert field.meaning.endswith("."), field.name
        assert field.kind != "number" or field.unit, field.name


@pytest.mark.parametrize(("program", "component"), [(OPERATOR, "operator"), (DASHBOARD, "dashboard"), (AGENT, "agent")])
def test_lines_of_ours_and_of_libraries_are_of_the_schema(program: str, component: str) -> None:
    lines = run(program)
    assert {str(line): find_problems(line) for line in lines if find_problems(line)} == {}
    assert {line["component"] for line in lines} == {component}


@pytest.mark.parametrize("program", [OPERATOR, DASHBOARD])
def test_lines_of_libraries_say_whose_they_are(program: str) -> None:
    lines = run(program)
    named = {line[OF_LIBRARIES] for line in lines if OF_LIBRARIES in line}
    assert {"aiohttp.server", "asyncio", "py.warnings"} <= named
    assert not [name for name in named if str(name).startswith("podtune")]
    failed = next(line for line in lines if line.get(OF_LIBRARIES) == "aiohttp.server")
    assert failed["event"] == "Error handling request from 10.0.0.7"
    assert "ValueError: broken" in str(failed["exception"])


def test_an_error_that_nobody_has_caught_is_a_line_too() -> None:
    (lost,) = [line for line in run(OPERATOR) if "never retrieved" in str(line["event"])]
    assert "RuntimeError: in a task" in str(lost["exception"])


def test_the_example_of_the_page_is_a_line() -> None:
    assert find_problems(json.loads(EXAMPLE)) == []
