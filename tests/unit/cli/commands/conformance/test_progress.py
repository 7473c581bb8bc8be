"""What people see while checks run, on narrow and on wide terminals."""

from __future__ import annotations

import io
import re

import pytest
from rich.console import Console

from podtune.cli.commands.conformance.catalog import CHECKS
from podtune.cli.commands.conformance.progress import LiveProgress
from podtune.cli.commands.conformance.report import list_checks, render_check
from podtune.cli.commands.conformance.running import CheckReport, CheckState

CRASH, EVICTION, *_ = CHECKS
LONG = "Trial eviction-0: PENDING Unschedulable: 0/3 nodes are available: 3 Insufficient memory, and " + "x" * 30
LATE = "not within 180 s: the next attempt begins"
REPORTS = (
    CheckReport(CRASH, CheckState.PASSED, 12.3),
    CheckReport(EVICTION, CheckState.FAILED, 180.2, LATE, [LONG, "pod a: Pending"]),
    CheckReport(CHECKS[2], CheckState.SKIPPED, words="there is no store; give one: --store s3://BUCKET/PREFIX"),
)


@pytest.mark.parametrize("width", [60, 80, 200])
def test_lines_fit_and_say_all(width: int) -> None:
    console = Console(file=io.StringIO(), width=width, force_terminal=True, highlight=False)
    progress = LiveProgress(console, 8, lambda: 0.0)
    for report in REPORTS:
        progress.begin(report.check.name)
        progress.end(report)
    written = console.file.getvalue()  # type: ignore[attr-defined]
    assert "\x1b[31mFAILED" in written
    lines = re.sub(r"\x1b\[[0-9;]*m", "", written).splitlines()
    assert max(map(len, lines)) <= width
    words = " ".join(" ".join(lines).split())
    for text in (EVICTION.proves, "give one: --store", LATE, LONG):
        assert text in words or width == 60, "what is broken beside another column is not one text here"
    assert lines[0].split()[:4] == ["passed", "crash", "12", "s"]


@pytest.mark.parametrize("width", [60, 200])
def test_what_is_waited_for_stands_on_one_line(width: int) -> None:
    now = 0.0
    console = Console(file=io.StringIO(), width=width, force_terminal=True)
    progress = LiveProgress(console, 8, lambda: now)
    with console.capture() as idle:
        console.print(progress.draw())
    assert not idle.get().strip()
    progress.begin("eviction")
    progress.say("the way to the store is open, and the trial says in a long sentence that it is")
    now = 7.0
    with console.capture() as captured:
        console.print(progress.draw())
    (line,) = re.sub(r"\x1b\[[0-9;]*m", "", captured.get()).splitlines()
    assert len(line) <= width
    assert "eviction    7 s  waiting until the way to the store" in line


def test_pipes_get_lines_without_an_end() -> None:
    lines = [line for report in REPORTS for line in render_check(report, 8, None)]
    assert lines[1] == f"FAILED   eviction  180 s  {EVICTION.proves}"
    assert lines[2:5] == [
        f"        {LATE}",
        f"            {LONG}",
        "            pod a: Pending",
    ]


@pytest.mark.parametrize("width", [60, 200, None])
def test_the_list_of_checks_fits(width: int | None) -> None:
    lines = list_checks(CHECKS, width)
    assert width is None or max(map(len, lines)) <= width
    assert [line for line in lines if line.startswith("lost-pod")]
