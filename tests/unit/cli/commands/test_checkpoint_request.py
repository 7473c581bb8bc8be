"""`podtune checkpoint`: what it writes, what it refuses, and what it waits for."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from podtune.cli import main as cli
from podtune.cli.client import api_client
from podtune.cli.commands import checkpoint_request
from podtune.cli.errors import CliError
from podtune.kube import paths
from tests.unit.cli.cli_fakes import NAMESPACE, RUNNING, TRAINING, FakeApi, experiment, trial

TRIAL = paths.trial(NAMESPACE, "digits-7")
STORED = {"step": 9, "uri": "s3://b/digits-7/a/9", "digest": "sha256:1"}


@pytest.fixture
def api(monkeypatch: pytest.MonkeyPatch) -> FakeApi:
    fake = FakeApi()
    monkeypatch.setattr(api_client, "open_api", lambda kubeconfig, context, namespace: (fake, namespace or NAMESPACE))
    item = experiment("digits", **RUNNING)
    item["spec"]["checkpoints"] = {"store": {"bucket": "b"}}
    fake.add_experiment(item)
    fake.add_trial(trial(7, **TRAINING))
    return fake


def run(capsys: pytest.CaptureFixture[str], line: str, expect: int = 0) -> str:
    code = cli.main(line.split())
    written = capsys.readouterr()
    assert code == expect, written.err
    return written.err if expect else written.out


def put_trial(api: FakeApi, asked: str, **status: Any) -> None:
    item = trial(7, **(TRAINING | status))
    item["spec"]["checkpointRequest"] = {"id": asked}
    api.add_trial(item)


def wait(api: FakeApi, during: Callable[[int], None]) -> str:
    """Waits for the answer to request `one`; `during` is called with the seconds at each poll."""
    now = 0

    def sleep(seconds: float) -> None:
        nonlocal now
        now += int(seconds)
        during(now)

    return checkpoint_request.await_checkpoint(
        api, NAMESPACE, "digits-7", "one", limit=60.0, clock=lambda: now, sleep=sleep
    )


def test_each_call_asks_with_an_id_of_its_own(api: FakeApi, capsys: pytest.CaptureFixture[str]) -> None:
    for _ in range(2):
        said = run(capsys, "checkpoint digits-7")
        assert said == "trial digits-7 is asked for a checkpoint; status.checkpointRequest will name it\n"
    first, second = (change["spec"]["checkpointRequest"] for path, change in api.patched if path == TRIAL)
    assert first.keys() == {"id"}
    assert first != second


@pytest.mark.parametrize("state", ["PENDING", "PAUSED", "TERMINATED", "ERROR"])
def test_a_trial_that_does_not_run_is_refused(api: FakeApi, capsys: pytest.CaptureFixture[str], state: str) -> None:
    api.add_trial(trial(7, **(TRAINING | {"state": state})))
    said = run(capsys, "checkpoint digits-7", expect=1)
    assert said == f"error: trial digits-7 does not run ({state}); only a running trial can store a checkpoint\n"
    assert api.patched == []


def test_a_trial_without_a_store_is_refused(api: FakeApi, capsys: pytest.CaptureFixture[str]) -> None:
    api.add_experiment(experiment("digits", **RUNNING))
    assert "has no checkpoints.store; add one" in run(capsys, "checkpoint digits-7", expect=1)
    assert api.patched == []


def test_the_uri_is_returned_once_the_checkpoint_of_this_request_is_stored(api: FakeApi) -> None:
    put_trial(api, "one", checkpointRequest={"id": "earlier", "attempt": 1, "seq": 1, "checkpoint": STORED})

    def during(now: int) -> None:
        answer = {"checkpoint": STORED | {"uri": "s3://b/new"}} if now >= 3 else {}
        put_trial(api, "one", checkpointRequest={"id": "one", "attempt": 2, "seq": 7, **answer})

    assert wait(api, during) == "s3://b/new"


@pytest.mark.parametrize(
    ("asked", "status", "said"),
    [
        ("one", {}, "has stored no checkpoint within 60 s; its program has to report one when"),
        ("one", {"state": "TERMINATED"}, r"has ended \(TERMINATED\) before it stored the checkpoint"),
        ("two", {}, "somebody has asked trial digits-7 for another checkpoint meanwhile; ask again"),
    ],
)
def test_what_is_not_answered_is_told(api: FakeApi, asked: str, status: dict[str, Any], said: str) -> None:
    put_trial(api, asked, **status)
    with pytest.raises(CliError, match=said):
        wait(api, lambda now: None)
