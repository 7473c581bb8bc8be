from __future__ import annotations

import math
from collections import Counter
from collections.abc import Sequence
from typing import Any, Literal

import pytest

from podtune.api.tuning.search_space import Parameter, Scalar
from podtune.testing.searchers import SearcherConformance, propose
from podtune.tuning.searchers.base import Searcher
from podtune.tuning.searchers.random import RandomSearcher
from tests.unit.tuning.manifests import parameters


class TestRandomSearcher(SearcherConformance):
    def make(self, parameters: Sequence[Parameter], *, seed: int = 7, mode: Literal["max", "min"] = "max") -> Searcher:
        return RandomSearcher(parameters, seed)


def draws(domain: dict[str, Any], count: int = 2000, seed: int = 0) -> list[Any]:
    searcher = RandomSearcher(parameters({"name": "x", **domain}), seed)
    return [propose(searcher, number)["x"] for number in range(count)]


@pytest.mark.parametrize(
    ("domain", "values"),
    [
        ({"choice": {"values": ["a", "b", "c", "d"]}}, ["a", "b", "c", "d"]),
        ({"int": {"min": 3, "max": 12, "step": 3}}, [3, 6, 9, 12]),
        ({"int": {"min": 3, "max": 14, "step": 3}}, [3, 6, 9, 12]),
        ({"float": {"min": 0.1, "max": 0.4, "step": 0.1}}, [0.1, 0.2, 0.3, 0.4]),
    ],
)
def test_finite_values_are_equally_likely(domain: dict[str, Any], values: list[Scalar]) -> None:
    counts = Counter(draws(domain))

    assert sorted(counts, key=values.index) == values
    assert min(counts.values()) > 430  # of 500 expected; three standard deviations are 58
    assert max(counts.values()) < 570


def test_a_linear_float_is_uniform_between_its_ends() -> None:
    assert_uniform([(value + 2) / 5 for value in draws({"float": {"min": -2, "max": 3}})])


def test_a_log_float_is_uniform_in_its_logarithm() -> None:
    values = draws({"float": {"min": 1e-5, "max": 1e-1, "scale": "log"}})
    assert_uniform([(math.log10(value) + 5) / 4 for value in values])


def test_a_log_integer_favours_no_end() -> None:
    counts = Counter(draws({"int": {"min": 1, "max": 3, "scale": "log"}}, count=6000))
    expected = {1: math.log(3), 2: math.log(5 / 3), 3: math.log(7 / 5)}  # widths of [0.5, 1.5], [1.5, 2.5], [2.5, 3.5]
    total = sum(expected.values())
    for value, width in expected.items():
        assert counts[value] == pytest.approx(6000 * width / total, abs=120)


def test_the_widest_floats_do_not_overflow() -> None:
    assert_uniform([(value / 1.7e308 + 1) / 2 for value in draws({"float": {"min": -1.7e308, "max": 1.7e308}})])


def test_another_seed_and_another_number_draw_something_else() -> None:
    domain = {"float": {"min": 0, "max": 1}}
    assert len({*draws(domain, 500, seed=1), *draws(domain, 500, seed=2)}) == 1000


def test_proposals_are_the_same_on_every_machine_and_version() -> None:
    """A restarted operator may be a newer one; what it proposes again must not change."""
    searcher = RandomSearcher(
        parameters(
            {"name": "lr", "float": {"min": 0.0001, "max": 0.1, "scale": "log"}},
            {"name": "units", "int": {"min": 16, "max": 256, "step": 16}},
            {"name": "activation", "choice": {"values": ["relu", "tanh"]}},
        ),
        seed=7,
    )
    assert propose(searcher, 12) == {"lr": pytest.approx(0.007223631088492777), "units": 240, "activation": "relu"}


def assert_uniform(shares: list[float]) -> None:
    """Kolmogorov and Smirnov's test, at a level of about 1 in 1000."""
    shares = sorted(shares)
    distance = max(
        max(abs(share - place / len(shares)), abs(share - (place + 1) / len(shares)))
        for place, share in enumerate(shares)
    )
    assert distance < 1.95 / math.sqrt(len(shares))
