"""`podtune try` and `clone`: Trials with configurations of one's own."""

from __future__ import annotations

import json
from typing import Any

import pytest

from podtune.cli import main as cli
from podtune.cli.client import api_client
from podtune.kube import paths
from tests.unit.cli.cli_fakes import NAMESPACE, FakeApi, experiment, trial

GIVEN = "--set activation=tanh --set hidden_units=64 --set learning_rate=1e-2"


@pytest.fixture
def api(monkeypatch: pytest.MonkeyPatch) -> FakeApi:
    api = FakeApi()
    made = experiment()
    made["spec"] |= {
        "parameters": [
            {"name": "activation", "choice": {"values": ["relu", "tanh"]}},
            {"name": "hidden_units", "int": {"min": 16, "max": 128}},
            {"name": "learning_rate", "float": {"min": 0.0001, "max": 0.1, "scale": "log"}},
        ],
        "search": {"algorithm": "random", "maxTrials": 20},
        "trialTemplate": {"spec": {"containers": [{"name": "trial", "image": "i"}]}},
        "objective": {"metric": "accuracy", "mode": "max"},
    }
    api.add_experiment(made)
    monkeypatch.setattr(api_client, "open_api", lambda kubeconfig, context, namespace: (api, namespace or NAMESPACE))
    monkeypatch.setattr("getpass.getuser", lambda: "ada")
    return api


def made(api: FakeApi, name: str) -> dict[str, Any]:
    return api.get(paths.trial(NAMESPACE, name))


def test_it_is_named_by_the_next_number_beyond_the_proposals(api: FakeApi, capsys: pytest.CaptureFixture[str]) -> None:
    assert cli.main(f"try digits {GIVEN}".split()) == 0
    assert capsys.readouterr().out.startswith("trial digits-100000 is added")
    assert made(api, "digits-100000")["spec"] == {
        "experiment": "digits",
        "parameters": {"activation": "tanh", "hidden_units": "64", "learning_rate": "1e-2"},
    }
    there = trial(100_004)
    del there["spec"]["index"]
    api.add_trial(there)
    assert cli.main(f"try digits {GIVEN} --restore-from digits-7:12".split()) == 0
    assert made(api, "digits-100005")["spec"]["restoreFrom"] == {"trial": "digits-7", "step": 12}


def test_a_script_gets_the_new_trials_name(api: FakeApi, capsys: pytest.CaptureFixture[str]) -> None:
    assert cli.main(f"try digits {GIVEN} -o name".split()) == 0
    assert capsys.readouterr().out == "trial.podtune.dev/digits-100000\n"
    api.add_trial(trial(7))
    assert cli.main(["clone", "digits-7", "--set", "learning_rate=0.02", "-o", "json"]) == 0
    assert json.loads(capsys.readouterr().out)["metadata"]["name"] == "digits-100001"


def test_why_names_its_author(api: FakeApi, capsys: pytest.CaptureFixture[str]) -> None:
    cli.main(f"try digits {GIVEN}".split())
    capsys.readouterr()
    assert cli.main(["why", "digits-100000"]) == 0
    assert "Its configuration comes from a person, ada by their own account." in capsys.readouterr().out


def test_a_clone_has_the_other_values_and_starts_from_scratch_or_a_checkpoint(api: FakeApi) -> None:
    kept = [{"uri": f"s3://podtune/demo/uid/digits-7/1/{step}", "step": step, "digest": "sha256:0"} for step in (3, 6)]
    api.add_trial(trial(7, checkpoints=kept))
    assert cli.main(["clone", "digits-7", "--set", "learning_rate=0.02"]) == 0
    assert made(api, "digits-100000")["spec"] == {
        "experiment": "digits",
        "parameters": {"activation": "tanh", "hidden_units": "64", "learning_rate": "0.02"},
    }
    assert cli.main(["clone", "digits-7", "--from-checkpoint"]) == 0
    assert made(api, "digits-100001")["spec"]["restoreFrom"] == {"trial": "digits-7"}
    assert cli.main(["clone", "digits-7", "--from-checkpoint", "--step", "3"]) == 0
    assert made(api, "digits-100002")["spec"]["restoreFrom"] == {"trial": "digits-7", "step": 3}


def test_a_clone_leaves_out_what_its_values_exclude(api: FakeApi) -> None:
    spec = api.get(paths.experiment(NAMESPACE, "digits"))["spec"]
    spec["parameters"] += [
        {"name": "slope", "float": {"min": 0, "max": 1}, "when": {"activation": ["tanh"]}},
        {"name": "twice", "expression": "hidden_units * 2"},
    ]
    there = trial(7)
    there["spec"]["parameters"] |= {"slope": "0.5", "twice": "128"}
    api.add_trial(there)
    assert cli.main(["clone", "digits-7", "--set", "activation=relu"]) == 0
    given = made(api, "digits-100000")["spec"]["parameters"]
    assert given == {"activation": "relu", "hidden_units": "64", "learning_rate": "0.0123456789"}


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ("digits-7 --set hidden_units=7", "--set hidden_units: '7' is not a value of the parameter"),
        ("digits-7 --from-checkpoint", "digits-7 has no checkpoint"),
        ("digits-7 --step 3", "give --from-checkpoint, too"),
        ("digits-8", "no Trial 'digits-8'"),
    ],
)
def test_what_cant_be_cloned_is_refused(
    options: str, words: str, api: FakeApi, capsys: pytest.CaptureFixture[str]
) -> None:
    api.add_trial(trial(7))
    assert cli.main(["clone", *options.split()]) == 1
    assert words in capsys.readouterr().err
    assert not any("100000" in path for path in api.objects)


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ("--set activation=tanh", "without a value"),
        (f"{GIVEN} --set hidden_units=7", "--set hidden_units: '7' is not a value of the parameter"),
        (f"{GIVEN} --set lr=7", "--set lr: is not a parameter"),
        ("--set activation", "write it like --set lr=0.1"),
        (f"{GIVEN} --restore-from digits-7:last", "'last' is not an iteration"),
    ],
)
def test_what_cant_run_is_refused_before_it_is_made(
    options: str, words: str, api: FakeApi, capsys: pytest.CaptureFixture[str]
) -> None:
    assert cli.main(f"try digits {options}".split()) == 1
    assert words in capsys.readouterr().err
    assert not any("100000" in path for path in api.objects)
