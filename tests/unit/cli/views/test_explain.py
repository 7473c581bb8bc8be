"""`podtune why`: what people and programs read of the decisions on a trial."""

from __future__ import annotations

import json
from typing import Any

import pytest

from podtune.cli import main as cli
from podtune.cli.client import api_client
from tests.unit.cli.cli_fakes import NAMESPACE, FakeApi, trial

PAUSED = {
    "number": 3,
    "time": "2026-01-01T10:05:00Z",
    "attempt": 1,
    "step": 3,
    "action": "PAUSE",
    "message": "paused at rung 3: accuracy 0.611111 ranks 4 of 9",
    "inputs": {"rung": "3", "value": "0.6111111111111112", "peers": "9"},
}
CLONED = {
    "number": 4,
    "time": "2026-01-01T10:09:00Z",
    "attempt": 1,
    "step": 3,
    "action": "EXPLOIT",
    "message": "clones digits-5",
    "inputs": {"donor": "digits-5", "learning_rate": "0.0123456789 → 0.02"},
}
CLONE: dict[str, Any] = {
    "state": "RUNNING",
    "reason": "Training",
    "message": "attempt 2 cloned digits-5 at iteration 8 after a pause",
    "parameters": {"activation": "tanh", "hidden_units": "64", "learning_rate": "0.02"},
    "ledger": [PAUSED, CLONED],
}


def said(api: FakeApi, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], line: str) -> str:
    monkeypatch.setattr(api_client, "open_api", lambda kubeconfig, context, namespace: (api, namespace or NAMESPACE))
    assert cli.main(line.split()) == 0
    return capsys.readouterr().out


@pytest.mark.parametrize(
    ("proposal", "words"),
    [
        ({"source": "Initial", "position": 3}, ["Its configuration comes from search.initial[3]."]),
        ({"source": "Initial"}, ["Its configuration comes from search.initial[0]."]),
        ({"source": "Searcher", "position": 3}, ["Its configuration comes from the search algorithm."]),
        ({}, []),
    ],
)
def test_why_says_where_the_configuration_comes_from(
    proposal: dict[str, Any], words: list[str], monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    api = FakeApi()
    made = trial(7, **CLONE)
    made["spec"]["proposal"] = {"number": 7, **proposal}
    api.add_trial(made)
    lines = said(api, monkeypatch, capsys, "why digits-7").splitlines()
    assert [line for line in lines if line.startswith("Its configuration")] == words


def test_why_tells_each_decision_with_the_numbers_that_its_sentence_lacks(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    api = FakeApi()
    api.add_trial(trial(7, **CLONE))
    assert said(api, monkeypatch, capsys, "why digits-7").splitlines() == [
        "digits-7 is RUNNING (Training): attempt 2 cloned digits-5 at iteration 8 after a pause",
        "It runs with other parameters than were proposed: learning_rate 0.02 (0.01235).",
        "2 older decisions are in the bucket alone, in ledger.jsonl beside an attempt's results.",
        "",
        "2026-01-01 10:05:00, iteration 3 of attempt 1, PAUSE: paused at rung 3: accuracy 0.611111 ranks 4 of 9",
        "",
        "2026-01-01 10:09:00, iteration 3 of attempt 1, EXPLOIT: clones digits-5",
        "  learning_rate 0.01235 → 0.02",
    ]


def test_why_names_the_limits_that_the_trial_has_for_itself(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    api = FakeApi()
    api.add_trial(trial(7, **{**CLONE, "limits": {"memory": "3Gi", "cpu": "2"}}))
    assert "It has limits of its own: memory 3Gi, cpu 2." in said(api, monkeypatch, capsys, "why digits-7").splitlines()
    facts = json.loads(said(api, monkeypatch, capsys, "why digits-7 -o json"))
    assert facts["limits"] == {"memory": "3Gi", "cpu": "2"}


def test_why_for_programs_holds_the_whole_ledger(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    api = FakeApi()
    api.add_trial(trial(7, **CLONE))
    facts = json.loads(said(api, monkeypatch, capsys, "why digits-7 -o json"))
    assert facts["decisions"] == [PAUSED, CLONED]
    assert facts["parameters"]["learning_rate"] == "0.02"


def test_why_of_a_trial_that_nothing_was_decided_on(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    api = FakeApi()
    api.add_trial(trial(7))
    lines = said(api, monkeypatch, capsys, "why digits-7").splitlines()
    assert lines[0] == "digits-7 is PENDING"
    assert lines[1].startswith("Nothing was decided on it")


def test_why_ends_in_what_the_program_has_printed_last(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    api = FakeApi()
    api.add_trial(trial(7, **CLONE | {"lastAttempt": {"attempt": 1, "logTail": "Traceback\n  ValueError: boom"}}))
    lines = said(api, monkeypatch, capsys, "why digits-7").splitlines()
    assert lines[-4:] == ["", "Attempt 1 printed last:", "  Traceback", "    ValueError: boom"]
    facts = json.loads(said(api, monkeypatch, capsys, "why digits-7 -o json"))
    assert facts["lastLines"] == {"attempt": 1, "lines": ["Traceback", "  ValueError: boom"]}
    api.add_trial(trial(8, state="ERROR", lastAttempt={"attempt": 2, "logTail": "boom"}))
    assert said(api, monkeypatch, capsys, "why digits-8").splitlines()[-1] == "  boom"
