"""Makes the schedulers that train a population, of their settings."""

from __future__ import annotations

from podtune.api.resources.experiment import ExperimentSpec
from podtune.api.tuning.population import Pb2Settings, PbtSettings, PopulationSettings, mutable_domains
from podtune.tuning.schedulers.pb2 import Bandit
from podtune.tuning.schedulers.pbt import Pbt
from podtune.tuning.schedulers.pbt_synchronous import SynchronousPbt
from podtune.tuning.schedulers.population.barrier_release import BarrierReleaseWriter
from podtune.tuning.schedulers.population.explore import Explorer, Perturbing, Space


def make_population_scheduler(name: str, settings: PopulationSettings, spec: ExperimentSpec) -> Pbt:
    """Makes a scheduler that has seen nothing yet.

    Args:
        name: The scheduler, as a manifest spells it.
        settings: Its settings.
        spec: The experiment.

    Raises:
        ModelMissing: The settings are PB2's, and scikit-learn is not installed.
    """
    explorer = _explorer(settings, spec)
    seed = spec.search.seed
    if not settings.synchronous:
        return Pbt(name, settings, spec.objective, explorer, seed)
    writer = BarrierReleaseWriter(spec.parameters, spec.constraints)
    return SynchronousPbt(name, settings, spec.objective, explorer, seed, writer=writer)


def _explorer(settings: PopulationSettings, spec: ExperimentSpec) -> Explorer:
    space = Space(spec.parameters, spec.constraints)
    domains = mutable_domains(settings, spec.parameters)
    match settings:
        case PbtSettings():
            return Perturbing(space, domains, settings)
        case Pb2Settings():
            return Bandit(space, domains, settings)
        case _:
            raise TypeError(f"{type(settings).__name__} are settings of no scheduler")
