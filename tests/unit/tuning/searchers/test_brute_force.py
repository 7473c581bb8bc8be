from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from itertools import pairwise
from typing import Any, Literal

import pytest

from podtune.api.tuning.search_settings import BruteForceSettings
from podtune.testing.searchers import propose
from podtune.testing.spaces import parameters
from podtune.tuning.searchers.base import Configuration, NoConfiguration, Searcher
from podtune.tuning.searchers.brute_force import BruteForceSearcher
from podtune.tuning.searchers.spaces.active_space import ActiveSpace

WIDE = {"int": {"min": 1, "max": 10**9}}


def brute_force(
    *manifests: dict[str, Any], order: Literal["random", "systematic"] = "random", seed: int = 7
) -> BruteForceSearcher:
    return BruteForceSearcher(ActiveSpace(parameters(*manifests)), BruteForceSettings(order=order), seed)


def everything(searcher: Searcher) -> Sequence[Configuration]:
    found: list[Any] = []
    while (proposed := searcher.ask(len(found), [])) is not None:
        found.append(proposed.configuration)
    return found


@pytest.mark.parametrize("count", [1, 2, 3, 4, 5, 16, 17, 100, 255, 257])
def test_every_value_comes_once_in_an_order_that_depends_on_the_seed(count: int) -> None:
    values = {"name": "x", "int": {"min": 1, "max": count}}
    first, second = ([found["x"] for found in everything(brute_force(values, seed=seed))] for seed in (1, 2))
    assert sorted(map(int, first)) == sorted(map(int, second)) == list(range(1, count + 1))
    assert (first != second) == (count > 3) or count == 3


def test_systematic_is_the_order_of_a_grid() -> None:
    searcher = brute_force(
        {"name": "x", "int": {"min": 1, "max": 2}}, {"name": "y", "choice": {"values": ["a", "b"]}}, order="systematic"
    )
    assert [tuple(found.values()) for found in everything(searcher)] == [(1, "a"), (1, "b"), (2, "a"), (2, "b")]


def test_any_beginning_is_a_sample_of_the_whole() -> None:
    """Each configuration is as likely as any other, however many lie in its branch."""
    manifests = [
        {"name": "branch", "choice": {"values": ["wide", "narrow"]}},
        {"name": "x", "int": {"min": 1, "max": 9}, "when": {"branch": ["wide"]}},
    ]
    firsts = [propose(brute_force(*manifests, seed=seed), 0) for seed in range(1000)]
    assert sum(first["branch"] == "narrow" for first in firsts) == pytest.approx(100, abs=40)
    values = Counter(first["x"] for first in firsts if "x" in first)
    assert min(values.values()) > 60
    assert max(values.values()) < 145


def test_the_order_looks_random() -> None:
    values = [int(found["x"]) for found in everything(brute_force({"name": "x", "int": {"min": 1, "max": 1000}}))]
    rises = sum(a < b for a, b in pairwise(values))
    assert rises == pytest.approx(500, abs=40)
    assert sum(abs(a - b) for a, b in pairwise(values)) / 999 == pytest.approx(333, rel=0.1)


def test_a_space_of_billions_takes_no_memory() -> None:
    searcher = brute_force({"name": "x", **WIDE}, {"name": "y", **WIDE})
    proposals = [tuple(propose(searcher, number).values()) for number in (0, 1, 10**18 - 1)]
    assert len(set(proposals)) == 3
    assert searcher.ask(10**18, []) is None


def test_an_infinite_space_is_refused() -> None:
    with pytest.raises(NoConfiguration, match="brute force needs a finite space; give every float a step"):
        brute_force({"name": "x", "float": {"min": 0, "max": 1}})


def test_a_restarted_operator_goes_on_in_the_same_order() -> None:
    manifest = {"name": "x", "int": {"min": 1, "max": 50}}
    assert everything(brute_force(manifest)) == everything(brute_force(manifest))
    numbers = [20, 3, 49, 0]
    searcher = brute_force(manifest)
    assert [searcher.ask(number, []) for number in numbers] == [
        brute_force(manifest).ask(number, []) for number in numbers
    ]
