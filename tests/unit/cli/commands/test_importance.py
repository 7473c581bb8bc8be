"""`kubectl podtune importance`: which parameters matter, in a terminal and for programs."""

from __future__ import annotations

import json
import subprocess
import sys
from typing import Any

import pytest

from podtune.cli import main as cli
from podtune.cli import output
from podtune.cli.client import api_client
from tests.unit.cli.cli_fakes import NAMESPACE, FakeApi, experiment, trial


@pytest.fixture
def api(monkeypatch: pytest.MonkeyPatch) -> FakeApi:
    fake = FakeApi()
    monkeypatch.setattr(api_client, "open_api", lambda kubeconfig, context, namespace: (fake, namespace or NAMESPACE))
    fake.add_experiment(experiment("digits"))
    return fake


def add_trials(api: FakeApi, count: int) -> None:
    """The number of units sets the accuracy, and the time that a result takes."""
    for index in range(count):
        units = 16 * (1 + index * 7 % 16)
        usage = {"trainingSeconds": 10 * units, "podSeconds": 10 * units, "gpuSeconds": 0}
        ended: dict[str, Any] = {"state": "TERMINATED", "reason": "Completed", "bestValue": repr(units / 300)}
        body = trial(index, **ended, iteration=5, usage=usage)
        body["spec"]["parameters"] = {
            "hidden_units": str(units),
            "learning_rate": repr(0.0001 * (1 + index * 31 % 50)),
            "activation": ("relu", "tanh", "3")[index % 3],
        }
        api.add_trial(body)


def run(capsys: pytest.CaptureFixture[str], line: str, code: int = 0) -> str:
    assert cli.main(line.split()) == code
    written = capsys.readouterr()
    return written.err if code else written.out


def test_what_matters_most_stands_first_with_the_longest_bar(api: FakeApi, capsys: pytest.CaptureFixture[str]) -> None:
    add_trials(api, 60)
    header, *lines = run(capsys, "importance digits").splitlines()
    assert header.split() == ["PARAMETER", "IMPORTANCE", "TIME"]
    assert lines[0].split()[0] == "hidden_units"
    assert lines[0].split()[-2:] == ["█" * 24, "+1.00"]
    assert [line.split()[0] for line in lines[1:3]] == ["learning_rate", "activation"]
    assert "From 60 trials that have ended: what sets the best 8 of them (top 13 %) apart in accuracy." in lines[4]
    assert lines[5] == "That is few: take the order as a hint."
    assert lines[6] == "± is the standard error (20 resamples, seed 1)."


@pytest.mark.parametrize("width", [60, 200, None])
def test_it_fits_terminals_and_is_whole_in_pipes(
    width: int | None, api: FakeApi, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    add_trials(api, 60)
    monkeypatch.setattr(output, "find_width", lambda: width)
    lines = run(capsys, "importance digits").splitlines()
    assert max(map(len, lines)) <= (width or 200)
    assert lines[1].split()[-1] == "+1.00", "the last column is there"
    assert ("█" * 24 in lines[1]) == (width != 60)


def test_programs_get_all_digits(api: FakeApi, capsys: pytest.CaptureFixture[str]) -> None:
    add_trials(api, 60)
    facts = json.loads(run(capsys, "importance digits --objective accuracy -o json"))
    assert (facts["objective"], facts["trials"], facts["bestTrials"], facts["seed"]) == ("accuracy", 60, 8, 1)
    assert sum(each["importance"] for each in facts["parameters"]) == pytest.approx(1)
    first = facts["parameters"][0]
    assert first["name"] == "hidden_units"
    assert first["timeCorrelation"] == pytest.approx(1)
    assert 0 < first["standardError"] < 0.5


def test_what_can_not_be_said_is_an_error_with_the_reason(api: FakeApi, capsys: pytest.CaptureFixture[str]) -> None:
    add_trials(api, 12)
    assert "12 trials have ended with a value of accuracy, and it takes 20" in run(capsys, "importance digits", 1)
    error = run(capsys, "importance digits --objective loss", 1)
    assert "--objective loss: experiment 'digits' has no such objective; it has accuracy" in error
    api.objects.clear()
    run(capsys, "importance digits", 1)


def test_it_needs_none_of_the_packages_that_pages_need() -> None:
    program = (
        "import sys, podtune.dashboard.importance_text as _; print({'aiohttp', 'jinja2', 'numpy'} & set(sys.modules))"
    )
    found = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert found.stdout.strip() == "set()"
