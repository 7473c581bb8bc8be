"""Scripts of the table are tuned to their ends as they stand, all of them at once."""

from __future__ import annotations

from collections.abc import Sequence

import pytest

from e2e.kubernetes import Kubernetes
from e2e.trials import EXPERIMENTS, TRIALS
from e2e.unchanged.table import UNCHANGED_SCRIPTS, UnchangedScript, make_config_map

ALWAYS = ("shell", "katib", "transformers-5", "mlflow-autolog", "wandb")
"""One for each way in which results come; the long tests run all."""
CHOSEN = [script for script in UNCHANGED_SCRIPTS if script.name in ALWAYS]


@pytest.mark.parametrize(
    "scripts", [pytest.param(CHOSEN, id="some"), pytest.param(UNCHANGED_SCRIPTS, id="all", marks=pytest.mark.long)]
)
def test_each_script_is_tuned_without_a_change(namespace: Kubernetes, scripts: Sequence[UnchangedScript]) -> None:
    assert scripts
    namespace.apply(make_config_map(), *(script.build_experiment() for script in scripts))
    wrong: dict[str, object] = {}
    for script in scripts:
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
