"""What every searcher has to hold; a test class inherits it and says how one is made.

from podtune.testing.searchers import SearcherConformance

class TestHillClimbing(SearcherConformance):
    def make(self, parameters, *, seed=7, mode="max"):
        return HillClimbing(parameters, seed, mode)
"""

from __future__ import annotations

import math
import random
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Literal

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from podtune.api.tuning.search_space import Parameter, Scalar, format_value, parse_value
from podtune.testing.spaces import every_kind, holds, search_spaces
from podtune.tuning.searchers.base import Observation, PendingTrial, Proposal, Searcher

_INHERITED = [HealthCheck.differing_executors]
"""Each class that inherits a property checks it for its own searcher."""


@dataclass(frozen=True)
class AskEvent:
    """A proposal of a recorded run."""

    number: int
    pending: tuple[PendingTrial, ...]
    proposed: Proposal | None


_RUNS: dict[tuple[type, int], Sequence[AskEvent | Observation]] = {}


class SearcherConformance:
    """The promises of `podtune.tuning.searchers.base.Searcher`."""

    criteria = 1
    """How many values a trial comes to."""
    draws = True
    """Whether it draws its proposals, so that another attempt comes to something else."""

    def make(self, parameters: Sequence[Parameter], *, seed: int = 7, mode: Literal["max", "min"] = "max") -> Searcher:
        """Makes a searcher that has been told nothing.

        Args:
            parameters: The parameters that it chooses values for.
            seed: The experiment's seed.
            mode: Whether more or less of the objective is better.
        """
        raise NotImplementedError

    def make_observation(self, number: int, proposed: Proposal, value: float | None) -> Observation:
        """A finished trial."""
        others = (0.5,) * (self.criteria - 1)
        return Observation(number, proposed.configuration, value, 1, others, attributes=proposed.attributes)

    def run(self, seed: int = 0) -> list[AskEvent | Observation]:
        """A recorded run."""
        return record_run(self.make(every_kind(), seed=seed), seed, others=self.criteria - 1)

    def _find_run(self, seed: int = 0) -> Sequence[AskEvent | Observation]:
        """The recorded run of a seed, which all tests of the class share: proposals may take a while."""
        if (type(self), seed) not in _RUNS:
            _RUNS[type(self), seed] = self.run(seed)
        return _RUNS[type(self), seed]

    @given(parameters=search_spaces(), seed=st.integers(0, 2**32 - 1), number=st.integers(0, 10_000))
    @settings(max_examples=50, deadline=None, suppress_health_check=_INHERITED)
    def test_proposes_values_of_the_domains_in_the_manifests_order(
        self, parameters: list[Parameter], seed: int, number: int
    ) -> None:
        """Exactly those that the manifest says, in its types."""
        searcher = self.make(parameters, seed=seed)
        for asked in (*range(5), number):
            proposed = searcher.ask(asked, [])
            if proposed is not None:
                assert list(proposed.configuration) == [parameter.name for parameter in parameters]
                for parameter in parameters:
                    assert holds(parameter, proposed.configuration[parameter.name]), (parameter, proposed)
                searcher.tell(self.make_observation(asked, proposed, float(asked)))

    def test_a_rebuilt_searcher_goes_on_as_the_uncut_one(self) -> None:
        """At every proposal of runs with failures and several trials at a time."""
        for seed in range(3):
            observations: list[Observation] = []
            for event in self._find_run(seed):
                if isinstance(event, Observation):
                    observations.append(event)
                    continue
                rebuilt = self.make(every_kind(), seed=seed)
                for observation in observations:
                    rebuilt.tell(reread(observation))
                assert rebuilt.ask(event.number, event.pending) == event.proposed

    def test_asking_leaves_no_trace(self) -> None:
        """Proposals that are asked for twice, or thrown away, change nothing later."""
        wavering = self.make(every_kind(), seed=0)
        for event in self._find_run():
            if isinstance(event, Observation):
                wavering.tell(event)
                continue
            wavering.ask(event.number + 5, event.pending)
            wavering.ask(event.number, [])
            wavering.ask(event.number, event.pending)
            assert wavering.ask(event.number, event.pending) == event.proposed

    def test_another_attempt_proposes_something_else(self) -> None:
        """What a constraint refuses is not proposed for ever."""
        for event in self._find_run() if self.draws else ():
            if isinstance(event, AskEvent) and event.number % 10 == 9:
                searcher = self._replay_until(event)
                attempts = [searcher.ask(event.number, event.pending, attempt) for attempt in range(5)]
                assert attempts[0] == event.proposed
                assert len({str(proposed) for proposed in attempts}) > 1
                assert attempts == [searcher.ask(event.number, event.pending, attempt) for attempt in range(5)]

    def test_what_it_is_given_stays_as_it_was(self) -> None:
        """Neither a told configuration nor an unfinished one is changed."""
        searcher = self.make(every_kind())
        first = searcher.ask(0, [])
        assert first is not None
        configuration = dict(first.configuration)
        before = dict(configuration)
        searcher.tell(Observation(0, configuration, 0.5, 3))
        searcher.ask(1, [PendingTrial(1, configuration)])
        assert configuration == before

    def test_failures_alone_are_no_obstacle(self) -> None:
        """Trials without a value, or with NaN, tell nothing."""
        searcher = self.make(every_kind())
        for number in range(15):
            proposed = searcher.ask(number, [])
            assert proposed is not None
            searcher.tell(Observation(number, proposed.configuration, None if number % 2 else math.nan, 0))
        assert searcher.ask(15, []) is not None

    def test_values_before_the_end_are_no_obstacle(self) -> None:
        """A searcher that learns from rungs or results is told of trials that are under way, may fail or never end."""
        searcher = self.make(every_kind())
        if not (searcher.learns_from_rungs or searcher.learns_from_results):
            pytest.skip("it is told of the ends of trials alone")
        pending: list[PendingTrial] = []
        for number in range(20):
            proposed = searcher.ask(number, tuple(pending))
            assert proposed is not None
            pending.append(PendingTrial(number, proposed.configuration, proposed.attributes))
            at_rung = replace(self.make_observation(number, proposed, number % 7), step=1, final=False)
            searcher.tell(at_rung)
            if number % 3:
                searcher.tell(replace(at_rung, value=math.nan, step=3))
                searcher.tell(replace(at_rung, value=None, step=3, final=True))
                pending.pop()
        assert searcher.ask(20, tuple(pending)) is not None

    def test_values_that_a_condition_leaves_out_are_no_obstacle(self) -> None:
        """A searcher that doesn't see inactive parameters is told configurations without them."""
        searcher = self.make(every_kind())
        if searcher.sees_inactive:
            pytest.skip("it is told what it had drawn for them")
        for number in range(20):
            proposed = searcher.ask(number, [])
            assert proposed is not None
            assert list(proposed.configuration) == [parameter.name for parameter in every_kind()]
            left_out = ("momentum", "activation") if number % 3 else ("hidden_units",)
            rest = {name: value for name, value in proposed.configuration.items() if name not in left_out}
            searcher.ask(number + 1, [PendingTrial(number, rest, proposed.attributes)])
            searcher.tell(self.make_observation(number, replace(proposed, configuration=rest), number % 7))

    def _replay_until(self, asked: AskEvent) -> Searcher:
        """A searcher that knows what the recorded run knew when it asked."""
        searcher = self.make(every_kind(), seed=0)
        for event in self._find_run():
            if event == asked:
                break
            if isinstance(event, Observation):
                searcher.tell(event)
        return searcher


def propose(searcher: Searcher, number: int, pending: Sequence[PendingTrial] = ()) -> dict[str, Scalar]:
    """The configuration that a searcher proposes, which is to have one."""
    proposed = searcher.ask(number, pending)
    assert proposed is not None
    return dict(proposed.configuration)


def record_run(
    searcher: Searcher, seed: int = 0, *, trials: int = 30, concurrent: int = 4, others: int = 0
) -> list[AskEvent | Observation]:
    """Tunes something made up: several trials at a time, some of which fail.

    A searcher that learns from rungs is told of values at milestones 1, 3 and 9 too, of some trials of none; one that
    learns from results, of the first of them.
    """
    draw = random.Random(seed)
    run: list[AskEvent | Observation] = []
    pending: list[PendingTrial] = []
    for number in range(trials):
        proposed = searcher.ask(number, tuple(pending))
        run.append(AskEvent(number, tuple(pending), proposed))
        if proposed is not None:
            pending.append(PendingTrial(number, proposed.configuration, proposed.attributes))
        while len(pending) >= concurrent or (pending and draw.random() < 0.3):
            ended = pending.pop(draw.randrange(len(pending)))
            value = None if draw.random() < 0.15 else draw.random()
            step = draw.randrange(1, 9)
            further = tuple(draw.random() for _ in range(others))
            end = Observation(ended.number, ended.configuration, value, step, further, attributes=ended.attributes)
            rungs: Sequence[int] = (1, 3, 9)[: draw.randrange(4)] if searcher.learns_from_rungs else ()
            if searcher.learns_from_results:
                rungs = range(1, 1 + draw.randrange(9))
            for observation in (*(replace(end, value=draw.random(), step=rung, final=False) for rung in rungs), end):
                run.append(observation)
                searcher.tell(observation)
    return run


def reread(observation: Observation) -> Observation:
    """The same tell, as it comes back from the text in a Trial."""
    by_name = {parameter.name: parameter for parameter in every_kind()}
    configuration = {
        name: parse_value(by_name[name], format_value(value)) for name, value in observation.configuration.items()
    }
    return replace(observation, configuration=configuration)
