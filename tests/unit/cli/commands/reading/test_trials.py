"""`podtune trials` and `podtune compare`."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Callable

import pytest
import yaml

from podtune.cli import main as cli
from podtune.cli import output
from podtune.cli.client import api_client
from tests.unit.cli.cli_fakes import NAMESPACE
from tests.unit.cli.shown_cluster import make_cluster, make_experiment, make_trial

Podtune = Callable[..., list[str]]


@pytest.fixture
def podtune(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Podtune:
    api = make_cluster()
    api.add_experiment(make_experiment("audio"))
    other = make_trial(7, "audio")
    api.add_trial(other)
    monkeypatch.setattr(api_client, "open_api", lambda kubeconfig, context, namespace: (api, namespace or NAMESPACE))

    def run(line: str, code: int = 0) -> list[str]:
        assert cli.main(line.split()) == code
        written = capsys.readouterr()
        return (written.err if code else written.out).splitlines()

    return run


def list_names(lines: list[str]) -> list[str]:
    return [line.split()[0] for line in lines[1:]]


def test_trials_have_what_they_tried_and_reached_in_columns(podtune: Podtune) -> None:
    header, first, second, *_ = podtune("trials digits")
    assert header.split() == ["TRIAL", "STATE", "accuracy", "learning_rate", "hidden_units", "activation", "ITERATION",
                              "ATTEMPTS", "DURATION", "GPU-HOURS"]  # fmt: skip
    assert first.split() == ["digits-0", "Failed", "-", "1.235e-4", "64", "relu", "8", "3", "3m", "1.00"]
    assert second.split()[:4] == ["digits-1", "Completed", "0.6850", "2.469e-4"]


def test_trials_are_filtered_and_sorted(podtune: Podtune) -> None:
    assert list_names(podtune("trials digits --sort -accuracy")) == [f"digits-{n}" for n in (4, 3, 2, 1, 0, 5)]
    assert list_names(podtune("trials digits --sort learning_rate --filter activation=tanh -f accuracy>0.69")) == [
        "digits-3"
    ]
    assert podtune("trials digits --state running --state failed -o name") == [
        f"trial.podtune.dev/digits-{n}" for n in (0, 3, 4)
    ]


def test_chosen_columns_come_in_their_order_and_programs_get_all_digits(podtune: Podtune) -> None:
    line = "trials digits --columns learning_rate,accuracy --state running"
    assert podtune(line)[0].split() == ["TRIAL", "learning_rate", "accuracy"]
    (first, _) = json.loads("\n".join(podtune(f"{line} -o json")))["items"]
    assert first == {"trial": "digits-3", "learning_rate": 0.0004938268, "accuracy": 0.705 + 1 / 90_000}
    assert yaml.safe_load("\n".join(podtune(f"{line} -o yaml")))["items"][0] == first


def test_without_a_choice_programs_get_all_that_is_known(podtune: Podtune) -> None:
    items = json.loads("\n".join(podtune("trials digits --state running -o json")))["items"]
    assert [item["trial"] for item in items] == ["digits-3", "digits-4"]
    assert items[0]["curve"]["steps"] == list(range(1, 9))
    assert items[0]["lastResult"]["loss"] == 0.3


def test_a_terminal_gets_curves_and_wide_is_everything(podtune: Podtune, monkeypatch: pytest.MonkeyPatch) -> None:
    assert {"FAILURES", "REASON", "STARTED"} <= set(podtune("trials digits -o wide")[0].split())
    assert podtune("trials digits --columns curve --state running")[1].startswith("digits-3   ▁▂")
    monkeypatch.setattr(output, "find_width", lambda: 200)
    assert "▁▂▃▃▄▅▇▇" in podtune("trials digits")[2]


@pytest.mark.parametrize(
    ("options", "said"),
    [
        ("--sort colour", "--sort is 'colour'; take one of trial, state, accuracy,"),
        ("--filter colour=red", "the column of 'colour=red' is 'colour'; take one of"),
        ("--filter lr<", "is 'lr'; take one of"),
        ("--filter accuracy<best", "'accuracy<best': 'best' is not a number"),
        ("--columns accuracy,colour", "--columns is 'colour'; take one of"),
    ],
)
def test_what_cant_be_meant_is_refused(podtune: Podtune, options: str, said: str) -> None:
    assert said in podtune(f"trials digits {options}", 1)[0]


def test_a_comparison_has_a_column_for_each_trial_and_a_line_for_what_differs(podtune: Podtune) -> None:
    lines = podtune("compare digits-1 digits-2 digits-3")
    assert lines[0].split() == ["digits-1", "digits-2", "digits-3"]
    cells = {line.split("  ")[0]: line.split()[-3:] for line in lines[1:] if line}
    assert cells["State"] == ["Completed", "Completed", "Running"]
    assert "".join(line for line in lines if line.startswith("accuracy")).split() == [
        "accuracy", "0.6850", "0.6950", "0.7050", "*"
    ]  # fmt: skip
    assert cells["learning_rate"] == ["2.469e-4", "3.704e-4", "4.938e-4"]
    assert cells["activation"] == ["tanh", "relu", "tanh"]
    assert lines[-1] == "the same in all: hidden_units 64"


def test_on_a_narrow_terminal_a_comparison_goes_on_below(podtune: Podtune, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(output, "find_width", lambda: 44)
    lines = podtune("compare digits-1 digits-2 digits-3")
    assert max(map(len, lines)) <= 44
    assert [line.split() for line in lines if "digits-" in line] == [["digits-1", "digits-2"], ["digits-3"]]
    assert sum(line.startswith("learning_rate") for line in lines) == 2


def test_programs_get_a_comparison_with_all_digits(podtune: Podtune) -> None:
    facts = json.loads("\n".join(podtune("compare digits-1 digits-2 -o json")))
    assert (facts["experiment"], facts["best"]) == ("digits", "digits-2")
    assert facts["differ"] == ["learning_rate", "activation"]
    assert facts["items"][0]["learning_rate"] == 0.0002469134


@pytest.mark.parametrize(
    ("names", "said"),
    [
        ("digits-1", "1 Trial is named; name 2 to 20"),
        ("digits-1 digits-1", "1 Trial is named; name 2 to 20"),
        (
            "digits-1 audio-7",
            "'audio-7' is no Trial of digits, which digits-1 belongs to; `podtune trials digits` lists",
        ),
        ("digits-1 digits-99", "'digits-99' is no Trial of digits"),
        ("digits-99 digits-1", "no Trial 'digits-99'"),
    ],
)
def test_what_cant_be_compared_is_refused(podtune: Podtune, names: str, said: str) -> None:
    assert said in podtune(f"compare {names}", 1)[0]


def test_it_needs_nothing_of_the_dashboards_server() -> None:
    program = "import sys, podtune.cli.commands.reading.trials; print(*sys.modules)"
    loaded = subprocess.run([sys.executable, "-c", program], check=True, capture_output=True, text=True).stdout.split()
    assert {"aiohttp", "jinja2", "multidict", "numpy", "rich"}.isdisjoint(loaded)
