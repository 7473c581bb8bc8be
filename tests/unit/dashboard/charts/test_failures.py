"""Where trials fail, on the page of the search space."""

from __future__ import annotations

import re
from typing import Any

import pytest

from podtune.dashboard.charts.failure_logs import MOST_ENDINGS, list_log_endings
from podtune.dashboard.charts.failures import FailureKind, draw_failures, find_last_failure
from podtune.dashboard.decisions import FAILURE_CLASSES
from podtune.dashboard.trial_rows import ExperimentRows, TrialRow, collect_rows
from podtune.runner.attempts.classification import FailureClass
from tests.unit.dashboard.archives import BASE, done, experiment_body, make_source, read_page, serve, trial_body

PARAMETERS = [
    {"name": "lr", "float": {"min": 0, "max": 1}},
    {"name": "batch", "int": {"min": 1, "max": 4}},
    {"name": "depth", "int": {"min": 1, "max": 4}, "when": {"batch": [1]}},
]


def end(failure_class: str, reason: str = "Error", message: str = "exited with code 1") -> dict[str, Any]:
    return {"lastAttempt": {"attempt": 1, "class": failure_class, "reason": reason, "message": message}}


def retry(failure_class: str, message: str, number: int = 1, action: str = "RETRY") -> dict[str, Any]:
    """An entry of the ledger."""
    inputs = {failure_class: "1"} if failure_class else {}
    time = "2026-01-01T10:00:00Z"
    return {"number": number, "time": time, "attempt": number, "action": action, "message": message, "inputs": inputs}


def fail(failure_class: str, reason: str = "Error", message: str = "exited with code 1") -> dict[str, Any]:
    return {"state": "ERROR", "reason": reason, "message": message, "attempt": 1} | end(failure_class, reason, message)


def make_trial(index: int, **status: Any) -> dict[str, Any]:
    return trial_body(index, {"lr": repr(index % 10 / 10), "batch": str(1 + index % 4)}, **status)


def collect(*trials: dict[str, Any]) -> ExperimentRows:
    source = make_source(trials, experiment_body(parameters=PARAMETERS))
    view = source.find_experiment("team", "digits")
    assert view is not None
    return collect_rows(view, source.list_trials("team", "digits"))


def make_row(**status: Any) -> TrialRow:
    return collect(make_trial(0, **status)).rows[0]


@pytest.mark.parametrize(
    ("status", "kind"),
    [
        (fail("user"), FailureKind.PROGRAM),
        (fail("final", "NonRetriableExitCode"), FailureKind.PROGRAM),
        (fail("unusable"), FailureKind.PROGRAM),
        (fail("user", "OOMKilled"), FailureKind.MEMORY),
        (fail("user", "Evicted"), FailureKind.DISK),
        (fail("infrastructure", "RestoreFailed"), FailureKind.INFRASTRUCTURE),
        (fail("disruption", "PodDeleted"), FailureKind.DISRUPTION),
        (fail("ignored"), FailureKind.OTHER),
        (fail("newer"), FailureKind.OTHER),
        ({"state": "ERROR", "reason": "Refused", "message": "refused"}, FailureKind.OTHER),
    ],
)
def test_a_trial_that_failed_for_good_has_its_kind(status: dict[str, Any], kind: FailureKind) -> None:
    failure = find_last_failure(make_row(**status))
    assert failure is not None
    assert (failure.kind, failure.is_lasting, failure.message) == (kind, True, status["message"])


@pytest.mark.parametrize(
    ("entries", "kind"),
    [
        ([retry("user", "container main exited with code 1; will be retried")], FailureKind.PROGRAM),
        ([retry("user", "container main used more memory than its limit; will be retried")], FailureKind.MEMORY),
        ([retry("user", "Pod ephemeral local storage usage exceeds the total limit")], FailureKind.DISK),
        ([retry("user", 'Usage of EmptyDir volume "scratch" exceeds the limit "1Gi"')], FailureKind.DISK),
        ([retry("disruption", "TerminationByKubelet: low on ephemeral-storage")], FailureKind.DISRUPTION),
        ([retry("infrastructure", "no place", action="FAIL"), retry("", "as asked", 2)], FailureKind.INFRASTRUCTURE),
        ([retry("user", "exited"), retry("disruption", "drained", 2)], FailureKind.DISRUPTION),
        ([retry("user", "exited"), retry("value", "stopped at rung 3", 2, "STOP")], FailureKind.PROGRAM),
    ],
)
def test_a_trial_that_went_on_has_the_kind_of_its_newest_retry(entries: list[Any], kind: FailureKind) -> None:
    failure = find_last_failure(make_row(**done(0.5, ledger=entries), **end("complete", "Completed")))
    assert failure is not None
    assert (failure.kind, failure.is_lasting) == (kind, False)


@pytest.mark.parametrize(
    "status",
    [
        {},
        done(0.5),
        done(0.5) | end("ours", "StoppedByScheduler"),
        done(0.5, ledger=[retry("value", "stopped at rung 3", action="STOP")]),
        done(0.5, ledger=[retry("final", "the metric final is below its cutoff", action="STOP")]),
        # A retry that somebody asked for, or one for want of a place, is none.
        done(0.5, ledger=[retry("", "retried as asked")]),
    ],
)
def test_a_trial_that_did_not_fail_has_no_failure(status: dict[str, Any]) -> None:
    assert find_last_failure(make_row(**status)) is None


def test_each_class_of_the_operator_is_a_failure_here_if_it_is_one_there() -> None:
    for failure_class in FailureClass:
        status = done(0.5) | end(str(failure_class))
        assert (find_last_failure(make_row(**status)) is not None) == failure_class.is_failure, failure_class
        assert (str(failure_class) in FAILURE_CLASSES) == failure_class.is_failure, failure_class


def test_marks_stand_where_the_parameters_are() -> None:
    trials = [make_trial(index, **done(0.5)) for index in range(10)]
    trials[5] = make_trial(5, **fail("user", "OOMKilled"))
    chart = draw_failures(collect(*trials), "lr", "batch")
    assert chart is not None
    assert [(mark.failure.row.name, mark.x, mark.y) for mark in chart.marks] == [("digits-5", 0.5, 0.375)]
    assert chart.counts == {FailureKind.MEMORY: 1}
    assert chart.others.count("h0") == 9


def test_of_very_many_failures_some_are_drawn_and_all_counted() -> None:
    trials = (
        make_trial(index, **(fail("user") if index == 7 else done(0.5) | end("disruption"))) for index in range(2000)
    )
    chart = draw_failures(collect(*trials), "lr", "batch")
    assert chart is not None
    assert (chart.failed, chart.lasting, len(chart.marks), len(chart.listed)) == (2000, 1, 1500, 100)
    # What failed for good is among them, and lies on top.
    assert chart.marks[-1].failure.row.name == chart.listed[0].row.name == "digits-7"
    assert chart.counts == {FailureKind.PROGRAM: 1, FailureKind.DISRUPTION: 1999}


async def test_the_search_space_has_the_chart_its_table_and_its_picture() -> None:
    message = "container main <b>used</b> more memory than its limit"
    trials = [make_trial(index, **done(0.5 + index / 100)) for index in range(6)]
    trials[2] = make_trial(2, **fail("user", "OOMKilled", message))
    trials[4] = make_trial(4, **done(0.6, ledger=[retry("user", "exited with code 1; will be retried")]))
    async with serve(make_source(trials, experiment_body(parameters=PARAMETERS))) as client:
        page = await read_page(client, f"{BASE}/parameters?x=lr&y=batch")
        card = page[page.index('aria-labelledby="failures"') :]
        card = card[: card.index("</section>")]
        assert "2 of 6 trials have failed at least once, 1 of them for good" in card
        assert "<b>" not in card
        cells = [re.sub("<[^>]*>", " ", row).split("  ") for row in re.findall(r"<tr><td>(.*?)</tr>", card)]
        assert [[cell.strip() for cell in row if cell.strip()] for row in cells] == [
            ["digits-2", "for good", "Out of memory", message.replace("<", "&lt;").replace(">", "&gt;"), "0.2", "3"],
            ["digits-4", "The program&#39;s own", "exited with code 1; will be retried", "0.4", "1"],
        ]
        assert re.findall(r'<use class="fail (\w+)(?: lasting)?" href="#fail-\w+" x=', card) == ["program", "memory"]
        picture = await read_page(client, f"{BASE}/charts/failures.svg?x=lr&y=batch&theme=dark")
        assert "digits: Failures over lr and batch" in picture
        page = await read_page(client, f"{BASE}/parameters?x=lr&y=depth")
        assert "2 without lr or depth are in the table alone" in page


async def test_where_nothing_failed_there_is_no_chart() -> None:
    trials = [make_trial(index, **done(0.5)) for index in range(6)]
    async with serve(make_source(trials, experiment_body(parameters=PARAMETERS))) as client:
        assert 'id="failures"' not in await read_page(client, f"{BASE}/parameters")
        await read_page(client, f"{BASE}/charts/failures.svg", 404)


def print_last(index: int, lines: str, reason: str = "Error") -> dict[str, Any]:
    """A trial that failed, with what it has printed last."""
    status = fail("user", reason)
    status["lastAttempt"]["logTail"] = lines
    return make_trial(index, **status)


def test_endings_that_differ_in_numbers_alone_are_one_entry() -> None:
    trials = [
        print_last(0, "step 12\nCUDA error at 0x7f00aa"),
        print_last(1, "step 990\nCUDA error at 0x1b\n"),
        print_last(2, "KeyError: 'lr'"),
        print_last(3, "Killed", "OOMKilled"),
        make_trial(4, **fail("user")),
        make_trial(5, **done(0.5)),
    ]
    program, memory = list_log_endings(collect(*trials))
    assert [(each.headline, [row.name for row in each.rows]) for each in program.endings] == [
        ("CUDA error at 0x1b", ["digits-1", "digits-0"]),
        ("KeyError: 'lr'", ["digits-2"]),
    ]
    assert program.endings[0].text == "step 990\nCUDA error at 0x1b"
    assert (program.kind, program.silent, program.others) == (FailureKind.PROGRAM, 1, 0)
    assert [each.headline for each in memory.endings] == ["Killed"]


def test_very_many_endings_are_counted() -> None:
    words = "abcdefghij"
    (program,) = list_log_endings(collect(*(print_last(index, f"error {word}") for index, word in enumerate(words))))
    assert len(program.endings) == MOST_ENDINGS
    assert program.others == len(words) - MOST_ENDINGS


async def test_the_page_shows_the_last_lines_by_what_went_wrong() -> None:
    lines = "Traceback\n<b>ValueError</b>"
    trials = [*(print_last(index, lines) for index in range(7)), make_trial(8, **fail("infrastructure"))]
    async with serve(make_source(trials, experiment_body(parameters=PARAMETERS[:1]))) as client:
        page = await read_page(client, f"{BASE}/parameters")
    card = page[page.index('id="endings"') :]
    assert "<h3>The program&#39;s own</h3>" in card
    assert "7 trials" in card
    assert "and 2 more" in card
    assert "<b>" not in page
    assert "Before the program ran</h3>" not in card  # nothing of it has printed anything
