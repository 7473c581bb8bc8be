from __future__ import annotations

import math
import random
from collections.abc import Sequence
from typing import Any, Literal

import optuna
import pytest
from optuna.samplers import TPESampler

from podtune.api.tuning.objective import Objective
from podtune.api.tuning.scheduler import BohbSettings
from podtune.api.tuning.search_settings import BohbSearchSettings
from podtune.api.tuning.search_space import Parameter
from podtune.testing.searchers import AskEvent, SearcherConformance
from podtune.tuning.randomness import derive_proposal_seed
from podtune.tuning.searchers.base import Observation, PendingTrial, Proposal, Searcher
from podtune.tuning.searchers.bohb import BohbSearcher
from podtune.tuning.searchers.random import RandomSearcher
from podtune.tuning.searchers.spaces.optuna_space import OptunaSpace
from tests.unit.tuning.manifests import every_kind, parameters
from tests.unit.tuning.searchers.optuna_spaces import of_optuna

UNIT = parameters({"name": "x", "float": {"min": 0, "max": 1}})


def bohb(
    space: Sequence[Parameter],
    *,
    seed: int = 7,
    mode: Literal["max", "min"] = "max",
    max_time: int = 27,
    **settings: Any,
) -> BohbSearcher:
    objective = Objective(metric="accuracy", mode=mode)
    brackets = BohbSettings(max_time=max_time, reduction_factor=3)
    return BohbSearcher(space, objective, BohbSearchSettings(**settings), brackets, seed)


def at_rung(number: int, x: float, value: float, step: int) -> Observation:
    return Observation(number, {"x": x}, value, step, final=False)


class TestBohbSearcher(SearcherConformance):
    """A third of its trials reach the next rung; some fail."""

    def make(self, parameters: Sequence[Parameter], *, seed: int = 7, mode: Literal["max", "min"] = "max") -> Searcher:
        return bohb(parameters, seed=seed, mode=mode, min_points=2, random_fraction=0.2)

    def make_observation(self, number: int, proposed: Proposal, value: float | None) -> Observation:
        return Observation(number, proposed.configuration, value, 3 ** (number % 3), final=False)

    def run(self, seed: int = 0) -> list[AskEvent | Observation]:
        searcher, draw = self.make(every_kind(), seed=seed), random.Random(seed)
        run: list[AskEvent | Observation] = []
        pending: list[PendingTrial] = []

        def tell(trial: PendingTrial, step: int, *, final: bool) -> None:
            value = None if final and draw.random() < 0.3 else draw.random()
            observation = Observation(trial.number, trial.configuration, value, step, final=final)
            run.append(observation)
            searcher.tell(observation)

        for number in range(30):
            proposed = searcher.ask(number, tuple(pending))
            run.append(AskEvent(number, tuple(pending), proposed))
            pending.append(PendingTrial(number, proposed.configuration))
            while len(pending) >= 4:
                place = draw.randrange(len(pending))
                step = 1
                while step <= 27 and draw.random() < 0.5:
                    tell(pending[place], step, final=False)
                    step *= 3
                if draw.random() < 0.7:
                    tell(pending.pop(place), step, final=True)
        return run


class TestBohbSearcherInOrdinaryRuns(SearcherConformance):
    """As the suite runs any searcher that learns from rungs."""

    def make(self, parameters: Sequence[Parameter], *, seed: int = 7, mode: Literal["max", "min"] = "max") -> Searcher:
        return bohb(parameters, seed=seed, mode=mode, min_points=2, random_fraction=0)

    def test_it_hears_of_rungs_before_ends(self) -> None:
        told = [event for event in self.run() if isinstance(event, Observation)]
        assert {observation.step for observation in told if not observation.final} == {1, 3, 9}
        for place, observation in enumerate(told):
            assert not (observation.final and any(later.number == observation.number for later in told[place + 1 :]))


def test_it_is_random_search_while_no_rung_has_enough_values() -> None:
    searcher, at_random = bohb(UNIT, random_fraction=0), RandomSearcher(UNIT, seed=7)
    for number in range(3):
        searcher.tell(at_rung(number, number / 3, number, 1))
        searcher.tell(at_rung(number + 10, number / 3, number, 9))
        assert searcher.ask(20, []) == at_random.ask(20, [])
    searcher.tell(at_rung(3, 0.9, 3, 1))
    assert searcher.ask(20, []) != at_random.ask(20, [])


def share_near(searcher: Searcher, place: float) -> float:
    proposals = [searcher.ask(number, []) for number in range(100, 200)]
    return sum(abs(float(proposed.configuration["x"]) - place) < 0.15 for proposed in proposals if proposed) / 100


def test_it_learns_from_the_highest_rung_with_enough_values() -> None:
    """The lowest rung misleads: what is good there is at 0.2, and at the next one at 0.8."""
    searcher = bohb(UNIT)
    for number in range(30):
        x = number / 29
        searcher.tell(at_rung(number, x, -((x - 0.2) ** 2), 1))
    assert share_near(searcher, 0.2) > 0.6
    for number in range(0, 30, 2):
        x = number / 29
        searcher.tell(at_rung(number, x, -((x - 0.8) ** 2), 3))
    assert share_near(searcher, 0.8) > 0.6
    assert share_near(searcher, 0.2) < 0.3


def test_some_proposals_stay_random() -> None:
    searcher, at_random = bohb(UNIT), RandomSearcher(UNIT, seed=7)
    for number in range(30):
        searcher.tell(at_rung(number, number / 29, number, 1))
    same = sum(searcher.ask(number, []) == at_random.ask(number, []) for number in range(300))
    assert 70 < same < 130


def test_the_model_is_optunas_of_the_trials_at_the_rung() -> None:
    optuna.logging.disable_default_handler()
    space = OptunaSpace(of_optuna())
    searcher, draws = bohb(of_optuna(), random_fraction=0), RandomSearcher(of_optuna(), seed=1)
    study = optuna.create_study(direction="maximize")
    for number in range(40):
        proposed = draws.ask(number, [])
        value = float(proposed.configuration["momentum"])
        searcher.tell(Observation(number, proposed.configuration, value, 3, final=False))
        params = space.encode(proposed.configuration)
        study.add_trial(optuna.trial.create_trial(value=value, params=params, distributions=dict(space.distributions)))
    for number in range(40, 60):
        sampler = TPESampler(n_startup_trials=0, multivariate=True, seed=derive_proposal_seed(7, number, bits=32))
        sampler.infer_relative_search_space = lambda study, trial: dict(space.distributions)
        study.sampler = sampler
        trial = study.ask(dict(space.distributions))
        proposed = searcher.ask(number, [])
        assert proposed.configuration == space.decode(trial.params)
        study.tell(trial, state=optuna.trial.TrialState.FAIL)


def test_trials_that_have_not_reached_the_rung_are_kept_clear_of_and_others_count_once() -> None:
    searcher = bohb(UNIT, random_fraction=0)
    for number in range(30):
        x = number / 29
        searcher.tell(at_rung(number, x, -min(abs(x - 0.2), abs(x - 0.8)), 1))
    crowd = [PendingTrial(number, {"x": 0.8}) for number in range(40, 60)]
    paused = [PendingTrial(number, {"x": number / 29}) for number in range(30)]
    assert searcher.ask(100, crowd) != searcher.ask(100, [])
    assert searcher.ask(100, paused) == searcher.ask(100, [])


def test_the_end_of_a_trial_says_nothing_new() -> None:
    searcher, fresh = bohb(UNIT), bohb(UNIT)
    for number in range(30):
        for each in (searcher, fresh):
            each.tell(at_rung(number, number / 29, number, 1))
        searcher.tell(Observation(number, {"x": number / 29}, 99.0 - number, step=1))
        searcher.tell(Observation(number + 50, {"x": 0.5}, 99.0, step=27))
        searcher.tell(at_rung(number, number / 29, -number, 1))
    assert [searcher.ask(number, []) for number in range(9)] == [fresh.ask(number, []) for number in range(9)]


def test_known_results_count_as_reached_at_the_end() -> None:
    searcher = bohb(UNIT)
    for number in range(30):
        searcher.tell(Observation(number - 30, {"x": number / 29}, -abs(number / 29 - 0.7), step=0))
        searcher.tell(at_rung(number, number / 29, -abs(number / 29 - 0.2), 9))
    assert share_near(searcher, 0.7) > 0.6


def test_rungs_within_half_a_factor_of_each_other_are_one() -> None:
    """With maxTime 100, brackets have rungs at 27 and 81, at 33 and 99."""
    searcher, at_random = bohb(UNIT, max_time=100, random_fraction=0), RandomSearcher(UNIT, seed=7)
    for number, step in enumerate((27, 33, 27)):
        searcher.tell(at_rung(number, number / 5, number, step))
    assert searcher.ask(20, []) == at_random.ask(20, [])
    searcher.tell(at_rung(3, 0.9, 3, 81))
    assert searcher.ask(20, []) == at_random.ask(20, [])
    searcher.tell(at_rung(4, 0.9, 3, 33))
    assert searcher.ask(20, []) != at_random.ask(20, [])


@pytest.mark.parametrize("value", [math.nan, None])
def test_a_rung_without_a_value_is_no_point(value: float | None) -> None:
    searcher, fresh = bohb(UNIT), bohb(UNIT)
    for number in range(30):
        searcher.tell(Observation(number, {"x": 0.5}, value, 1, final=False))
    assert [searcher.ask(number, []) for number in range(9)] == [fresh.ask(number, []) for number in range(9)]
