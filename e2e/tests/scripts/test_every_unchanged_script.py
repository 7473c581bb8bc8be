"""Each script of the table is tuned to its end as it stands, all of them at once."""

from __future__ import annotations

import pytest

from e2e.kubernetes import Kubernetes
from e2e.trials import EXPERIMENTS, TRIALS
from e2e.unchanged.table import UNCHANGED_SCRIPTS, make_config_map


@pytest.mark.first
def test_each_script_is_tuned_without_a_change(namespace: Kubernetes) -> None:
    namespace.apply(make_config_map(), *(script.build_experiment() for script in UNCHANGED_SCRIPTS))
    wrong: dict[str, object] = {}
    for script in UNCHANGED_SCRIPTS:
        namespace.wait_for_condition(EXPERIMENTS, script.name, "Complete")
        best = namespace.get(EXPERIMENTS, script.name)["status"]["best"]
        trials = namespace.list(TRIALS, f"podtune.dev/experiment={script.name}")
        seen = [(trial["status"]["state"], trial["status"].get("iteration")) for trial in trials]
        if (float(best["parameters"][script.parameter]), seen) != (
            script.values[0],
            [("TERMINATED", script.reported)] * 2,
        ):
            wrong[script.name] = {"best": best, "trials": [trial["status"] for trial in trials]}
    assert wrong == {}
