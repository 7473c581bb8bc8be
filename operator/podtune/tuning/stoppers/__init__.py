"""Stoppers: when a trial, or the whole experiment, has had enough."""

from __future__ import annotations

from podtune.api.experiment import ExperimentSpec
from podtune.api.model import seconds
from podtune.tuning.stoppers.base import ExperimentStopper, TrialStopper
from podtune.tuning.stoppers.combination import AnyOfExperiment, AnyOfTrial
from podtune.tuning.stoppers.metrics import MetricThresholds
from podtune.tuning.stoppers.total_time import TotalTime

__all__ = ["make_experiment_stopper", "make_trial_stopper"]


def make_trial_stopper(spec: ExperimentSpec) -> TrialStopper:
    """Makes the stopper of single trials that an experiment asks for."""
    parts: list[TrialStopper] = []
    if spec.stop.metrics:
        parts.append(MetricThresholds(spec.stop.metrics, spec.objective))
    return AnyOfTrial(parts)


def make_experiment_stopper(spec: ExperimentSpec) -> ExperimentStopper:
    """Makes the stopper of the whole experiment that it asks for."""
    parts: list[ExperimentStopper] = []
    if spec.stop.total_time is not None:
        parts.append(TotalTime(seconds(spec.stop.total_time)))
    return AnyOfExperiment(parts)
