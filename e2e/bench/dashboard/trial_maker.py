"""Trials to show: the same ones for each number, stopped at rungs by how good they are."""

from __future__ import annotations

import math
import random
from datetime import UTC, datetime, timedelta
from typing import Any

Manifest = dict[str, Any]
NAMESPACE, NAME = "bench", "sweep"
RUNGS = (3, 9, 27, 81)
AT_ONCE = 64
_BEGIN = datetime(2026, 1, 1, tzinfo=UTC)
_OPTIMIZERS = ("sgd", "adamw", "lion")
PARAMETERS: list[Manifest] = [
    {"name": "learning_rate", "float": {"min": 1e-5, "max": 1e-1, "scale": "log"}},
    {"name": "optimizer", "choice": {"values": list(_OPTIMIZERS)}},
    {"name": "momentum", "float": {"min": 0.5, "max": 0.99}, "when": {"optimizer": ["sgd"]}},
    {"name": "weight_decay", "float": {"min": 1e-6, "max": 1e-1, "scale": "log"}},
    {"name": "dropout", "float": {"min": 0, "max": 0.5}},
    {"name": "batch_size", "choice": {"values": [32, 64, 128, 256, 512]}},
    {"name": "depth", "int": {"min": 8, "max": 50, "step": 2}},
]


def make_experiment(trials: int, *, is_running: bool) -> Manifest:
    """An Experiment of so many trials."""
    return {
        "metadata": {"name": NAME, "namespace": NAMESPACE, "uid": "bench-1", "resourceVersion": "1"},
        "spec": {
            "objective": {"metric": "accuracy", "mode": "max"},
            "parameters": PARAMETERS,
            "search": {"algorithm": "random", "maxTrials": trials, "seed": 1},
            "scheduler": {"asha": {"maxTime": RUNGS[-1], "gracePeriod": RUNGS[0], "reductionFactor": 3}},
            "maxConcurrentTrials": AT_ONCE,
            "trialTemplate": {"spec": {"containers": [{"name": "trial", "image": "localhost/train:1"}]}},
        },
        "status": {"state": "Running" if is_running else "Complete", "startTime": _format(0.0)},
    }


def make_trial(index: int, *, results: int | None = None) -> Manifest:
    """A trial that has ended; with `results`, one that runs and has had so many."""
    rng = random.Random(f"bench/{index}")
    parameters = _draw_parameters(rng)
    quality = rng.random()
    reached = min(int(-math.log(1 - quality, 3)), len(RUNGS) - 1)
    count = RUNGS[reached] if results is None else results
    values = [
        float(f"{0.95 * quality + (0.1 - 0.95 * quality) / (1 + step) ** 0.7:.5g}") for step in range(1, count + 1)
    ]
    began = 60.0 * index
    status: Manifest = {
        "attempt": 1,
        "iteration": count,
        "progress": str(float(count)),
        "bestValue": repr(max(values)),
        "best": {"accuracy": repr(max(values))},
        "startTime": _format(began),
        "usage": dict.fromkeys(("trainingSeconds", "podSeconds", "gpuSeconds"), 90.0 * count),
        "curve": _make_curve(values),
        "scheduler": {"rungs": {str(rung): repr(values[rung - 1]) for rung in RUNGS if rung <= count}},
        "state": "RUNNING",
        "reason": "Training",
    }
    if results is None:
        is_stopped = count < RUNGS[-1]
        status |= {"state": "TERMINATED", "reason": "StoppedByScheduler" if is_stopped else "Completed"}
        status |= {"completionTime": _format(began + 90.0 * count)}
        status |= {"ledger": [_stop(count, values[-1], began + 90.0 * count)]} if is_stopped else {}
    return {
        "metadata": {"name": f"{NAME}-{index}", "namespace": NAMESPACE, "resourceVersion": f"{index}.{results}"},
        "spec": {
            "experiment": NAME,
            "index": index,
            "parameters": parameters,
            "proposal": {"number": index, "source": "Searcher"},
        },
        "status": status,
    }


def _draw_parameters(rng: random.Random) -> dict[str, str]:
    optimizer = rng.choice(_OPTIMIZERS)
    drawn = {
        "learning_rate": repr(10 ** rng.uniform(-5, -1)),
        "optimizer": optimizer,
        "weight_decay": repr(10 ** rng.uniform(-6, -1)),
        "dropout": repr(rng.uniform(0, 0.5)),
        "batch_size": str(rng.choice([32, 64, 128, 256, 512])),
        "depth": str(rng.randrange(8, 51, 2)),
    }
    return drawn | ({"momentum": repr(rng.uniform(0.5, 0.99))} if optimizer == "sgd" else {})


def _make_curve(values: list[float]) -> Manifest:
    """At most 64 points, the last among them."""
    every = 1
    while len(values) / every > 62:
        every *= 2
    steps = list(range(1, len(values) + 1, every))
    if steps[-1] != len(values):
        steps.append(len(values))
    return {
        "results": len(values),
        "every": every,
        "steps": steps,
        "seconds": [90 * step for step in steps],
        "values": [[values[step - 1] for step in steps]],
    }


def _stop(rung: int, value: float, at: float) -> Manifest:
    cutoff = value + 0.01
    return {
        "number": 1,
        "time": _format(at),
        "attempt": 1,
        "step": rung,
        "action": "STOP",
        "message": f"stopped at rung {rung}: accuracy {value:.5g} is below the cutoff {cutoff:.5g}",
        "inputs": {
            "rung": str(rung),
            "metric": "accuracy",
            "value": repr(value),
            "cutoff": f"{cutoff:.5g}",
            "peers": "9",
        },
    }


def _format(seconds: float) -> str:
    return f"{_BEGIN + timedelta(seconds=seconds):%Y-%m-%dT%H:%M:%SZ}"
