"""Searchers: which configuration is tried next."""

from __future__ import annotations

from podtune.api.experiment import ExperimentSpec
from podtune.api.search import GridSettings, TpeSettings
from podtune.api.search_settings import CmaEsSettings
from podtune.tuning.searchers.base import Searcher

__all__ = ["make_searcher"]


def make_searcher(spec: ExperimentSpec) -> Searcher:
    """Makes the searcher that an experiment asks for; it has been told nothing yet.

    Each is imported when it is asked for: Optuna alone takes most of a second, which a command line need not spend.
    """
    search = spec.search
    match search.algorithm:
        case "random":
            from podtune.tuning.searchers.random import RandomSearcher  # noqa: PLC0415

            return RandomSearcher(spec.parameters, search.seed)
        case "grid":
            from podtune.tuning.searchers.grid import GridSearcher  # noqa: PLC0415

            return GridSearcher(spec.parameters, search.grid or GridSettings())
        case "tpe":
            from podtune.tuning.searchers.tpe import TpeSearcher  # noqa: PLC0415

            return TpeSearcher(spec.parameters, spec.objective, search.tpe or TpeSettings(), search.seed)
        case "cmaes":
            from podtune.tuning.searchers.cmaes import CmaEsSearcher  # noqa: PLC0415

            return CmaEsSearcher(spec.parameters, spec.objective, search.cmaes or CmaEsSettings(), search.seed)
