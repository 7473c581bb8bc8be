"""Stoppers: when a trial, or the whole experiment, has had enough."""

from __future__ import annotations

from podtune.tuning.stoppers.experiment import ExperimentStopDecision, ExperimentStopper
from podtune.tuning.stoppers.factories import make_experiment_stopper, make_trial_stopper
from podtune.tuning.stoppers.trial import TrialStopper

__all__ = [
    "ExperimentStopDecision",
    "ExperimentStopper",
    "TrialStopper",
    "make_experiment_stopper",
    "make_trial_stopper",
]
