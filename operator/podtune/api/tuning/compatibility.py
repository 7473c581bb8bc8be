"""Which searchers can be combined with which schedulers and objectives, and why others can't.

A combination is refused if it would silently search at random or learn from the wrong values. The rules are data:
validators, the API server's rules and the tests of every pair are generated from them.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Set
from dataclasses import dataclass
from typing import get_args

from podtune.api.base import FieldError
from podtune.api.tuning.objective import Objective
from podtune.api.tuning.scheduler import SCHEDULERS, SchedulerSpec
from podtune.api.tuning.search import SearchSpec
from podtune.api.tuning.search_settings import Nsga3Settings

SEARCHERS: Set[str] = frozenset(get_args(SearchSpec.model_fields["algorithm"].annotation))
"""All search algorithms."""
MULTI_OBJECTIVE: Set[str] = SEARCHERS & {
    *("random", "grid", "qmc", "bruteForce", "tpe", "nsga2", "nsga3", "plugin"),
}
"""Those that can have several objectives: they learn from all of them, or from none."""
MAX_REFERENCE_POINTS = 2000
"""NSGA-III compares each trial with all of its reference points."""


@dataclass(frozen=True, slots=True)
class Refusal:
    """Searchers that can't be combined with schedulers."""

    searchers: Set[str]
    schedulers: Set[str]
    why: str


REFUSALS = (
    Refusal(
        SEARCHERS & {"bohb"},
        SCHEDULERS.keys() - {"bohb"},
        "algorithm bohb learns from the rungs of scheduler bohb; use that one, or algorithm tpe",
    ),
    Refusal(
        SEARCHERS - {"bohb", "plugin"},
        SCHEDULERS.keys() & {"bohb"},
        "scheduler bohb fills its brackets for algorithm bohb; use that one, or scheduler hyperband",
    ),
    Refusal(
        SEARCHERS & {"tpe", "cmaes", "gp", "nsga2", "nsga3"},
        SCHEDULERS.keys() & {"pbt", "pb2"},
        "pbt and pb2 change configurations while trials run, so the search would learn from results of other "
        "configurations; use algorithm random",
    ),
    Refusal(
        SEARCHERS & {"cmaes", "nsga2", "nsga3"},
        SCHEDULERS.keys() & {"ashaPromotion"},
        "it learns from whole generations, and ashaPromotion leaves most trials paused, never finished; "
        "use algorithm tpe, or scheduler asha or hyperband",
    ),
)
"""All pairs that are refused."""


def find_refusal(searcher: str, scheduler: str) -> Refusal | None:
    """Why a search algorithm can't be combined with a scheduler; None if it can."""
    return next((each for each in REFUSALS if searcher in each.searchers and scheduler in each.schedulers), None)


def list_valid_pairs() -> Iterator[tuple[str, str]]:
    """All valid pairs of a search algorithm and a scheduler."""
    for searcher in sorted(SEARCHERS):
        for scheduler in SCHEDULERS:
            if find_refusal(searcher, scheduler) is None:
                yield searcher, scheduler


def check_combination(objective: Objective, search: SearchSpec, scheduler: SchedulerSpec) -> None:
    """Refuses what can't work together.

    Raises:
        FieldError: With the field, the value and the remedy.
    """
    name = scheduler.name
    refused = find_refusal(search.algorithm, name)
    if refused is not None:
        raise FieldError(
            "search.algorithm", f"{search.algorithm} can't be combined with scheduler {name}: {refused.why}"
        )
    if objective.others:
        _check_objectives(search, name)
    if search.algorithm == "nsga3":
        _check_reference_points(len(objective.criteria), search)


def _check_objectives(search: SearchSpec, scheduler: str) -> None:
    if search.algorithm not in MULTI_OBJECTIVE:
        raise FieldError(
            "search.algorithm",
            f"{search.algorithm} supports one objective, but objective.others adds more; use one of "
            f"{', '.join(sorted(MULTI_OBJECTIVE))}, or remove others",
        )
    if scheduler != "fifo":
        raise FieldError(
            "scheduler",
            f"{scheduler} compares trials by one metric, and would stop trials that are good by objective.others; use "
            "fifo, or remove others",
        )


def _check_reference_points(objectives: int, search: SearchSpec) -> None:
    divisions = (search.nsga3 or Nsga3Settings()).divisions
    points = math.comb(objectives + divisions - 1, divisions)
    if points > MAX_REFERENCE_POINTS:
        raise FieldError(
            "search.nsga3.divisions",
            f"{divisions} with {objectives} objectives makes {points} reference points, more than "
            f"{MAX_REFERENCE_POINTS}; lower it",
        )
