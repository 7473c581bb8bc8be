"""The state of a training, which is what a checkpoint holds, and how it goes on."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, replace

from podtune.api.resources.experiment import ExperimentSpec
from podtune.simulation.curves.base import LearningCurve
from podtune.tuning.searchers.base import Configuration


@dataclass(frozen=True, slots=True)
class TrainingState:
    """The state of a training.

    Attributes:
        iteration: Iterations so far.
        value: The objective after them; NaN before the first.
        configuration: What they were trained with, the last of them at least.
        mixed: Whether the configuration has changed on the way: the value is no longer the curve's.
        seconds: How long they took.
    """

    iteration: int
    value: float
    configuration: Configuration
    mixed: bool = False
    seconds: float = 0.0


def start_training(configuration: Configuration) -> TrainingState:
    """A training that has not begun."""
    return TrainingState(0, math.nan, configuration)


def resume_training(checkpoint: TrainingState, configuration: Configuration) -> TrainingState:
    """A training that goes on from a checkpoint, perhaps with another configuration."""
    changed = checkpoint.iteration > 0 and checkpoint.configuration != configuration
    return replace(checkpoint, configuration=configuration, mixed=checkpoint.mixed or changed)


def advance(training: TrainingState, curve: LearningCurve, metric: str) -> tuple[TrainingState, Mapping[str, float]]:
    """One more iteration.

    A training whose configuration has changed starts from where it was: of the way from there to the end of the new
    curve, an iteration covers the same share that it covers of the curve itself. So it gains from what it has learnt,
    and ends up where its configuration leads.

    Returns:
        The state after the iteration, and what is reported.
    """
    iteration = training.iteration + 1
    metrics = curve.compute_metrics(iteration)
    value = metrics[metric]
    if training.mixed and not math.isnan(training.value):
        before, end = curve.compute_metrics(iteration - 1)[metric], curve.compute_metrics(curve.length)[metric]
        value = training.value + _compute_share(before, value, end) * (end - training.value)
        metrics = {**metrics, metric: value}
    seconds = training.seconds + curve.compute_seconds(iteration)
    return replace(training, iteration=iteration, value=value, seconds=seconds), metrics


def evaluate(training: TrainingState, curve: LearningCurve, spec: ExperimentSpec) -> dict[str, float]:
    """What an evaluation of the training's state reports: the curve's values, all that the objective asks for."""
    if not training.iteration:
        return {}
    metrics = {**curve.compute_metrics(training.iteration), spec.objective.metric: training.value}
    return {criterion.metric: metrics[criterion.metric] for criterion in spec.objective.criteria}


def name_for_training(reported: Mapping[str, float], spec: ExperimentSpec) -> Mapping[str, float]:
    """What training reports where the objective is left to an evaluation: its own metric, which tells the same."""
    if spec.evaluation is None:
        return reported
    optimised = {criterion.metric for criterion in spec.objective.criteria}
    others = {name: value for name, value in reported.items() if name not in optimised}
    training, objective = spec.evaluation.training_objective, spec.objective
    if training is None or training.metric in others:
        return others
    value = reported[objective.metric]
    return {**others, training.metric: value if training.mode == objective.mode else -value}


def _compute_share(before: float, after: float, end: float) -> float:
    """The part of the way from `before` to `end` that lies before `after`."""
    way = end - before
    share = (after - before) / way if way else 0.0
    return min(max(share, 0.0), 1.0) if not math.isnan(share) else 0.0
