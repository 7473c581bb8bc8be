"""The benchmark of `podtune run` beside others."""

from __future__ import annotations

from typing import Any

import pytest

from e2e.bench.local import comparison, first_result
from e2e.bench.local.with_podtune import make_experiment
from e2e.bench.tuner.environments import ROOT, Environment, Missing
from podtune.api.pods.template_policy import UNKNOWN_POLICY
from podtune.api.validation import find_problems


@pytest.fixture(autouse=True)
def podtune(monkeypatch: pytest.MonkeyPatch) -> None:
    """Ten seconds for all trials, whatever they are."""
    monkeypatch.setattr(comparison, "_run_podtune", lambda trials, duration: 10.0)
    monkeypatch.setattr(comparison, "measure_first_result", lambda: {"installation": 20.0, "first result": 31.0})


def test_it_is_compared_with_the_faster_of_the_others(monkeypatch: pytest.MonkeyPatch) -> None:
    def run(_: Environment, module: str, trials: str, *others: Any, **options: Any) -> dict[str, float]:
        return {"trials": int(trials), "seconds": 40.0 if "ray" in module else 20.0}

    monkeypatch.setattr(Environment, "install", lambda _: None)
    monkeypatch.setattr(Environment, "run", run)
    found = {figure.name: figure for figure in comparison.measure(False).figures}
    assert found["no-op trials on one machine, to the faster other"].value == 2.0
    assert found["trials of 1 s on one machine, to the faster other"].verdict == "held"
    assert found["no-op trials a second on one machine, Ray Tune"].value == 0.25
    assert found["first result of the digits after pip install"].verdict == "not held"


def test_trials_that_are_missing_are_no_figure(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Environment, "install", lambda _: None)
    monkeypatch.setattr(Environment, "run", lambda *_, **__: {"trials": 1, "seconds": 1.0})
    with pytest.raises(RuntimeError, match="1 of 10 trials were done"):
        comparison.measure(False)


def test_who_can_not_be_had_is_told(monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(_: Environment) -> None:
        raise Missing("no network")

    monkeypatch.setattr(Environment, "install", fail)
    monkeypatch.setattr(comparison, "measure_first_result", lambda: fail(Environment("")))
    found = comparison.measure(False)
    assert "The first result was not measured: no network" in found.setting
    assert "Ray Tune was not measured: no network. Syne Tune was not measured: no network" in found.setting
    assert not [figure for figure in found.figures if "faster other" in figure.name]
    assert found.problems == []


def test_who_fails_leaves_the_comparison(monkeypatch: pytest.MonkeyPatch) -> None:
    def run(_: Environment, module: str, trials: str, *others: Any, **options: Any) -> dict[str, float]:
        if "ray" in module:
            raise Missing("no answer")
        return {"trials": int(trials), "seconds": 20.0}

    monkeypatch.setattr(Environment, "install", lambda _: None)
    monkeypatch.setattr(Environment, "run", run)
    measured = comparison.measure(False)
    found = {figure.name: figure.value for figure in measured.figures}
    assert found["no-op trials on one machine, to the faster other"] == 2.0
    assert not [name for name in found if "Ray Tune" in name]
    assert measured.setting.count("Ray Tune was not measured: no answer") == 1


def test_the_first_result_is_that_of_the_readmes_first_commands() -> None:
    readme = (ROOT / "README.md").read_text()
    packages = " ".join(f"'{package}'" if "[" in package else package for package in first_result.PACKAGES)
    assert f"pip install {packages}\npodtune run {' '.join(first_result.EXAMPLE)} " in readme


def test_the_experiment_is_one_that_the_operator_takes() -> None:

    made = {
        "apiVersion": "podtune.dev/v1alpha1",
        "kind": "Experiment",
        "metadata": {"name": "bench"},
        "spec": make_experiment(8, 1.0, 2),
    }
    assert find_problems(made, UNKNOWN_POLICY) == []
