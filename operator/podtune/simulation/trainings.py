"""How long trainings are, as far as a manifest says."""

from __future__ import annotations

from podtune.api.experiment import ExperimentSpec
from podtune.api.scheduler import SCHEDULERS
from podtune.tuning.schedulers import make_scheduler

ITERATIONS = 27
"""How many a training is taken to have where the manifest doesn't say."""


def scheduler_kind(spec: ExperimentSpec) -> str:
    """The scheduler that is asked for, as the manifest spells it."""
    return next(iter(spec.scheduler.given), "fifo")


def longest_training(spec: ExperimentSpec) -> int | None:
    """After how many iterations every trial is stopped, by scheduler or stopper; None where some may go on for ever.

    An iteration is taken to advance the time attribute by one.
    """
    settings = getattr(spec.scheduler, SCHEDULERS[scheduler_kind(spec)])
    thresholds = [spec.stop.metrics, *(rule.metrics or {} for rule in spec.stop.trial)]
    time = make_scheduler(spec).time_attribute
    limits = [
        getattr(settings, "max_time", None),
        *(metrics.get(time) for metrics in thresholds),
        *(rule.iterations for rule in spec.stop.trial),
    ]
    return min((int(limit) for limit in limits if limit is not None), default=None)
