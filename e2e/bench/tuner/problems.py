"""What is optimised: six standard functions and a table of real learning curves."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

import yaml

from podtune.api.resources.experiment import ExperimentSpec
from podtune.simulation.curves.functions import CURVE_FUNCTIONS
from podtune.simulation.curves.table import MeasuredCurves, read_curves
from podtune.tuning.searchers.base import Configuration

ROOT = Path(__file__).resolve().parents[3]
DIGITS = ROOT / "examples" / "digits"
DIMENSIONS = {"sphere": 5, "branin": 2, "rosenbrock": 4, "ackley": 5, "hartmann6": 6, "styblinski-tang": 4}
"""The standard functions, and in how many dimensions they are taken."""
CURVES = "digits-curves"
NAMES = (*DIMENSIONS, CURVES)


@dataclass(frozen=True)
class Problem:
    """Something to be minimised.

    Attributes:
        parameters: The search space, as in a manifest.
        value: The value at a configuration.
        optimum: The least value that there is.
    """

    name: str
    parameters: list[dict[str, Any]]
    value: Callable[[Configuration], float]
    optimum: float


@cache
def problem(name: str) -> Problem:
    """The problem of this name."""
    return _table() if name == CURVES else _function(name)


def spec(parameters: list[dict[str, Any]], mode: str = "min", **fields: Any) -> ExperimentSpec:
    """An Experiment over a search space, whose trials report `value`."""
    return ExperimentSpec.model_validate(
        {
            "objective": {"metric": "value", "mode": mode},
            "parameters": parameters,
            "trialTemplate": {"spec": {"containers": [{"name": "trial", "image": "registry.example/none:1"}]}},
            **fields,
        }
    )


@cache
def digits_curves() -> tuple[ExperimentSpec, MeasuredCurves]:
    """The example's experiment, and the curves that were recorded with its program."""
    written = yaml.safe_load((DIGITS / "experiment.yaml").read_text(encoding="utf-8"))["spec"]
    experiment = ExperimentSpec.model_validate(written)
    with (DIGITS / "curves.csv").open(encoding="utf-8", newline="") as lines:
        return experiment, read_curves(lines, experiment.parameters, experiment.objective, time="epoch", seconds=60.0)


def _function(name: str) -> Problem:
    function, dimensions = CURVE_FUNCTIONS[name], DIMENSIONS[name]
    names = [f"x{place}" for place in range(dimensions)]
    return Problem(
        name=name,
        parameters=[{"name": each, "float": {"min": 0, "max": 1}} for each in names],
        value=lambda configuration: function.evaluate([float(configuration[each]) for each in names]),
        optimum=function.compute_minimum(dimensions),
    )


def _table() -> Problem:
    """What a whole training ends up at."""
    experiment, curves = digits_curves()
    metric = experiment.objective.metric

    def error(configuration: Configuration) -> float:
        curve = curves.build_curve(configuration, 0)
        return 1.0 - curve.compute_metrics(curve.length)[metric]

    ends = [curve.compute_metrics(curve.length)[metric] for curve in curves]
    written = yaml.safe_load((DIGITS / "experiment.yaml").read_text(encoding="utf-8"))["spec"]["parameters"]
    return Problem(CURVES, written, error, 1.0 - max(ends))
