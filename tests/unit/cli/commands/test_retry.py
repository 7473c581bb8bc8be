"""`podtune retry`: which attempt it names, and what it refuses."""

from __future__ import annotations

from typing import Any

import pytest

from podtune.cli import main as cli
from podtune.cli.client import api_client
from podtune.kube import paths
from tests.unit.cli.cli_fakes import NAMESPACE, RUNNING, TRAINING, FakeApi, experiment, trial

TRIAL = paths.trial(NAMESPACE, "digits-7")
SECOND = TRAINING | {"lastAttempt": {"attempt": 1}}


@pytest.fixture
def api(monkeypatch: pytest.MonkeyPatch) -> FakeApi:
    fake = FakeApi()
    monkeypatch.setattr(api_client, "open_api", lambda kubeconfig, context, namespace: (fake, namespace or NAMESPACE))
    item = experiment("digits", **RUNNING)
    item["spec"]["checkpoints"] = {"store": {"bucket": "b"}}
    fake.add_experiment(item)
    fake.add_trial(trial(7, **SECOND))
    return fake


def run(capsys: pytest.CaptureFixture[str], line: str, expect: int = 0) -> str:
    code = cli.main(line.split())
    written = capsys.readouterr()
    assert code == expect, written.err
    return written.err if expect else written.out


@pytest.mark.parametrize(
    ("status", "attempt", "said"),
    [
        ({}, 2, "attempt 2 of trial digits-7 stores a checkpoint and ends; the next one goes on from there"),
        ({"lastAttempt": None, "attempt": 1}, 1, "attempt 1 of trial digits-7 stores a checkpoint and ends; "),
        ({"state": "PENDING", "reason": "PullingImage"}, 2, "the pods of attempt 2 of trial digits-7 are replaced"),
        (
            {"state": "PENDING", "reason": "BackingOff", "attempt": 1},
            2,
            "attempt 2 of trial digits-7 starts as soon as a slot is free",
        ),
    ],
)
def test_the_request_names_the_current_attempt(
    api: FakeApi, capsys: pytest.CaptureFixture[str], status: dict[str, Any], attempt: int, said: str
) -> None:
    item = trial(7, **{name: value for name, value in (SECOND | status).items() if value is not None})
    api.add_trial(item)
    assert run(capsys, "retry digits-7").startswith(said)
    assert api.patched == [(TRIAL, {"spec": {"retry": {"attempt": attempt}}})]


@pytest.mark.parametrize(
    ("status", "spec", "said"),
    [
        (
            {"state": "ERROR"},
            {},
            "trial digits-7 has ended (ERROR); when its experiment has ended, `podtune resume digits --errored Resume`",
        ),
        ({"state": "TERMINATED"}, {}, "trial digits-7 has ended (TERMINATED); you can't retry it"),
        ({"state": "PAUSED", "reason": "PausedByScheduler"}, {}, "trial digits-7 is paused; it goes on by itself"),
        (
            {"state": "PAUSED", "reason": "PausedByUser"},
            {"desiredState": "Paused"},
            "trial digits-7 is paused by its user; `podtune resume digits-7` has it go on, with the ",
        ),
        ({"state": "PENDING", "reason": "Queued"}, {}, "trial digits-7 waits for a free slot; it starts by itself"),
    ],
)
def test_what_has_no_attempt_to_end_is_refused(
    api: FakeApi, capsys: pytest.CaptureFixture[str], status: dict[str, Any], spec: dict[str, Any], said: str
) -> None:
    item = trial(7, **(SECOND | status))
    item["spec"] |= spec
    api.add_trial(item)
    assert run(capsys, "retry digits-7", expect=1).startswith(f"error: {said}")
    assert api.patched == []


def test_it_says_that_a_trial_without_a_store_starts_from_scratch(
    api: FakeApi, capsys: pytest.CaptureFixture[str]
) -> None:
    api.add_experiment(experiment("digits", **RUNNING))
    assert "ends; the next one starts from scratch (no checkpoints.store)" in run(capsys, "retry digits-7")


def test_a_trial_that_is_not_there_is_told(api: FakeApi, capsys: pytest.CaptureFixture[str]) -> None:
    assert "no Trial 'digits-8' in namespace 'vision'" in run(capsys, "retry digits-8", expect=1)


CHECKPOINTS = [{"step": step, "uri": f"s3://b/u/digits-7/a/{step}", "digest": "sha256:0"} for step in (2, 4)]
PAUSED = {"state": "PAUSED", "reason": "PausedByUser"}


@pytest.mark.parametrize(
    ("status", "said"),
    [
        ({}, "attempt 2 of trial digits-7 ends; the next one goes on from the checkpoint of iteration 2"),
        (PAUSED, "attempt 2 of trial digits-7 will start from the checkpoint of iteration 2"),
        ({"state": "PENDING", "reason": "Queued"}, "attempt 2 of trial digits-7 will start from the checkpoint"),
        ({"state": "PENDING", "reason": "PullingImage"}, "attempt 2 of trial digits-7 ends; the next one goes on from"),
    ],
    ids=["running", "paused", "queued", "starting"],
)
def test_a_trial_goes_back_to_an_earlier_checkpoint(
    api: FakeApi, capsys: pytest.CaptureFixture[str], status: dict[str, Any], said: str
) -> None:
    api.add_trial(trial(7, **(SECOND | {"checkpoints": CHECKPOINTS} | status)))
    assert run(capsys, "retry digits-7 --step 2").startswith(said)
    assert api.patched == [(TRIAL, {"spec": {"retry": {"attempt": 2, "step": 2}}})]


@pytest.mark.parametrize(
    ("status", "said"),
    [
        ({}, "with its present parameters, the checkpoints of these iterations are kept: 2, 4"),
        ({"checkpoints": []}, "no checkpoint with its present parameters is kept"),
        (
            {"clone": {"donor": "digits-1", "checkpoint": CHECKPOINTS[0]}},
            "it continues from a checkpoint of trial digits-1 and has none of its own yet",
        ),
    ],
    ids=["another iteration", "none", "clone"],
)
def test_it_goes_back_to_none_that_it_does_not_have(
    api: FakeApi, capsys: pytest.CaptureFixture[str], status: dict[str, Any], said: str
) -> None:
    api.add_trial(trial(7, **(SECOND | {"checkpoints": CHECKPOINTS} | status)))
    told = run(capsys, "retry digits-7 --step 3", expect=1)
    assert told == f"error: trial digits-7 can't go back to iteration 3 (spec.retry.step): {said}\n"
    assert api.patched == []


def test_a_trial_that_has_ended_does_not_go_back(api: FakeApi, capsys: pytest.CaptureFixture[str]) -> None:
    api.add_trial(trial(7, **(SECOND | {"state": "TERMINATED", "checkpoints": CHECKPOINTS})))
    assert "has ended (TERMINATED); you can't retry it" in run(capsys, "retry digits-7 --step 2", expect=1)
