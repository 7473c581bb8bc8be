"""A trial's attempts, as far as its status still has them."""

from __future__ import annotations

from typing import Any

from podtune.cli.client.resources import read_experiment, read_trial
from podtune.dashboard.progress.attempts import AttemptLine, list_attempts
from podtune.dashboard.trial_rows import collect_rows
from tests.unit.dashboard.archives import BASE, experiment_body, make_source, read_page, serve, trial_body


def decide(number: int, attempt: int, action: str, message: str, step: int = 3) -> dict[str, Any]:
    time = f"2026-01-01T10:0{number}:00Z"
    return {"number": number, "time": time, "attempt": attempt, "step": step, "action": action, "message": message}


LEDGER = [
    decide(4, 2, "RETRY", "the node shuts down; will be retried"),
    decide(5, 3, "CONTINUE", "continued at rung 3"),
    decide(6, 3, "PAUSE", "paused at rung 9", 9),
    decide(7, 3, "STOP", "never promoted", 9),
]
LAST = {"attempt": 4, "class": "user", "reason": "Error", "message": "exited with code 3", "exitCode": 3}


def list_lines(**status: Any) -> list[AttemptLine]:
    rows = collect_rows(read_experiment(experiment_body()), [read_trial(trial_body(0, **status))])
    return list(list_attempts(rows.rows[0]))


def test_each_attempt_has_what_ended_it() -> None:
    lines = list_lines(
        state="RUNNING", reason="Training", message="epoch 12", attempt=5, iteration=12, ledger=LEDGER, lastAttempt=LAST
    )
    assert [(each.number, each.outcome, each.message, each.step) for each in lines] == [
        (5, "Training", "epoch 12", 12),
        (4, "Error", "exited with code 3", None),
        (3, "PAUSE", "paused at rung 9", 9),
        (2, "RETRY", "the node shuts down; will be retried", 3),
        (1, "", "", None),
    ]
    assert [each.number for each in lines if each.is_current] == [5]
    assert lines[1].exit_code == 3


def test_the_last_attempt_keeps_the_time_of_the_decision_that_ended_it() -> None:
    end = {"attempt": 3, "class": "ours", "reason": "PausedByScheduler", "message": ""}
    (line, *_) = list_lines(state="PAUSED", attempt=3, ledger=LEDGER, lastAttempt=end)
    assert (line.outcome, line.message, line.time) == ("PausedByScheduler", "paused at rung 9", "2026-01-01T10:06:00Z")


def test_an_attempt_that_trained_to_its_end_is_followed_by_the_evaluation() -> None:
    ledger = [decide(1, 1, "EVALUATE", "trained; its checkpoint of iteration 9 is evaluated", 9)]
    lines = list_lines(state="RUNNING", reason="Evaluating", attempt=2, ledger=ledger)
    assert [(each.number, each.outcome, each.step) for each in lines[1:]] == [(1, "EVALUATE", 9)]


def test_an_attempt_whose_pod_has_yet_to_start_goes_on() -> None:
    pod = {"name": "digits-0-1", "uid": "p-1"}
    (line,) = list_lines(state="PENDING", reason="PullingImage", message="ErrImagePull", attempt=1, pod=pod)
    assert (line.message, line.is_current) == ("ErrImagePull", True)
    (exported,) = list_lines(attempt=1)  # an archive has no pods
    assert not exported.is_current


def test_very_many_are_not_all_listed() -> None:
    assert [each.number for each in list_lines(attempt=80)][-1] == 31


async def test_the_page_says_what_is_no_longer_on_record() -> None:
    trial = trial_body(0, state="ERROR", attempt=3, ledger=LEDGER[:1], lastAttempt=LAST | {"attempt": 3})
    async with serve(make_source([trial])) as client:
        page = await read_page(client, f"{BASE}/trials/digits-0")
    assert "<b>RETRY</b> the node shuts down" in page
    assert "<b>Error</b> exited with code 3 (exit code 3)" in page
    assert "no longer in the Trial’s status" in page
