"""Every searcher on spaces with conditions, computed values and constraints: what it may propose, and all of it."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import suppress
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from podtune.api.tuning.search_space import format_value, parse_value
from podtune.tuning.searchers.base import Configuration, NoConfiguration, Observation, PendingTrial, Searcher
from podtune.tuning.searchers.factory import make_searcher
from tests.unit.runner.world.examples import draw
from tests.unit.tuning.manifests import experiment, parameters
from tests.unit.tuning.searchers.whole_spaces import Space, all_configurations, check, whole_spaces

SEARCHES: dict[str, dict[str, Any]] = {
    "random": {"algorithm": "random"},
    "grid": {"algorithm": "grid", "grid": {"points": 3}},
    "sobol": {"algorithm": "qmc"},
    "halton": {"algorithm": "qmc", "qmc": {"sequence": "halton", "scramble": False}},
    "tpe": {"algorithm": "tpe", "tpe": {"startupTrials": 4}},
    "cmaes": {"algorithm": "cmaes"},
}
BRUTE_FORCE: dict[str, dict[str, Any]] = {
    "brute force": {"algorithm": "bruteForce"},
    "systematic brute force": {"algorithm": "bruteForce", "bruteForce": {"order": "systematic"}},
}


def searcher(space: Space, search: dict[str, Any], seed: int = 7) -> Searcher:
    return make_searcher(experiment(**space.fields(), search={**search, "maxTrials": 100, "seed": seed}))


def run(asked: Searcher, trials: int, concurrent: int = 3) -> Sequence[Configuration]:
    """Has trials proposed, several under way at a time; as many as there are."""
    under_way: list[PendingTrial] = []
    proposed = []
    for number in range(trials):
        proposal = asked.ask(number, under_way)
        if proposal is None:
            break
        proposed.append(proposal.configuration)
        under_way.append(PendingTrial(number, proposal.configuration, proposal.attributes))
        if len(under_way) == concurrent:
            ended = under_way.pop(number % concurrent)
            asked.tell(Observation(ended.number, ended.configuration, number % 5, 1, attributes=ended.attributes))
    return proposed


def written(configuration: Configuration) -> tuple[tuple[str, str], ...]:
    return tuple((name, format_value(value)) for name, value in configuration.items())


@pytest.mark.parametrize("name", SEARCHES)
@given(data=st.data())
@settings(max_examples=draw(40), deadline=None, suppress_health_check=list(HealthCheck))
def test_whatever_is_proposed_is_in_the_space(name: str, data: st.DataObject) -> None:
    space = data.draw(whole_spaces(finite=False))
    proposed: Sequence[Configuration] = ()
    with suppress(NoConfiguration):
        proposed = run(searcher(space, SEARCHES[name]), 12)
    for configuration in proposed:
        check(space, configuration)
        by_name = {parameter.name: parameter for parameter in space.parameters}
        again = {key: parse_value(by_name[key], text) for key, text in written(configuration)}
        assert again == configuration
        assert written(again) == written(configuration)


@pytest.mark.parametrize("name", [*SEARCHES, *BRUTE_FORCE])
@given(data=st.data())
@settings(max_examples=12, deadline=None, suppress_health_check=list(HealthCheck))
def test_a_finite_space_is_proposed_to_its_last_configuration_each_once(name: str, data: st.DataObject) -> None:
    space = data.draw(whole_spaces(finite=True))
    expected = sorted(map(written, all_configurations(space)))
    asked = searcher(space, (SEARCHES | BRUTE_FORCE)[name])
    if not expected:
        with pytest.raises(
            NoConfiguration, match=r"no configuration was found in [0-9,]+ tries: in .* relax it, or narrow"
        ):
            asked.ask(0, [])
        return
    found = run(asked, len(expected) + 5)
    assert sorted(map(written, found)) == expected
    assert asked.ask(len(expected), [PendingTrial(i, c) for i, c in enumerate(found)]) is None


@pytest.mark.parametrize("name", SEARCHES)
@given(data=st.data())
@settings(max_examples=10, deadline=None, suppress_health_check=list(HealthCheck))
def test_a_rebuilt_searcher_proposes_the_same(name: str, data: st.DataObject) -> None:
    space = data.draw(whole_spaces(finite=data.draw(st.booleans())))
    uncut = searcher(space, SEARCHES[name])
    observations: list[Observation] = []
    under_way: list[PendingTrial] = []
    try:
        for number in range(10):
            proposed = uncut.ask(number, under_way)
            rebuilt = searcher(space, SEARCHES[name])
            for observation in observations:
                rebuilt.tell(observation)
            assert rebuilt.ask(number, under_way) == proposed
            if proposed is None:
                return
            under_way.append(PendingTrial(number, proposed.configuration, proposed.attributes))
            if number % 2:
                ended = under_way.pop(0)
                observations.append(
                    Observation(ended.number, ended.configuration, number % 3, 1, attributes=ended.attributes)
                )
                uncut.tell(observations[-1])
    except NoConfiguration:
        return


@pytest.mark.parametrize("name", ["random", "sobol", "tpe", "cmaes", "brute force"])
def test_another_seed_proposes_something_else(name: str) -> None:
    space = Space(
        parameters({"name": "x", "int": {"min": 1, "max": 9}}, {"name": "y", "int": {"min": 1, "max": 9}}), []
    )
    first, second = (run(searcher(space, (SEARCHES | BRUTE_FORCE)[name], seed), 6) for seed in (1, 2))
    assert first != second


@pytest.mark.parametrize("name", SEARCHES)
def test_an_interval_too_narrow_for_its_log_scale_is_one_value(name: str) -> None:
    only = {"name": "only", "float": {"min": 1e-09, "max": 1.0000000000000003e-09, "scale": "log"}}
    some = {"name": "some", "float": {"min": 0, "max": 1}}
    proposed = run(searcher(Space(parameters(only, some), []), SEARCHES[name], 1), 10)
    assert all(1e-09 <= float(configuration["only"]) <= 1.0000000000000003e-09 for configuration in proposed)


@pytest.mark.parametrize("scale", ["linear", "log"])
@pytest.mark.parametrize("name", ["random", "tpe", "brute force"])
def test_an_interval_of_one_value_leaves_a_space_finite(name: str, scale: str) -> None:
    only = {"name": "only", "float": {"min": 1, "max": 1, "scale": scale}}
    some = {"name": "some", "choice": {"values": ["a", "b", "c"]}}
    search = {**SEARCHES, **BRUTE_FORCE}[name]
    asked = make_searcher(experiment(parameters=[only, some], search={**search, "maxTrials": 100, "seed": 7}))
    proposed = run(asked, 10)
    assert sorted(str(configuration["some"]) for configuration in proposed) == ["a", "b", "c"]
    assert {configuration["only"] for configuration in proposed} == {1.0}
