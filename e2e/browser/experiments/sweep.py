"""An experiment of thousands of trials. It is computed and not simulated: the simulator would take minutes."""

from __future__ import annotations

import heapq
import math
import random
from bisect import bisect_left, insort
from collections.abc import Iterator, Mapping
from datetime import UTC, datetime, timedelta
from functools import cache
from typing import Any

from e2e.browser.experiments.kept import MadeExperiment
from e2e.browser.experiments.simulated import NAMESPACE, make_spec, pack_experiment
from e2e.browser.experiments.training import ImageCurve, build_image_curve
from podtune.kube.manifests import Manifest

RUNGS = (3, 9, 27, 81)
WORKERS = 64
BEGIN = datetime(2026, 3, 1, tzinfo=UTC)
_SHARE_OF_FAILURES = 0.012


@cache
def make_sweep(count: int = 10_000) -> MadeExperiment:
    """ASHA over a random search, to its end."""
    search = {"algorithm": "random", "maxTrials": count, "seed": 5}
    asha = {"asha": {"maxTime": RUNGS[-1], "gracePeriod": RUNGS[0], "reductionFactor": 3}}
    spec = make_spec(search=search, scheduler=asha, maxConcurrentTrials=WORKERS)
    trials = list(_run_trials(f"sweep-{count // 1000}k", count))
    statuses = [trial["status"] for trial in trials]
    errors = sum(status["state"] == "ERROR" for status in statuses)
    best = max(trials, key=lambda trial: float(trial["status"]["bestValue"]))
    gpu_hours = sum(status["usage"]["gpuSeconds"] for status in statuses) / 3600
    status = {
        "state": "Complete",
        "message": f"all {count} trials are done",
        "trials": {
            "total": count,
            "terminated": count - errors,
            "error": errors,
            "stoppedEarly": sum(status["reason"] == "StoppedByScheduler" for status in statuses),
        },
        "best": {
            "trial": best["metadata"]["name"],
            "value": best["status"]["bestValue"],
            "parameters": best["spec"]["parameters"],
        },
        "usage": {"podHours": gpu_hours, "gpuHours": gpu_hours},
        "startTime": _write_time(0),
        "completionTime": max(status["completionTime"] for status in statuses),
    }
    asked = spec.model_dump(mode="json", by_alias=True, exclude_defaults=True)
    return pack_experiment(f"sweep-{count // 1000}k", asked, status, trials)


def _run_trials(experiment: str, count: int) -> Iterator[Manifest]:
    rng = random.Random(5)
    free = [0.0] * WORKERS
    reached: dict[int, list[float]] = {rung: [] for rung in RUNGS[:-1]}
    for index in range(count):
        begin = heapq.heappop(free)
        values = _draw_parameters(rng)
        curve = build_image_curve(values, index, RUNGS[-1], 60)
        fails_at = rng.randrange(1, 30) if rng.random() < _SHARE_OF_FAILURES else math.inf
        status, seconds = _run_trial(curve, begin, reached, fails_at)
        heapq.heappush(free, begin + seconds + 25)
        name = f"{experiment}-{index}"
        proposal = {"number": index, "source": "Searcher", "position": index}
        spec = {"experiment": experiment, "index": index, "parameters": values, "proposal": proposal}
        metadata = {"name": name, "namespace": NAMESPACE, "uid": f"uid-{name}"}
        yield {"metadata": metadata, "spec": spec, "status": status}


def _draw_parameters(rng: random.Random) -> dict[str, str]:
    optimizer = rng.choice(["sgd", "adamw", "lion"])
    values = {"learning_rate": f"{10 ** rng.uniform(-5, -1):.12g}", "optimizer": optimizer}
    if optimizer == "sgd":
        values["momentum"] = f"{rng.uniform(0.5, 0.99):.12g}"
    values["weight_decay"] = f"{10 ** rng.uniform(-6, -1):.12g}"
    values["dropout"] = f"{rng.uniform(0, 0.5):.12g}"
    values["batch_size"] = str(rng.choice([32, 64, 128, 256, 512]))
    return values | {"depth": str(rng.randrange(8, 51, 2))}


def _run_trial(
    curve: ImageCurve, begin: float, reached: Mapping[int, list[float]], fails_at: float
) -> tuple[Manifest, float]:
    """Its status, and for how many seconds it ran."""
    values: list[float] = []
    ledger: list[Manifest] = []
    decision = ""
    for epoch in range(1, RUNGS[-1] + 1):
        values.append(curve.compute_metrics(epoch)["accuracy"])
        if epoch >= fails_at:
            break
        if epoch in reached:  # at the last rung, training is over, whatever it has come to
            entry = _decide(values[-1], epoch, reached[epoch], begin + epoch * curve.seconds)
            ledger.append(entry | {"number": len(ledger) + 1})
            if entry["action"] == "STOP":
                decision = str(entry["message"])
                break
    epochs = len(values)
    seconds = round(epochs * curve.seconds)
    status: Manifest = {
        "state": "TERMINATED",
        "reason": "StoppedByScheduler" if decision else "MaxTimeReached",
        "message": decision or f"stopped at training_iteration {epochs}: maxTime {RUNGS[-1]} is reached",
        "attempt": 1,
        "iteration": epochs,
        "bestValue": repr(max(values)),
        "best": {"accuracy": repr(max(values))},
        "curve": _draw_curve(values, curve.seconds),
        "usage": dict.fromkeys(("trainingSeconds", "podSeconds", "gpuSeconds"), seconds),
        "ledger": ledger[-3:],
        "startTime": _write_time(begin),
        "completionTime": _write_time(begin + seconds),
    }
    return (status | _describe_failure(len(ledger), begin + seconds) if epochs >= fails_at else status), seconds


def _decide(value: float, rung: int, others: list[float], at: float) -> dict[str, Any]:
    insort(others, value)
    inputs = {"rung": str(rung), "metric": "accuracy", "value": repr(value)}
    if len(others) < 3:
        entry = {"action": "CONTINUE", "message": f"continued at rung {rung}: accuracy {value:.6g} is the first there"}
    else:
        cutoff = others[len(others) - max(len(others) // 3, 1)]
        inputs |= {"cutoff": repr(cutoff), "peers": str(len(others))}
        stops = value < cutoff and bisect_left(others, value) < len(others) - 1
        verb, relation = ("stopped", "below") if stops else ("continued", "not below")
        message = f"{verb} at rung {rung}: accuracy {value:.6g} is {relation} the cutoff {cutoff:.6g}"
        entry = {
            "action": "STOP" if stops else "CONTINUE",
            "message": f"{message} (top 1/3 of {len(others)})",
        }
    return {**entry, "time": _write_time(at), "attempt": 1, "step": rung, "inputs": inputs}


def _describe_failure(known: int, at: float) -> Manifest:
    message = "container trial exited with code 1"
    entry = {"number": known + 1, "time": _write_time(at), "attempt": 1, "action": "FAIL", "message": message}
    return {
        "state": "ERROR",
        "reason": "MaxFailuresExceeded",
        "message": f"{message}; not retried: failure 1, maxFailures is 0",
        "failures": 1,
        "lastAttempt": {"attempt": 1, "class": "user", "reason": "Error", "message": message, "exitCode": 1},
        "ledger": [entry],
    }


def _draw_curve(values: list[float], seconds: float) -> Manifest:
    """As statuses have it: every n-th result, and the last."""
    every = 1 if len(values) <= 41 else 2
    steps = sorted({*range(1, len(values) + 1, every), len(values)})
    return {
        "results": len(values),
        "every": every,
        "steps": steps,
        "seconds": [round(step * seconds, 1) for step in steps],
        "values": [[float(f"{values[step - 1]:.5g}") for step in steps]],
    }


def _write_time(seconds: float) -> str:
    return (BEGIN + timedelta(seconds=round(seconds))).strftime("%Y-%m-%dT%H:%M:%SZ")
