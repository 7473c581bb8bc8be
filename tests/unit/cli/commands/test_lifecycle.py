"""`podtune pause`, `resume` and `stop`: which field of what they change, and what they refuse."""

from __future__ import annotations

from typing import Any

import pytest

from podtune.cli import main as cli
from podtune.cli.client import api_client
from podtune.kube import paths
from tests.unit.cli.cli_fakes import NAMESPACE, RUNNING, TRAINING, FakeApi, experiment, trial

TRIAL = paths.trial(NAMESPACE, "digits-7")
EXPERIMENT = paths.experiment(NAMESPACE, "digits")
STORE = {"store": {"bucket": "b"}}


@pytest.fixture
def api(monkeypatch: pytest.MonkeyPatch) -> FakeApi:
    fake = FakeApi()
    monkeypatch.setattr(api_client, "open_api", lambda kubeconfig, context, namespace: (fake, namespace or NAMESPACE))
    item = experiment("digits", **RUNNING)
    item["spec"] |= {"checkpoints": STORE, "constraints": ["hidden_units * learning_rate < 10"]}
    fake.add_experiment(item)
    fake.add_trial(trial(7, **TRAINING))
    return fake


def run(capsys: pytest.CaptureFixture[str], line: str, expect: int = 0) -> str:
    code = cli.main(line.split())
    written = capsys.readouterr()
    assert code == expect, written.err
    return written.err if expect else written.out


@pytest.mark.parametrize(
    ("line", "path", "spec"),
    [
        ("pause digits-7", TRIAL, {"desiredState": "Paused"}),
        ("resume digits-7", TRIAL, {"desiredState": "Running"}),
        ("stop digits-7", TRIAL, {"desiredState": "Stopped"}),
        ("stop trial/digits-7", TRIAL, {"desiredState": "Stopped"}),
        ("stop trial.podtune.dev/digits-7", TRIAL, {"desiredState": "Stopped"}),
        ("pause digits", EXPERIMENT, {"suspend": True}),
        ("resume digits", EXPERIMENT, {"suspend": False}),
        ("stop experiment/digits", EXPERIMENT, {"stop": {"now": True}}),
    ],
)
def test_one_field_is_changed(
    api: FakeApi, capsys: pytest.CaptureFixture[str], line: str, path: str, spec: dict[str, Any]
) -> None:
    said = run(capsys, line)
    assert api.patched == [(path, {"spec": spec})]
    assert said.startswith(("trial digits-7 ", "experiment digits "))


def test_a_paused_trial_goes_on_with_new_values(api: FakeApi, capsys: pytest.CaptureFixture[str]) -> None:
    item = trial(7, **{**TRAINING, "state": "PAUSED"})
    item["spec"]["overrides"] = {"activation": "relu"}
    api.add_trial(item)
    run(capsys, "resume digits-7 --set learning_rate=1e-2 --set hidden_units=32")
    overrides = {"activation": "relu", "learning_rate": "1e-2", "hidden_units": "32"}
    assert api.patched == [(TRIAL, {"spec": {"desiredState": "Running", "overrides": overrides}})]


@pytest.mark.parametrize(
    ("line", "state", "said"),
    [
        ("resume digits-7 --set learning_rate=5", "PAUSED", "--set: overrides.learning_rate: '5' is not a value of"),
        ("resume digits-7 --set rate=5", "PAUSED", "--set: overrides.rate: is not a parameter; correct or remove it"),
        ("resume digits-7 --set learning_rate", "PAUSED", "--set 'learning_rate' must have the form name=value"),
        (
            "resume digits-7 --set learning_rate=0.1 --set hidden_units=256",
            "PAUSED",
            "--set: overrides: don't make a valid configuration: the constraint 'hidden_units * learning_rate < 10' "
            "does not hold",
        ),
        ("resume digits-7 --set learning_rate=0.01", "RUNNING", "trial digits-7 is running; pause it before"),
        ("resume digits --set learning_rate=0.01", "RUNNING", "experiment digits has many trials; use --set with one"),
        ("pause digits-7", "TERMINATED", "trial digits-7 has ended (TERMINATED); you can't pause it"),
        ("resume digits-7", "ERROR", "trial digits-7 has ended (ERROR); resume its Experiment instead"),
        ("pause digits-8", "RUNNING", "no Trial and no Experiment 'digits-8' in namespace 'vision'"),
        ("pause trial/digits", "RUNNING", "no Trial 'digits' in namespace 'vision'"),
        ("pause pod/digits", "RUNNING", "'pod/digits' has an unknown kind; write trial/digits or experiment/digits"),
    ],
)
def test_what_can_not_be_is_refused_before_anything_changes(
    api: FakeApi, capsys: pytest.CaptureFixture[str], line: str, state: str, said: str
) -> None:
    api.add_trial(trial(7, **{**TRAINING, "state": state}))
    assert run(capsys, line, expect=1).startswith(f"error: {said}")
    assert api.patched == []


def test_a_name_that_is_both_has_to_be_told_apart(api: FakeApi, capsys: pytest.CaptureFixture[str]) -> None:
    api.add_experiment(experiment("digits-7"))
    assert "is a Trial and an Experiment; write trial/digits-7 or" in run(capsys, "stop digits-7", expect=1)


def test_a_running_trial_without_a_store_is_not_paused(api: FakeApi, capsys: pytest.CaptureFixture[str]) -> None:
    api.add_experiment(experiment("digits", **RUNNING))
    said = run(capsys, "pause digits-7", expect=1)
    assert "has no checkpoints.store: it would lose its progress; add a store, stop the trial, or pause" in said
    api.add_trial(trial(7, **{**TRAINING, "state": "PENDING"}))
    run(capsys, "pause digits-7")


def test_stopping_what_has_ended_is_no_error(api: FakeApi, capsys: pytest.CaptureFixture[str]) -> None:
    api.add_experiment(experiment("digits", **{**RUNNING, "state": "Complete"}))
    assert run(capsys, "stop digits") == "experiment digits has already ended (Complete)\n"
    assert api.patched == []


@pytest.mark.parametrize(
    ("line", "spec", "expected"),
    [
        ("resume digits", {}, {"resume": {"id": "1"}, "suspend": False}),
        (
            "resume digits --errored Restart --unfinished Skip",
            {"resume": {"id": "7"}},
            {"resume": {"id": "8", "unfinished": "Skip", "errored": "Restart"}, "suspend": False},
        ),
        (
            "resume digits --finished Restart",
            {"stop": {"now": True}},
            {"resume": {"id": "1", "finished": "Restart"}, "suspend": False, "stop": {"now": None}},
        ),
    ],
)
def test_an_experiment_that_has_ended_goes_on(
    api: FakeApi, capsys: pytest.CaptureFixture[str], line: str, spec: dict[str, Any], expected: dict[str, Any]
) -> None:
    item = experiment("digits", **{**RUNNING, "state": "Complete"})
    item["spec"] |= spec
    api.add_experiment(item)
    run(capsys, line)
    assert api.patched == [(EXPERIMENT, {"spec": expected})]


def test_policies_are_about_experiments_that_have_ended(api: FakeApi, capsys: pytest.CaptureFixture[str]) -> None:
    assert "has not ended; --errored is only for one that has" in run(capsys, "resume digits --errored Skip", expect=1)
    assert "is one trial; --errored applies only to" in run(capsys, "resume digits-7 --errored Skip", expect=1)
