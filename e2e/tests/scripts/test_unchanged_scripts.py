"""Programs that know nothing of Podtune, and report as they would elsewhere."""

from __future__ import annotations

import pytest

from e2e.experiments import experiment, program
from e2e.kubernetes import Kubernetes, Object
from e2e.trials import EXPERIMENTS, TRIALS


def wait_for_results(namespace: Kubernetes, name: str) -> list[tuple[float, Object]]:
    """The parameter and the last result of each trial, once both have ended with all three results."""
    namespace.wait_for_condition(EXPERIMENTS, name, "Complete", deadline=180)
    trials = namespace.list(TRIALS)
    assert len(trials) == 2
    found = []
    for trial in trials:
        status, base = trial["status"], float(trial["spec"]["parameters"]["base"])
        assert (status["state"], status["iteration"]) == ("TERMINATED", 3)
        assert float(status["bestValue"]) == pytest.approx(base - 0.25)
        found.append((base, status["lastResult"]))
    return found


@pytest.mark.parametrize(("source", "step"), [("huggingFace", "current_step"), ("mlflow", "step")])
def test_results_come_by_the_endpoint_of_the_agent(namespace: Kubernetes, source: str, step: str) -> None:
    container = program("reporting/unchanged") | {"env": [{"name": "BASE", "value": "$(PODTUNE_PARAM_base)"}]}
    namespace.apply(experiment("unchanged", container, results={source: {}}))
    for _, last in wait_for_results(namespace, "unchanged"):
        assert float(last[step]) == 3


def test_results_are_scraped_from_what_a_program_serves_to_prometheus(namespace: Kubernetes) -> None:
    container = program("reporting/scraped", {"BASE": "$(PODTUNE_PARAM_base)", "PORT": "8000"})
    results = {"scrape": {"port": 8000, "timeAttribute": "epoch"}}
    objective = {"metric": "value/split/val", "mode": "max"}
    namespace.apply(experiment("scraped", container, results=results, objective=objective))
    for _, last in wait_for_results(namespace, "scraped"):
        assert float(last["epoch"]) == 3


def test_results_are_read_from_what_a_program_logs_for_tensorboard(namespace: Kubernetes) -> None:
    container = program("reporting/event_files", {"BASE": "$(PODTUNE_PARAM_base)"}, args=["$(PODTUNE_DIR)/tensorboard"])
    objective = {"metric": "validation/epoch_value", "mode": "max"}
    namespace.apply(experiment("logged", container, results={"tensorBoard": {}}, objective=objective))
    for base, last in wait_for_results(namespace, "logged"):
        assert float(last["step"]) == 2
        assert float(last["train/epoch_value"]) == pytest.approx(base)
