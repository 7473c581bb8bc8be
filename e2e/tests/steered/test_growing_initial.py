"""A person appends a configuration to `search.initial` while the experiment runs, and after its end."""

from __future__ import annotations

import pytest

from e2e.devcluster.errors import ClusterError
from e2e.experiments import Object, counter, experiment
from e2e.kubernetes import Kubernetes, eventually
from e2e.trials import trial_status

EXPERIMENTS, TRIALS = "experiments.podtune.dev", "trials.podtune.dev"
HELD = {"EPOCHS": "6", "HOLD_AT": "4"}


def steered(*bases: float, limit: int = 3, held: bool = True) -> Object:
    """An experiment that tries these first, one trial at a time."""
    search = {
        "algorithm": "random",
        "maxTrials": limit,
        "seed": 1,
        "initial": [{"parameters": {"base": base}} for base in bases],
    }
    return experiment("steered", counter(HELD if held else None), search=search, maxConcurrentTrials=1)


@pytest.mark.long
def test_what_is_appended_runs_next_and_nothing_else_may_change(namespace: Kubernetes) -> None:
    namespace.apply(steered(0.6))
    eventually(lambda: int(trial_status(namespace, "steered-0").get("iteration", 0)) >= 2, what="the first trial runs")
    with pytest.raises(ClusterError, match="entries of initial can't be changed or removed"):
        namespace.apply(steered(0.7))

    namespace.apply(steered(0.6, 0.75))
    namespace.podtune("stop", "steered-0")
    appended = eventually(lambda: namespace.get(TRIALS, "steered-1"), what="the next trial is there")
    assert appended["spec"]["parameters"] == {"base": "0.75"}
    assert (appended["spec"]["proposal"]["source"], appended["spec"]["proposal"]["position"]) == ("Initial", 1)
    assert "comes from search.initial[1]" in namespace.podtune("why", "steered-1")
    namespace.podtune("stop", "steered-1")
    eventually(lambda: trial_status(namespace, "steered-2").get("state") == "RUNNING")
    assert "comes from the search algorithm" in namespace.podtune("why", "steered-2")
    namespace.podtune("stop", "steered-2")
    namespace.wait_for_condition(EXPERIMENTS, "steered", "Complete")

    namespace.apply(steered(0.6, 0.75, 0.9, limit=4, held=False))
    done = eventually(
        lambda: trial_status(namespace, "steered-3"),
        lambda status: status.get("state") == "TERMINATED",
        what="the experiment has resumed for the appended configuration",
    )
    assert float(done["lastResult"]["value"]) <= 0.9
    assert namespace.get(TRIALS, "steered-3")["spec"]["parameters"] == {"base": "0.9"}
    namespace.wait_for_condition(EXPERIMENTS, "steered", "Complete")
