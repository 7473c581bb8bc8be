"""`podtune wait`: what it waits for, and the exit code that says how it ended."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import pytest

from podtune.cli import main as cli
from podtune.cli.client import api_client
from podtune.cli.client.api_client import Change
from podtune.cli.errors import ExitStatus
from podtune.kube import paths
from podtune.kube.errors import Unanswered
from tests.unit.cli.cli_fakes import NAMESPACE, RUNNING, FakeApi, experiment

HELD: Mapping[str, dict[str, Any]] = {
    type_: RUNNING | {"conditions": [{"type": type_, "status": "True", "reason": "R", "message": f"it is {type_}"}]}
    for type_ in ("Complete", "Failed", "Stalled")
}


@pytest.fixture
def api(monkeypatch: pytest.MonkeyPatch) -> FakeApi:
    api = FakeApi()
    monkeypatch.setattr(api_client, "open_api", lambda kubeconfig, context, namespace: (api, namespace or NAMESPACE))
    return api


def tell(api: FakeApi, *statuses: dict[str, Any] | Exception | None) -> None:
    """Has the watch tell of an Experiment with each of these statuses; None deletes it."""
    script: list[Change | Exception] = [Change("RELISTED", {}), Change("ADDED", experiment("digits", **RUNNING))]
    script.append(Change("SYNCED", {}))
    for status in statuses:
        if isinstance(status, Exception):
            script.append(status)
        else:
            kind = "DELETED" if status is None else "MODIFIED"
            script.append(Change(kind, experiment("digits", **(status or {}))))
    api.scripts[paths.experiments(NAMESPACE)] = script


BETTER = RUNNING | {"best": RUNNING["best"] | {"value": "0.99"}}
MORE = RUNNING | {"trials": RUNNING["trials"] | {"terminated": 9}}


@pytest.mark.parametrize(
    ("goal", "status", "ending"),
    [
        ("complete", HELD["Complete"], (ExitStatus.DONE, "digits: it is Complete")),
        ("complete", HELD["Failed"], (ExitStatus.FAILED, "complete will not come: it is Failed")),
        ("complete", HELD["Stalled"], (ExitStatus.FAILED, "complete will not come: it is Stalled")),
        ("complete", None, (ExitStatus.FAILED, "the experiment was deleted")),
        ("failed", HELD["Failed"], (ExitStatus.DONE, "digits: it is Failed")),
        ("failed", HELD["Complete"], (ExitStatus.FAILED, "failed will not come: it is Complete")),
        ("best>=0.98", BETTER, (ExitStatus.DONE, "best accuracy 0.99 by digits-4")),
        ("best >= 0.98", HELD["Complete"], (ExitStatus.FAILED, "best >= 0.98 will not come: it is Complete")),
        ("best<0.98", RUNNING, (ExitStatus.DONE, "best accuracy 0.972")),
        ("trials>=10", MORE, (ExitStatus.DONE, "10 of 24 trials are done")),
        ("complete", Unanswered("gone"), (ExitStatus.UNREACHABLE, "error: gone")),
    ],
)
def test_the_exit_code_says_how_it_ended(
    goal: str, status: Any, ending: tuple[int, str], api: FakeApi, capsys: pytest.CaptureFixture[str]
) -> None:
    code, words = ending
    tell(api, status)
    assert cli.main(["wait", "digits", "--for", goal]) == code
    written = capsys.readouterr()
    assert words in (written.out if code == ExitStatus.DONE else written.err)


def test_after_its_timeout_it_ends_with_a_code_of_its_own(api: FakeApi, capsys: pytest.CaptureFixture[str]) -> None:
    tell(api)
    assert cli.main(["wait", "digits", "--timeout", "0s"]) == ExitStatus.TIMED_OUT
    assert "digits: complete has not come within 0 s" in capsys.readouterr().err


def test_what_is_not_there_is_not_waited_for(api: FakeApi, capsys: pytest.CaptureFixture[str]) -> None:
    api.scripts[paths.experiments(NAMESPACE)] = [Change("RELISTED", {}), Change("SYNCED", {})]
    assert cli.main(["wait", "digits"]) == ExitStatus.FAILED
    assert "no Experiment 'digits'" in capsys.readouterr().err


@pytest.mark.parametrize("goal", ["best", "best>=high", "loss<1", "done"])
def test_what_cant_be_waited_for_is_refused(goal: str, api: FakeApi, capsys: pytest.CaptureFixture[str]) -> None:
    assert cli.main(["wait", "digits", "--for", goal]) == ExitStatus.USAGE
    assert "use complete, failed, 'best>=0.9' or 'trials>=10'" in capsys.readouterr().err
