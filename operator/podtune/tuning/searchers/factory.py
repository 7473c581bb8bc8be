"""Makes the searcher that an experiment asks for."""

from __future__ import annotations

from collections.abc import Collection, Sequence

from podtune.api.resources.experiment import ExperimentSpec
from podtune.api.tuning.search import GridSettings, TpeSettings
from podtune.api.tuning.search_settings import (
    BohbSearchSettings,
    BruteForceSettings,
    CmaEsSettings,
    GpSettings,
    Nsga2Settings,
    Nsga3Settings,
    QmcSettings,
)
from podtune.api.tuning.search_space import Parameter
from podtune.tuning.plugins import make_plugin
from podtune.tuning.searchers.base import Searcher
from podtune.tuning.searchers.initial import introduce
from podtune.tuning.searchers.random import RandomSearcher, make_without_repetitions
from podtune.tuning.searchers.rejection import RejectionSearcher
from podtune.tuning.searchers.spaces.active_space import ActiveSpace

SEARCHER_PLUGINS = "podtune.searchers"
"""The group of entry points by which other packages offer searchers."""


def make_searcher(spec: ExperimentSpec, skipped: Collection[int] | None = None) -> Searcher:
    """Makes the searcher that an experiment asks for; it has been told only what the manifest knows.

    Each is imported when it is asked for: Optuna alone takes most of a second, which a command line need not spend.

    Args:
        spec: The experiment.
        skipped: Places in `search.initial` of what is proposed in its place before it proposes anything; all that
            are to be tried, unless given.
    """
    space = ActiveSpace(spec.parameters, spec.constraints)
    searcher = _make_without_initial(spec, space)
    initial = spec.search.initial
    places = range(len(initial)) if skipped is None else skipped
    introduce(searcher, space, initial, spec.objective, skipped=places)
    return searcher


def learns_from_rungs(spec: ExperimentSpec) -> bool:
    """Tells whether the searcher that an experiment asks for learns from rungs, without making one of Podtune's own.

    Raises:
        PluginError: A searcher of another package can't be made.
    """
    search = spec.search
    if search.plugin is None:
        return str(search.algorithm) == "bohb"
    return make_searcher(spec).learns_from_rungs


def learns_from_results(spec: ExperimentSpec) -> bool:
    """Tells whether the searcher that an experiment asks for learns from all results; none of Podtune's own does.

    Raises:
        PluginError: A searcher of another package can't be made.
    """
    return spec.search.plugin is not None and make_searcher(spec).learns_from_results


def _make_without_initial(spec: ExperimentSpec, space: ActiveSpace) -> Searcher:
    """The searcher that the rest comes from, once the manifest's own configurations have been tried."""
    search = spec.search
    match search.algorithm:
        case "grid":
            from podtune.tuning.searchers.grid import GridSearcher  # noqa: PLC0415

            return GridSearcher(space, search.grid or GridSettings(), search.seed)
        case "qmc":
            from podtune.tuning.searchers.qmc import QmcSearcher  # noqa: PLC0415

            return QmcSearcher(space, search.qmc or QmcSettings(), search.seed)
        case "bruteForce":
            from podtune.tuning.searchers.brute_force import BruteForceSearcher  # noqa: PLC0415

            return BruteForceSearcher(space, search.brute_force or BruteForceSettings(), search.seed)
        case "random" if (searcher := make_without_repetitions(space, search.seed)) is not None:
            return searcher
        case _:
            return RejectionSearcher(space, _make_drawing(spec, space.sampled), search.seed)


def _make_drawing(spec: ExperimentSpec, sampled: Sequence[Parameter]) -> Searcher:
    """The searcher that draws values for the parameters that are sampled."""
    search = spec.search
    match search.algorithm:
        case "tpe":
            from podtune.tuning.searchers.tpe import TpeSearcher  # noqa: PLC0415

            return TpeSearcher(sampled, spec.objective, search.tpe or TpeSettings(), search.seed)
        case "cmaes":
            from podtune.tuning.searchers.cmaes import CmaEsSearcher  # noqa: PLC0415

            return CmaEsSearcher(sampled, spec.objective, search.cmaes or CmaEsSettings(), search.seed)
        case "nsga2":
            from podtune.tuning.searchers.nsga import NsgaSearcher  # noqa: PLC0415

            return NsgaSearcher(sampled, spec.objective, search.nsga2 or Nsga2Settings(), search.seed)
        case "nsga3":
            from podtune.tuning.searchers.nsga import NsgaSearcher  # noqa: PLC0415

            return NsgaSearcher(sampled, spec.objective, search.nsga3 or Nsga3Settings(), search.seed)
        case "gp":
            from podtune.tuning.searchers.gp import GpSearcher  # noqa: PLC0415

            return GpSearcher(sampled, spec.objective, search.gp or GpSettings(), search.seed)
        case "bohb":
            from podtune.tuning.searchers.bohb import BohbSearcher  # noqa: PLC0415

            brackets = spec.scheduler.bohb
            assert brackets is not None  # the models hold this
            return BohbSearcher(sampled, spec.objective, search.bohb or BohbSearchSettings(), brackets, search.seed)
        case "plugin":
            assert search.plugin is not None  # the model holds this
            asked, objective, seed = search.plugin, spec.objective, search.seed
            return make_plugin(SEARCHER_PLUGINS, asked, Searcher, parameters=sampled, objective=objective, seed=seed)  # type: ignore[type-abstract]
        case _:
            return RandomSearcher(sampled, search.seed)
