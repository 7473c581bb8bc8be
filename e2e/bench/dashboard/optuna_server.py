"""Optuna Dashboard with the same trials, in an environment of its own.

python -m e2e.bench.dashboard.optuna_server TRIALS

The study is in memory, where Optuna Dashboard reads it fastest. It prints its address and its process as JSON.
"""

from __future__ import annotations

import json
import os
import socket
import sys
from typing import Any

from e2e.bench.dashboard.trial_maker import PARAMETERS, make_trial


def main(count: int) -> None:
    """Makes the study, and serves it until it is killed."""
    import optuna
    from optuna_dashboard import run_server

    storage = optuna.storages.InMemoryStorage()
    study = optuna.create_study(storage=storage, study_name="sweep", direction="maximize")
    kinds = {each["name"]: _make_distribution(optuna.distributions, each) for each in PARAMETERS}
    study.add_trials([_convert(optuna, make_trial(index), kinds) for index in range(count)])
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
    address = f"http://127.0.0.1:{port}/dashboard/studies/{study._study_id}"
    print(json.dumps({"address": address, "process": os.getpid()}), flush=True)
    run_server(storage, host="127.0.0.1", port=port)


def _make_distribution(kinds: Any, parameter: dict[str, Any]) -> Any:
    if domain := parameter.get("choice"):
        return kinds.CategoricalDistribution([str(value) for value in domain["values"]])
    if domain := parameter.get("int"):
        return kinds.IntDistribution(domain["min"], domain["max"], step=domain["step"])
    domain = parameter["float"]
    return kinds.FloatDistribution(domain["min"], domain["max"], log=domain.get("scale") == "log")


def _convert(optuna: Any, trial: dict[str, Any], kinds: dict[str, Any]) -> Any:
    """A trial with its learning curve; what was stopped counts as pruned, as it would with Optuna."""
    status, own = trial["status"], {name: kinds[name] for name in trial["spec"]["parameters"]}
    read = {name: _read(text, own[name], optuna.distributions) for name, text in trial["spec"]["parameters"].items()}
    (values,) = status["curve"]["values"]
    states = optuna.trial.TrialState
    return optuna.trial.create_trial(
        state=states.COMPLETE if status["reason"] == "Completed" else states.PRUNED,
        value=float(status["bestValue"]),
        params=read,
        distributions=own,
        intermediate_values=dict(zip(status["curve"]["steps"], values, strict=True)),
    )


def _read(text: str, distribution: Any, kinds: Any) -> Any:
    if isinstance(distribution, kinds.CategoricalDistribution):
        return text
    return int(text) if isinstance(distribution, kinds.IntDistribution) else float(text)


if __name__ == "__main__":
    main(int(sys.argv[1]))
