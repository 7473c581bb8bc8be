"""A Tuner shaped like Ray Tune's, for those who come from there.

from podtune.client import tune

tuner = tune.Tuner(
    train,
    param_space={"lr": tune.loguniform(1e-4, 1e-1)},
    tune_config=tune.TuneConfig(metric="accuracy", mode="max", num_samples=20),
    run_config=tune.RunConfig(image="registry/train:1"),
)
results = tuner.fit()
results.get_best_result().config
"""

from typing import NoReturn

from podtune.client.tune.configs import CheckpointConfig, FailureConfig, RunConfig, TuneConfig
from podtune.client.tune.result_grid import ResultGrid, TrialFailed, TrialResult
from podtune.client.tune.schedulers import (
    ASHAScheduler,
    AsyncHyperBandScheduler,
    FIFOScheduler,
    HyperBandScheduler,
    MedianStoppingRule,
    PopulationBasedTraining,
)
from podtune.client.tune.space import (
    ParameterDomain,
    choice,
    expression,
    grid_search,
    lograndint,
    loguniform,
    qrandint,
    qrandn,
    quniform,
    randint,
    randn,
    uniform,
)
from podtune.client.tune.tuner import Tuner

__all__ = [
    "ASHAScheduler",
    "AsyncHyperBandScheduler",
    "CheckpointConfig",
    "FIFOScheduler",
    "FailureConfig",
    "HyperBandScheduler",
    "MedianStoppingRule",
    "ParameterDomain",
    "PopulationBasedTraining",
    "ResultGrid",
    "RunConfig",
    "TrialFailed",
    "TrialResult",
    "TuneConfig",
    "Tuner",
    "choice",
    "expression",
    "grid_search",
    "lograndint",
    "loguniform",
    "qrandint",
    "qrandn",
    "quniform",
    "randint",
    "randn",
    "uniform",
]

_INSTEAD = {
    "sample_from": 'takes a function, which no manifest holds; write tune.expression("0.1 * batch_size") for what '
    "follows from other parameters, and .when(…) for a parameter that only some trials have",
    "qloguniform": "has steps on a logarithmic scale; write tune.loguniform, and round in your function",
    "qlograndint": "has steps on a logarithmic scale; write tune.lograndint, and round in your function",
    "report": "is podtune.trial.report, for an image has that alone: from podtune import trial",
    "get_checkpoint": "is podtune.trial.restored_checkpoint, which gives a directory: from podtune import trial",
    "Checkpoint": "is a directory: trial.report(metrics, checkpoint=directory)",
    "with_parameters": "sends objects, which can't travel; load them in your function, or in a module of yours",
    "with_resources": 'is an argument of RunConfig: resources={"cpu": 2, "gpu": 1}',
    "Trainable": "is a class; write a function that reports each iteration",
    "run": "is the older way; write tune.Tuner(…).fit()",
    "Callback": "runs beside the search; follow the Experiment instead, as with client.get(name).watch()",
}
"""What Ray Tune has and this has not, and what works."""


def __getattr__(name: str) -> NoReturn:
    raise AttributeError(f"tune.{name} {_INSTEAD[name]}" if name in _INSTEAD else f"tune has no {name!r}")
