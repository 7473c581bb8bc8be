"""Experiments that pages have trouble with: hostile texts, hundreds of parameters, and none of anything."""

from __future__ import annotations

import random
from functools import cache
from typing import Any

from e2e.browser.experiments.kept import MadeExperiment
from e2e.browser.experiments.simulated import NAMESPACE, pack_experiment
from podtune.kube.manifests import Manifest

SCRIPT = "<script>document.title='hurt'</script>"
IMAGE = '"><img src=x onerror="document.title=\'hurt\'">'
LINK = "javascript:document.title='hurt'"
MOST_PARAMETERS = 64


def _make_trial(experiment: str, index: int, parameters: dict[str, str], status: Manifest) -> Manifest:
    name = f"{experiment}-{index}"
    proposal = {"number": index, "source": "Searcher"}
    spec = {"experiment": experiment, "index": index, "parameters": parameters, "proposal": proposal}
    return {"metadata": {"name": name, "namespace": NAMESPACE, "uid": f"uid-{name}"}, "spec": spec, "status": status}


def _make_status(metric: str, value: float, **fields: Any) -> Manifest:
    ended: Manifest = {
        "state": "TERMINATED",
        "reason": "Completed",
        "message": "ended by itself",
        "attempt": 1,
        "iteration": 5,
        "bestValue": repr(value),
        "best": {metric: repr(value)},
        "curve": {
            "results": 5,
            "every": 1,
            "steps": [1, 2, 3, 4, 5],
            "seconds": [60, 120, 180, 240, 300],
            "values": [[round(value * share, 4) for share in (0.4, 0.7, 0.85, 0.95, 1)]],
        },
        "startTime": "2026-03-01T10:00:00Z",
        "completionTime": "2026-03-01T10:05:00Z",
        "usage": {"trainingSeconds": 300, "podSeconds": 310, "gpuSeconds": 310},
    }
    return ended | fields


@cache
def make_hostile() -> MadeExperiment:
    """Whoever may write an Experiment or report a metric may write this."""
    metric, name = f"accuracy {SCRIPT}", "hostile"
    spec = {
        "objective": {"metric": metric, "mode": "max"},
        "parameters": [
            {"name": f"rate {SCRIPT}", "float": {"min": 0, "max": 1}},
            {"name": f"kind {IMAGE}", "choice": {"values": [SCRIPT, IMAGE, LINK]}},
        ],
        "search": {"algorithm": f"random{IMAGE}", "maxTrials": 20},
        "trialTemplate": {"spec": {"containers": [{"name": "main", "image": "registry.example/train:1"}]}},
    }
    trials = []
    for index in range(20):
        parameters = {f"rate {SCRIPT}": str(index / 20), f"kind {IMAGE}": (SCRIPT, IMAGE, LINK)[index % 3]}
        failure = {"attempt": 1, "class": "user", "reason": "Error", "message": IMAGE, "logTail": f"{SCRIPT}\n{IMAGE}"}
        entry = {
            "number": 1,
            "time": "2026-03-01T10:04:00Z",
            "attempt": 1,
            "action": "FAIL",
            "message": SCRIPT,
            "inputs": {IMAGE: SCRIPT},
        }
        checkpoint = {"step": 5, "uri": LINK, "digest": SCRIPT, "metric": "0.5"}
        status = _make_status(metric, 0.5 + index / 50, message=SCRIPT, checkpoints=[checkpoint], ledger=[entry])
        if index % 4 == 3:
            status |= {"state": "ERROR", "reason": "MaxFailuresExceeded", "failures": 1, "lastAttempt": failure}
        trials.append(_make_trial(name, index, parameters, status))
    best = {"trial": f"{name}-18", "value": "0.86", "parameters": trials[18]["spec"]["parameters"]}
    return pack_experiment(
        name,
        spec,
        {"state": "Running", "message": IMAGE, "trials": {"total": 20, "terminated": 15, "error": 5}, "best": best},
        trials,
    )


@cache
def make_wide(count: int = MOST_PARAMETERS, name: str = "wide") -> MadeExperiment:
    """Parameters with long names, as many as operators take; those of a later version may take more."""
    rng = random.Random(3)
    names = [f"block_{place}_{'_'.join(['learning', 'rate', 'multiplier'][: place % 4])}" for place in range(count)]
    spec = {
        "objective": {"metric": "validation_accuracy_of_the_exponential_moving_average", "mode": "max"},
        "parameters": [{"name": each, "float": {"min": 0, "max": 1}} for each in names],
        "search": {"algorithm": "random", "maxTrials": 12},
        "trialTemplate": {"spec": {"containers": [{"name": "main", "image": "registry.example/train:1"}]}},
    }
    metric = spec["objective"]["metric"]  # type: ignore[index]
    trials = [
        _make_trial(name, index, {each: f"{rng.random():.6g}" for each in names}, _make_status(metric, rng.random()))
        for index in range(12)
    ]
    best = max(trials, key=lambda trial: float(trial["status"]["bestValue"]))
    status = {
        "state": "Running",
        "trials": {"total": 12, "terminated": 12},
        "message": "12 of 12 trials are done. " + "The operator has much to say about this experiment. " * 12,
        "best": {
            "trial": best["metadata"]["name"],
            "value": best["status"]["bestValue"],
            "parameters": best["spec"]["parameters"],
        },
    }
    return pack_experiment(name, spec, status, trials)


@cache
def make_new() -> MadeExperiment:
    """One that no operator has seen yet."""
    spec = {
        "objective": {"metric": "accuracy", "mode": "max"},
        "parameters": [{"name": "rate", "float": {"min": 0, "max": 1}}],
        "search": {"algorithm": "random", "maxTrials": 20},
        "trialTemplate": {"spec": {"containers": [{"name": "main", "image": "registry.example/train:1"}]}},
    }
    return pack_experiment("new", spec, {}, [])
