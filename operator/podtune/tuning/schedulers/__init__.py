"""Schedulers: which trials go on after a result, and which waiting one runs next."""

from __future__ import annotations

from podtune.api.resources.experiment import ExperimentSpec
from podtune.tuning.schedulers.asha import Asha
from podtune.tuning.schedulers.asha_promotion import AshaPromotion
from podtune.tuning.schedulers.base import Scheduler
from podtune.tuning.schedulers.bohb import Bohb
from podtune.tuning.schedulers.fifo import Fifo
from podtune.tuning.schedulers.hyperband import Hyperband
from podtune.tuning.schedulers.median import Median
from podtune.tuning.schedulers.plugin import make_plugin_scheduler
from podtune.tuning.schedulers.population.populations import make_population_scheduler

__all__ = ["make_scheduler"]


def make_scheduler(spec: ExperimentSpec) -> Scheduler:
    """Makes the scheduler that an experiment asks for; it has seen nothing yet."""
    if spec.scheduler.asha is not None:
        return Asha(spec.scheduler.asha, spec.objective, spec.search.seed)
    if spec.scheduler.asha_promotion is not None:
        return AshaPromotion(spec.scheduler.asha_promotion, spec.objective, spec.search.seed)
    if spec.scheduler.hyperband is not None:
        return Hyperband(spec.scheduler.hyperband, spec.objective)
    if spec.scheduler.bohb is not None:
        return Bohb(spec.scheduler.bohb, spec.objective)
    if spec.scheduler.median is not None:
        return Median(spec.scheduler.median, spec.objective)
    if spec.scheduler.population is not None:
        return make_population_scheduler(*spec.scheduler.population, spec)
    if spec.scheduler.plugin is not None:
        return make_plugin_scheduler(spec.scheduler.plugin, spec.objective, spec.search.seed)
    return Fifo()
