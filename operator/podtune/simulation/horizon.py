"""The horizon of trainings: how long they are, as far as a manifest says."""

from __future__ import annotations

import math

from podtune.api.resources.experiment import ExperimentSpec
from podtune.trial.layout import TIME_TOTAL
from podtune.tuning.schedulers.factory import make_scheduler

ITERATIONS = 27
"""How many a training is taken to have where the manifest doesn't say."""


def compute_time_per_iteration(spec: ExperimentSpec, seconds: float) -> float:
    """By how much an iteration of so many seconds advances the time attribute: one, unless that is training time."""
    return seconds if make_scheduler(spec).time_attribute == TIME_TOTAL else 1.0


def find_iteration_limit(spec: ExperimentSpec, seconds: float) -> int | None:
    """After how many iterations of so many seconds scheduler or stopper ends every trial; None where some may go on."""
    thresholds = [spec.stop.metrics, *(rule.metrics or {} for rule in spec.stop.trial)]
    time = make_scheduler(spec).time_attribute
    times = [getattr(spec.scheduler.settings, "max_time", None), *(metrics.get(time) for metrics in thresholds)]
    advance = compute_time_per_iteration(spec, seconds)
    limits = [
        *(limit if advance == 1.0 else math.ceil(limit / advance) for limit in times if limit is not None),
        *(rule.iterations for rule in spec.stop.trial if rule.iterations is not None),
    ]
    return min(map(int, limits), default=None)
