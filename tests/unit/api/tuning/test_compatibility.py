from __future__ import annotations

from typing import Any

import pytest

from podtune.api.base import FieldError
from podtune.api.tuning.compatibility import (
    MULTI_OBJECTIVE,
    SEARCHERS,
    check_combination,
    find_refusal,
    list_valid_pairs,
)
from podtune.api.tuning.objective import Criterion, Objective
from podtune.api.tuning.scheduler import SCHEDULERS, SchedulerSpec
from podtune.api.tuning.search import SearchSpec
from podtune.api.tuning.search_settings import Nsga3Settings

ONE = Objective(metric="accuracy", mode="max")
TWO = Objective(metric="accuracy", mode="max", others=[Criterion(metric="latency", mode="min")])


def scheduler(name: str) -> SchedulerSpec:
    """A scheduler whose settings don't matter."""
    fields: dict[str, Any] = {field: {} if alias == name else None for alias, field in SCHEDULERS.items()}
    return SchedulerSpec.model_construct(**fields)


def search(algorithm: str, divisions: int = 3) -> SearchSpec:
    """A search whose other settings don't matter."""
    return SearchSpec.model_construct(algorithm=algorithm, max_trials=10, nsga3=Nsga3Settings(divisions=divisions))  # type: ignore[arg-type]


@pytest.mark.parametrize("name", SCHEDULERS)
@pytest.mark.parametrize("algorithm", sorted(SEARCHERS))
def test_a_pair_is_taken_or_refused_with_the_reason_and_a_remedy_that_is_taken(algorithm: str, name: str) -> None:
    if (algorithm, name) in list_valid_pairs():
        check_combination(ONE, search(algorithm), scheduler(name))
        return
    with pytest.raises(FieldError) as refused:
        check_combination(ONE, search(algorithm), scheduler(name))
    assert refused.value.path == "search.algorithm"
    assert refused.value.problem.startswith(f"{algorithm} can't be combined with scheduler {name}: ")
    assert "; use " in refused.value.problem


@pytest.mark.parametrize(
    ("algorithm", "name"),
    [("tpe", "pbt"), ("nsga2", "pb2"), ("cmaes", "ashaPromotion"), ("nsga3", "ashaPromotion"), ("tpe", "bohb")],
)
def test_what_would_search_at_random_in_disguise_is_refused(algorithm: str, name: str) -> None:
    assert find_refusal(algorithm, name) is not None


def test_random_search_goes_with_every_scheduler_but_the_one_made_for_another_search() -> None:
    assert {name for algorithm, name in list_valid_pairs() if algorithm == "random"} == SCHEDULERS.keys() - {"bohb"}


def test_no_scheduler_is_fifo() -> None:
    check_combination(TWO, search("nsga2"), SchedulerSpec())


@pytest.mark.parametrize("algorithm", sorted(SEARCHERS))
def test_several_objectives_are_for_searchers_that_take_them(algorithm: str) -> None:
    if algorithm in MULTI_OBJECTIVE:
        check_combination(TWO, search(algorithm), scheduler("fifo"))
        return
    with pytest.raises(FieldError, match=r"search.algorithm: .*(supports one objective|can't be combined with)"):
        check_combination(TWO, search(algorithm), scheduler("fifo"))


@pytest.mark.parametrize("name", sorted(SCHEDULERS.keys() - {"fifo", "bohb"}))
def test_several_objectives_are_for_trials_that_run_to_their_end(name: str) -> None:
    with pytest.raises(FieldError, match=f"scheduler: {name} compares trials by one metric.*use fifo"):
        check_combination(TWO, search("random"), scheduler(name))


def test_nsga_3_has_a_bounded_number_of_reference_points() -> None:
    check_combination(TWO, search("nsga3", divisions=12), scheduler("fifo"))
    eight = Objective(metric="m", mode="min", others=[Criterion(metric=f"m{i}", mode="min") for i in range(7)])
    check_combination(eight, search("nsga3"), scheduler("fifo"))
    with pytest.raises(FieldError, match=r"search.nsga3.divisions: 7 with 8 objectives makes 3432 .*lower it"):
        check_combination(eight, search("nsga3", divisions=7), scheduler("fifo"))


def test_a_metric_is_optimised_once() -> None:
    with pytest.raises(ValueError, match=r"others\[0\].metric: 'accuracy' is already optimised"):
        Objective(metric="accuracy", mode="max", others=[ONE])
    with pytest.raises(ValueError, match=r"others\[1\].metric: 'm' is already optimised"):
        Objective(metric="accuracy", mode="max", others=[Criterion(metric="m", mode=mode) for mode in ("min", "max")])
