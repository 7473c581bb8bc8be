"""Experiments that the simulator has run: with schedulers, failures and disruptions, as an operator records them."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping, Sequence
from typing import Any

from pydantic import BaseModel

from e2e.browser.experiments.kept import MadeExperiment, keep
from e2e.browser.experiments.training import PARAMETERS, ImageCurves
from podtune.api.names import API_VERSION
from podtune.api.resources.experiment import ExperimentSpec
from podtune.kube.manifests import Manifest
from podtune.simulation.cluster import ClusterModel
from podtune.simulation.simulation import Simulation

NAMESPACE = "vision"
LARGE_BATCH = 256
_IMAGE = "registry.example/resnet:1"
_GPU_POD = {"containers": [{"name": "trial", "image": _IMAGE, "resources": {"limits": {"nvidia.com/gpu": 1}}}]}
_ASHA = {"asha": {"maxTime": 81, "gracePeriod": 3, "reductionFactor": 3}}
_ROUGH = ClusterModel(crashes_per_hour=0.25, disruptions_per_hour=0.1)
_SIMULATED_MONTH = re.compile(r"\b2000-01-(?=\d\dT)")


def make_spec(**fields: Any) -> ExperimentSpec:
    """What is asked for, unless something else is."""
    asked = {
        "objective": {"metric": "accuracy", "mode": "max"},
        "parameters": list(PARAMETERS),
        "search": {"algorithm": "tpe", "maxTrials": 60, "seed": 7},
        "trialTemplate": {"spec": _GPU_POD},
        "maxConcurrentTrials": 8,
        "checkpoints": {"store": {"bucket": "models", "prefix": NAMESPACE}},
    }
    return ExperimentSpec.model_validate(asked | fields)


def pack_experiment(
    name: str, spec: Mapping[str, Any], status: Mapping[str, Any], trials: Sequence[Manifest]
) -> MadeExperiment:
    """As the API server has them."""
    metadata = {"name": name, "namespace": NAMESPACE, "uid": f"uid-{name}"}
    return MadeExperiment(
        {"apiVersion": API_VERSION, "metadata": metadata, "spec": spec, "status": status}, tuple(trials)
    )


def _simulate(
    name: str,
    spec: ExperimentSpec,
    curves: ImageCurves,
    *,
    model: ClusterModel = _ROUGH,
    until: float | None = None,
) -> MadeExperiment:
    """Runs it, to its end or for so many seconds."""
    simulation = Simulation(spec, curves, model, name=name, seed=3)
    while not simulation.is_over and (until is None or simulation.outcome.seconds < until):
        simulation.step()
    outcome = simulation.outcome
    trials = [
        {"metadata": {"name": trial.name, "namespace": NAMESPACE, "uid": f"uid-{trial.name}"}}
        | {"spec": _dump(trial.spec), "status": _dump(trial.status)}
        for trial in outcome.trials
    ]
    return pack_experiment(name, _dump(spec), _dump(outcome.status), trials)


def _dump(model: BaseModel) -> Manifest:
    """As JSON, in a month of our days: simulations begin in the year 2000."""
    text = model.model_dump_json(by_alias=True, exclude_defaults=True)
    dated: Manifest = json.loads(_SIMULATED_MONTH.sub("2026-03-", text))
    return dated


@keep
def make_finished() -> MadeExperiment:
    """ASHA, to its end; some trials have failed, and some were disrupted."""
    search = {"algorithm": "tpe", "maxTrials": 80, "seed": 12}
    spec = make_spec(scheduler=_ASHA, failures={"maxFailures": 1}, search=search)
    return _simulate("resnet", spec, ImageCurves(81, 90))


@keep
def make_running() -> MadeExperiment:
    """ASHA in its middle."""
    search = {"algorithm": "random", "maxTrials": 120, "seed": 2}
    spec = make_spec(scheduler=_ASHA, failures={"maxFailures": 1}, search=search)
    return _simulate("resnet-live", spec, ImageCurves(81, 90), until=2.5 * 3600)


@keep
def make_hyperband() -> MadeExperiment:
    """HyperBand in its middle: some brackets are over, and trials of another wait for one another."""
    search = {"algorithm": "random", "maxTrials": 60, "seed": 4}
    spec = make_spec(scheduler={"hyperband": {"maxTime": 27, "reductionFactor": 3}}, search=search)
    return _simulate("resnet-brackets", spec, ImageCurves(27), until=1.25 * 3600)


@keep
def make_population() -> MadeExperiment:
    """Population-based training, with exploits."""
    parameters = [each for each in PARAMETERS if each["name"] in ("learning_rate", "weight_decay", "dropout")]
    search = {"algorithm": "random", "maxTrials": 16, "seed": 5}
    scheduler = {"pbt": {"interval": 5}}
    spec = make_spec(scheduler=scheduler, parameters=parameters, search=search, maxConcurrentTrials=16)
    return _simulate("resnet-population", spec, ImageCurves(80))


@keep
def make_trade_off() -> MadeExperiment:
    """Two objectives: accuracy and latency."""
    objective = {"metric": "accuracy", "mode": "max", "others": [{"metric": "latency_ms", "mode": "min"}]}
    search = {"algorithm": "random", "maxTrials": 100, "seed": 5}
    return _simulate("edge-models", make_spec(objective=objective, search=search), ImageCurves(27))


@keep
def make_failing() -> MadeExperiment:
    """More than half of the trials fail, once at least: those with large batches for want of memory."""
    search = {"algorithm": "random", "maxTrials": 60, "seed": 11}
    spec = make_spec(search=search, failures={"maxFailures": 1})
    made = _simulate("resnet-failing", spec, ImageCurves(27), model=ClusterModel(crashes_per_hour=1.5))
    return MadeExperiment(made.experiment, tuple(map(_blame_memory, made.trials)))


def _blame_memory(trial: Manifest) -> Manifest:
    """The simulator knows crashes alone: those of large batches become what they are in practice."""
    if int(trial["spec"]["parameters"]["batch_size"]) < LARGE_BATCH:
        return trial
    text = json.dumps(trial)
    text = text.replace("container trial exited with code 1", "container trial used more memory than its limit")
    changed: Manifest = json.loads(text.replace('"reason": "Error"', '"reason": "OOMKilled"'))
    return changed
