"""Experiments of small programs that have something for each view."""

from __future__ import annotations

from e2e.devcluster import Cluster
from e2e.experiments import counter, experiment, program, store
from e2e.kubernetes import Object

HELD = {"EPOCHS": "6", "HOLD_AT": "3"}
"""Waits at epoch 3 until it is let go on."""
PARAMETERS: list[Object] = [
    {"name": "base", "float": {"min": 0.5, "max": 1.0}},
    {"name": "width", "int": {"min": 1, "max": 64, "scale": "log"}},
    {"name": "kind", "choice": {"values": ["narrow", "wide"]}},
]


def make_finished() -> Object:
    """Twelve trials, some of which ASHA stops."""
    return experiment(
        "finished",
        counter({"EPOCHS": "4"}),
        parameters=PARAMETERS,
        search={"algorithm": "random", "maxTrials": 12, "seed": 3},
        scheduler={"asha": {"timeAttribute": "epoch", "maxTime": 4, "gracePeriod": 1, "reductionFactor": 2}},
        maxConcurrentTrials=4,
    )


def make_running() -> Object:
    """Two of four trials, which have printed something and wait."""
    search = {"algorithm": "random", "maxTrials": 4, "seed": 1}
    return experiment("running", counter({**HELD, "PRINT": "true"}), parameters=PARAMETERS, search=search)


def make_failing() -> Object:
    """Three trials, of which the first fails whenever it is tried."""
    container = counter({"CRASH_AT": "2", "CRASH_ALWAYS": "true", "CRASH_TRIAL": "0"})
    parameters = [{"name": "base", "float": {"min": 0.5, "max": 1.0}}, {"name": "width", "int": {"min": 1, "max": 64}}]
    search = {"algorithm": "random", "maxTrials": 3, "seed": 1}
    failures = {"maxFailures": 0}
    return experiment(
        "failing", container, parameters=parameters, search=search, failures=failures, maxConcurrentTrials=3
    )


def make_population(cluster: Cluster) -> Object:
    """Trials that go on until they are deleted, and continue from one another."""
    return experiment(
        "population",
        program("population", {"EPOCHS": "1000", "EPOCH_SECONDS": "0.5"}),
        parameters=[{"name": "rate", "float": {"min": 0.1, "max": 1.0}}],
        checkpoints={"store": store(cluster)},
        search={"algorithm": "random", "maxTrials": 4, "seed": 5},
        scheduler={"pbt": {"timeAttribute": "epoch", "interval": 2, "resampleProbability": 0}},
        maxConcurrentTrials=4,
    )


def make_trade_off() -> Object:
    """Two objectives."""
    objective = {"metric": "value", "mode": "max", "others": [{"metric": "epoch", "mode": "min"}]}
    return experiment("trade-off", counter(), objective=objective)
