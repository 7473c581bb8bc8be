"""Makes the scheduler that an experiment asks for."""

from __future__ import annotations

from podtune.api.resources.experiment import ExperimentSpec
from podtune.api.tuning.population import Pb2Settings, PbtSettings, PopulationSettings, list_mutable_domains
from podtune.tuning.plugins import make_plugin
from podtune.tuning.schedulers.asha import Asha
from podtune.tuning.schedulers.asha_promotion import AshaPromotion
from podtune.tuning.schedulers.base import Scheduler
from podtune.tuning.schedulers.bohb import Bohb
from podtune.tuning.schedulers.fifo import Fifo
from podtune.tuning.schedulers.hyperband import Hyperband
from podtune.tuning.schedulers.median import Median
from podtune.tuning.schedulers.pb2 import Bandit
from podtune.tuning.schedulers.pbt import Pbt
from podtune.tuning.schedulers.pbt_synchronous import SynchronousPbt
from podtune.tuning.schedulers.population.barrier_release import BarrierReleaseWriter
from podtune.tuning.schedulers.population.explore import Explorer, Perturbing, Space

SCHEDULER_PLUGINS = "podtune.schedulers"
"""The group of entry points by which other packages offer schedulers."""


def make_scheduler(spec: ExperimentSpec) -> Scheduler:
    """Makes the scheduler that an experiment asks for; it has seen nothing yet.

    Raises:
        PluginError: A scheduler of another package can't be made.
        ModelMissing: It is PB2, and scikit-learn is not installed.
    """
    asked, objective, seed = spec.scheduler, spec.training_objective, spec.search.seed
    if asked.asha is not None:
        return Asha(asked.asha, objective, seed)
    if asked.asha_promotion is not None:
        return AshaPromotion(asked.asha_promotion, objective, seed)
    if asked.hyperband is not None:
        return Hyperband(asked.hyperband, objective)
    if asked.bohb is not None:
        return Bohb(asked.bohb, objective)
    if asked.median is not None:
        return Median(asked.median, objective)
    if asked.population is not None:
        return _make_population_scheduler(*asked.population, spec)
    if asked.plugin is not None:
        return make_plugin(SCHEDULER_PLUGINS, asked.plugin, Scheduler, objective=objective, seed=seed)  # type: ignore[type-abstract]
    return Fifo()


def _make_population_scheduler(name: str, settings: PopulationSettings, spec: ExperimentSpec) -> Pbt:
    explorer, seed = _make_explorer(settings, spec), spec.search.seed
    if not settings.synchronous:
        return Pbt(name, settings, spec.training_objective, explorer, seed)
    writer = BarrierReleaseWriter(spec.parameters, spec.constraints)
    return SynchronousPbt(name, settings, spec.training_objective, explorer, seed, writer=writer)


def _make_explorer(settings: PopulationSettings, spec: ExperimentSpec) -> Explorer:
    space = Space(spec.parameters, spec.constraints)
    domains = list_mutable_domains(settings, spec.parameters)
    match settings:
        case PbtSettings():
            return Perturbing(space, domains, settings)
        case Pb2Settings():
            return Bandit(space, domains, settings)
        case _:
            raise TypeError(f"{type(settings).__name__} are not settings of a scheduler")
