"""`podtune try`: a Trial with a configuration of one's own."""

from __future__ import annotations

from typing import Any

import pytest

from podtune.cli import main as cli
from podtune.cli.client import api_client
from podtune.kube import paths
from tests.unit.cli.cli_fakes import NAMESPACE, FakeApi, experiment, trial

GIVEN = "--param activation=tanh --param hidden_units=64 --param learning_rate=1e-2"


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


def test_why_names_its_author(api: FakeApi, capsys: pytest.CaptureFixture[str]) -> None:
    cli.main(f"try digits {GIVEN}".split())
    capsys.readouterr()
    assert cli.main(["why", "digits-100000"]) == 0
    assert "Its configuration comes from a person, ada by their own account." in capsys.readouterr().out


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ("--param activation=tanh", "without a value"),
        (f"{GIVEN} --param hidden_units=7", "--param hidden_units: '7' is not a value of the parameter"),
        (f"{GIVEN} --param lr=7", "--param lr: is not a parameter"),
        ("--param activation", "write it like --param lr=0.1"),
        (f"{GIVEN} --restore-from digits-7:last", "'last' is not an iteration"),
    ],
)
def test_what_cant_run_is_refused_before_it_is_made(
    options: str, words: str, api: FakeApi, capsys: pytest.CaptureFixture[str]
) -> None:
    assert cli.main(f"try digits {options}".split()) == 1
    assert words in capsys.readouterr().err
    assert not any("100000" in path for path in api.objects)
