from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Literal

import numpy as np
import pytest

from podtune.api.tuning.search_settings import QmcSettings
from podtune.api.tuning.search_space import Parameter
from podtune.testing.searchers import SearcherConformance, propose
from podtune.testing.spaces import parameters
from podtune.tuning.searchers.base import Searcher
from podtune.tuning.searchers.qmc import QmcSearcher
from podtune.tuning.searchers.spaces.active_space import ActiveSpace

SEQUENCES: tuple[Literal["sobol", "halton"], ...] = ("sobol", "halton")


def qmc(
    space: Sequence[Parameter],
    *constraints: str,
    sequence: Literal["sobol", "halton"] = "sobol",
    scramble: bool = True,
    seed: int = 7,
) -> QmcSearcher:
    return QmcSearcher(ActiveSpace(space, constraints), QmcSettings(sequence=sequence, scramble=scramble), seed)


class TestSobolSearcher(SearcherConformance):
    draws = False

    def make(self, parameters: Sequence[Parameter], *, seed: int = 7, mode: Literal["max", "min"] = "max") -> Searcher:
        return qmc(parameters, seed=seed)


class TestHaltonSearcher(SearcherConformance):
    draws = False

    def make(self, parameters: Sequence[Parameter], *, seed: int = 7, mode: Literal["max", "min"] = "max") -> Searcher:
        return qmc(parameters, seed=seed, sequence="halton")


UNIT = parameters(*({"name": name, "float": {"min": 0, "max": 1}} for name in "xyz"))


def values(searcher: QmcSearcher, count: int) -> Any:
    return np.array([list(propose(searcher, number).values()) for number in range(count)], dtype=float)


@pytest.mark.parametrize("sequence", SEQUENCES)
def test_an_unscrambled_sequence_begins_in_a_corner_and_its_middle(sequence: Literal["sobol", "halton"]) -> None:
    searcher = qmc(UNIT[:2], sequence=sequence, scramble=False)
    expected: dict[str, list[list[float]]] = {
        "sobol": [[0, 0], [0.5, 0.5], [0.75, 0.25]],
        "halton": [[0, 0], [1 / 2, 1 / 3], [1 / 4, 2 / 3]],
    }
    np.testing.assert_allclose(values(searcher, 3), expected[sequence], atol=1e-15)


def test_a_log_scale_is_filled_in_its_logarithm() -> None:
    searcher = qmc(parameters({"name": "x", "float": {"min": 1e-4, "max": 1, "scale": "log"}}))
    logarithms = np.log10(values(searcher, 64)[:, 0])
    assert sorted(np.floor((logarithms + 4) * 16).astype(int)) == list(range(64))


def test_a_choice_comes_up_as_often_as_another() -> None:
    searcher = qmc(parameters({"name": "x", "choice": {"values": list("abcd")}}, {"name": "y", **_UNIT}))
    found = [propose(searcher, number)["x"] for number in range(32)]
    assert [found.count(letter) for letter in "abcd"] == [8] * 4


_UNIT = {"float": {"min": 0, "max": 1}}


def test_a_normal_distribution_is_filled_by_its_quantiles() -> None:
    searcher = qmc(parameters({"name": "x", "normal": {"mean": 3, "stddev": 2}}))
    found = values(searcher, 256)[:, 0]
    assert found.mean() == pytest.approx(3, abs=0.05)
    assert found.std() == pytest.approx(2, abs=0.1)


def test_what_a_constraint_refuses_is_left_out_and_the_rest_stays_the_sequence() -> None:
    whole, halved = qmc(UNIT), qmc(UNIT, "x + y <= 1")
    expected = [point for point in values(whole, 200) if point[0] + point[1] <= 1]
    np.testing.assert_array_equal(values(halved, len(expected)), expected)
    late = halved.ask(50, [])
    assert 90 < int(late.attributes["index"]) < 115


def test_proposals_come_out_the_same_in_any_order() -> None:
    searcher = qmc(UNIT, "x + y <= 1")
    assert searcher.ask(40, []) == qmc(UNIT, "x + y <= 1").ask(40, [])
    assert searcher.ask(3, []) == qmc(UNIT, "x + y <= 1").ask(3, [])


def test_it_fills_a_finite_space_evenly_to_the_end() -> None:
    searcher = qmc(parameters({"name": "x", "int": {"min": 1, "max": 8}}, {"name": "y", "int": {"min": 1, "max": 8}}))
    found = [tuple(propose(searcher, number).values()) for number in range(64)]
    assert len(set(found)) == 64
    assert searcher.ask(64, []) is None
    halves = [(int(x) > 4, int(y) > 4) for x, y in found[:8]]
    assert sorted(halves.count(quarter) for quarter in set(halves)) in ([2, 2, 2, 2], [1, 2, 2, 3])


def test_proposals_are_the_same_on_every_machine_and_version() -> None:
    """A restarted operator may be a newer one; what it proposes again must not change."""
    proposed = [propose(qmc(UNIT, sequence=sequence), 12)["x"] for sequence in SEQUENCES]
    assert proposed == pytest.approx([0.9550569987539324, 0.22374866690756456], rel=1e-12)
