"""Programs that know nothing of Podtune, and report as they would elsewhere."""

from __future__ import annotations

import pytest

from e2e.experiments import experiment, program
from e2e.kubernetes import Kubernetes
from e2e.trials import EXPERIMENTS, TRIALS


@pytest.mark.parametrize(("source", "step"), [("huggingFace", "current_step"), ("mlflow", "step")])
def test_results_come_by_the_endpoint_of_the_agent(namespace: Kubernetes, source: str, step: str) -> None:
    container = program("reporting/unchanged") | {"env": [{"name": "BASE", "value": "$(PODTUNE_PARAM_base)"}]}
    namespace.apply(experiment("unchanged", container, results={source: {}}))
    namespace.wait_for_condition(EXPERIMENTS, "unchanged", "Complete", deadline=180)
    trials = namespace.list(TRIALS)
    assert len(trials) == 2
    for trial in trials:
        status, base = trial["status"], float(trial["spec"]["parameters"]["base"])
        assert (status["state"], status["iteration"]) == ("TERMINATED", 3)
        assert float(status["lastResult"][step]) == 3
        assert float(status["bestValue"]) == pytest.approx(base - 0.25)


def test_results_are_scraped_from_what_a_program_serves_to_prometheus(namespace: Kubernetes) -> None:
    container = program("reporting/scraped", {"BASE": "$(PODTUNE_PARAM_base)", "PORT": "8000"})
    results = {"scrape": {"port": 8000, "timeAttribute": "epoch"}}
    objective = {"metric": "value/split/val", "mode": "max"}
    namespace.apply(experiment("scraped", container, results=results, objective=objective))
    namespace.wait_for_condition(EXPERIMENTS, "scraped", "Complete", deadline=180)
    trials = namespace.list(TRIALS)
    assert len(trials) == 2
    for trial in trials:
        status, base = trial["status"], float(trial["spec"]["parameters"]["base"])
        assert (status["state"], status["iteration"]) == ("TERMINATED", 3)
        assert float(status["lastResult"]["epoch"]) == 3
        assert float(status["bestValue"]) == pytest.approx(base - 0.25)


def test_results_are_read_from_what_a_program_logs_for_tensorboard(namespace: Kubernetes) -> None:
    container = program("reporting/event_files", {"BASE": "$(PODTUNE_PARAM_base)"}, args=["$(PODTUNE_DIR)/tensorboard"])
    objective = {"metric": "validation/epoch_value", "mode": "max"}
    namespace.apply(experiment("logged", container, results={"tensorBoard": {}}, objective=objective))
    namespace.wait_for_condition(EXPERIMENTS, "logged", "Complete", deadline=180)
    trials = namespace.list(TRIALS)
    assert len(trials) == 2
    for trial in trials:
        status, base = trial["status"], float(trial["spec"]["parameters"]["base"])
        assert (status["state"], status["iteration"]) == ("TERMINATED", 3)
        assert float(status["lastResult"]["step"]) == 2
        assert float(status["lastResult"]["train/epoch_value"]) == pytest.approx(base)
        assert float(status["bestValue"]) == pytest.approx(base - 0.25)
