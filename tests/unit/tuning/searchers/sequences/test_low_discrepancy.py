from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from random import Random

import numpy as np
import pytest
from scipy.stats import qmc

from podtune.api.resources.experiment import ExperimentSpec
from podtune.tuning.searchers.sequences.low_discrepancy import MAX_DIMENSIONS, Halton, Sobol, UnitSequence

KINDS = [Sobol, Halton]


def points(sequence: UnitSequence, count: int, start: int = 0) -> list[Sequence[float]]:
    return [sequence.compute_point(index) for index in range(start, start + count)]


def test_there_is_a_dimension_for_every_parameter_that_an_experiment_can_have() -> None:
    assert len(Halton(64).compute_point(3)) == len(Sobol(64).compute_point(3)) == 64


def test_sobols_sequence_is_scipys() -> None:
    with pytest.warns(UserWarning, match="balance properties"):
        expected = qmc.Sobol(d=64, scramble=False).random(3000)
    np.testing.assert_array_equal(points(Sobol(64), 3000), expected)


def test_haltons_sequence_is_scipys() -> None:
    expected = qmc.Halton(d=64, scramble=False).random(3000)
    np.testing.assert_allclose(points(Halton(64), 3000), expected, rtol=0, atol=1e-14)


def test_points_far_out_are_scipys_too() -> None:
    sampler = qmc.Sobol(d=5, scramble=False).fast_forward(1_000_000)
    np.testing.assert_array_equal(points(Sobol(5), 8, 1_000_000), sampler.random(8))


@pytest.mark.parametrize("kind", KINDS)
def test_a_scrambled_sequence_depends_on_its_seed_alone(kind: type[Sobol | Halton]) -> None:
    sequence = kind(9, Random(1))
    backwards = [sequence.compute_point(index) for index in reversed(range(50))]
    assert points(kind(9, Random(1)), 50) == backwards[::-1]
    assert points(kind(9, Random(2)), 50) != backwards[::-1]


@pytest.mark.parametrize("seed", range(5))
def test_every_axis_of_a_scrambled_sobol_sequence_has_a_point_in_each_part(seed: int) -> None:
    """Any 2^k points from a multiple of 2^k on."""
    array = np.array(points(Sobol(64, Random(seed)), 256, start=512))
    for axis in array.T:
        assert sorted((axis * 256).astype(int)) == list(range(256))


def test_two_axes_of_a_scrambled_sobol_sequence_are_a_net() -> None:
    """The first two dimensions are a (0, 2)-sequence: each of 2^k boxes of equal sides has one of 2^k points."""
    array = np.array(points(Sobol(2, Random(3)), 64))
    for split in range(7):
        boxes = Counter(map(tuple, (array * [2**split, 2 ** (6 - split)]).astype(int)))
        assert set(boxes.values()) == {1}
        assert len(boxes) == 64


@pytest.mark.parametrize("seed", range(3))
def test_every_axis_of_a_scrambled_halton_sequence_has_a_point_in_each_part(seed: int) -> None:
    """Any b^k points in a row have one in each of as many parts, where b is the axis' base."""
    array = np.array(points(Halton(8, Random(seed)), 625, start=17))
    for dimension, base in ((0, 2), (1, 3), (2, 5), (7, 19)):
        parts = max(base**power for power in range(1, 10) if base**power <= 625)
        assert sorted((array[:parts, dimension] * parts).astype(int)) == list(range(parts))


@pytest.mark.parametrize("kind", KINDS)
def test_a_scrambled_point_is_uniform_over_seeds(kind: type[Sobol | Halton]) -> None:
    firsts = np.array([kind(3, Random(seed)).compute_point(0) for seed in range(1000)])
    assert 0 <= firsts.min() < firsts.max() < 1
    for axis in firsts.T:
        quarters = Counter((axis * 4).astype(int))
        assert min(quarters.values()) > 190  # of 250 expected; four standard deviations are 55
    assert abs(np.corrcoef(firsts.T) - np.eye(3)).max() < 0.13


@pytest.mark.parametrize("kind", KINDS)
def test_they_fill_the_cube_more_evenly_than_random_points(kind: type[Sobol | Halton]) -> None:
    random = Random(5)
    at_random = qmc.discrepancy([[random.random() for _ in range(6)] for _ in range(512)])
    evenly = qmc.discrepancy(points(kind(6, Random(5)), 512))
    assert evenly < at_random / 4


def test_the_model_allows_no_more_parameters_than_there_are_dimensions() -> None:
    schema = ExperimentSpec.model_json_schema()["properties"]["parameters"]
    assert schema["maxItems"] == MAX_DIMENSIONS
