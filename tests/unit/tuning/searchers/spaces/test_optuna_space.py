from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from optuna.distributions import BaseDistribution, CategoricalDistribution, FloatDistribution, IntDistribution

from podtune.api.tuning.search_space import LogNormalDomain, NormalDomain, Parameter
from podtune.testing.searchers import propose
from podtune.tuning.domains.normal import share_below
from podtune.tuning.searchers.random import RandomSearcher
from podtune.tuning.searchers.spaces.optuna_space import OptunaSpace
from tests.unit.tuning.manifests import parameters, search_spaces


@pytest.mark.parametrize(
    ("domain", "distribution"),
    [
        ({"float": {"min": -1, "max": 2}}, FloatDistribution(-1, 2)),
        ({"float": {"min": 0.001, "max": 2, "scale": "log"}}, FloatDistribution(0.001, 2, log=True)),
        ({"float": {"min": 0.1, "max": 0.55, "step": 0.1}}, IntDistribution(0, 4)),
        ({"int": {"min": 16, "max": 250, "step": 16}}, IntDistribution(0, 14)),
        ({"int": {"min": 1, "max": 512, "scale": "log"}}, IntDistribution(1, 512, log=True)),
        ({"choice": {"values": [1, 1.0, True]}}, CategoricalDistribution([0, 1, 2])),
    ],
)
def test_distributions(domain: dict[str, Any], distribution: BaseDistribution) -> None:
    assert OptunaSpace(parameters({"name": "x", **domain})).distributions == {"x": distribution}


@pytest.mark.parametrize(
    "domain",
    [
        {"float": {"min": 2, "max": 2}},
        {"float": {"min": 2, "max": 2, "scale": "log"}},
        {"float": {"min": 2, "max": 2.5, "step": 1}},
        {"int": {"min": 2, "max": 3, "step": 2}},
        {"int": {"min": 2, "max": 2, "scale": "log"}},
        {"choice": {"values": [2]}},
    ],
)
def test_a_single_value_is_left_out_of_the_models(domain: dict[str, Any]) -> None:
    space = OptunaSpace(parameters({"name": "x", **domain}))
    assert space.distributions == {}
    assert space.decode({}) == {"x": 2}


@given(space=search_spaces(), number=st.integers(0, 1000))
def test_every_configuration_comes_back_exactly(space: list[Parameter], number: int) -> None:
    configuration = propose(RandomSearcher(space, seed=0), number)
    there = OptunaSpace(space).encode(configuration)
    back = OptunaSpace(space).decode(there)
    assert list(back) == list(configuration)
    for parameter in space:
        value, again = configuration[parameter.name], back[parameter.name]
        if isinstance(parameter.domain, NormalDomain | LogNormalDomain):
            value, again = (share_below(parameter.domain, float(number)) for number in (value, again))
            assert again == pytest.approx(value, abs=1e-9)
        else:
            assert again == value
    assert [type(value) for value in back.values()] == [type(value) for value in configuration.values()]
