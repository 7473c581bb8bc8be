from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any, Literal

import optuna
import pytest
from optuna.distributions import BaseDistribution
from optuna.samplers import CmaEsSampler

from podtune.api.tuning.objective import Objective
from podtune.api.tuning.search_settings import CmaEsSettings
from podtune.api.tuning.search_space import Parameter
from podtune.testing.searchers import SearcherConformance, record_run
from podtune.tuning.randomness import derive_proposal_seed
from podtune.tuning.searchers.base import Configuration, Observation, Proposal, Searcher
from podtune.tuning.searchers.cmaes import CmaEsSearcher
from podtune.tuning.searchers.spaces.optuna_space import OptunaSpace
from tests.unit.tuning.manifests import parameters
from tests.unit.tuning.searchers.optuna_spaces import of_optuna

NUMBERS = [parameter for parameter in of_optuna() if parameter.choice is None]
SQUARE = parameters({"name": "x", "float": {"min": -3, "max": 5}}, {"name": "y", "float": {"min": -3, "max": 5}})


def cmaes(
    space: Sequence[Parameter], *, seed: int = 7, mode: Literal["max", "min"] = "max", **settings: Any
) -> CmaEsSearcher:
    return CmaEsSearcher(space, Objective(metric="accuracy", mode=mode), CmaEsSettings(**settings), seed)


class TestCmaEsSearcher(SearcherConformance):
    def make(self, parameters: Sequence[Parameter], *, seed: int = 7, mode: Literal["max", "min"] = "max") -> Searcher:
        return cmaes(parameters, seed=seed, mode=mode, population_size=4)


def ask(searcher: Searcher, number: int) -> Proposal:
    proposed = searcher.ask(number, [])
    assert proposed is not None
    return proposed


def observation(searcher: Searcher, number: int, proposed: Proposal, value: float | None) -> None:
    searcher.tell(Observation(number, proposed.configuration, value, step=1, attributes=proposed.attributes))


class FixedSpaceCmaEs(CmaEsSampler):
    """Optuna's own, with a known space and the seeds that a searcher has."""

    def __init__(self, space: Mapping[str, BaseDistribution], number: int) -> None:
        super().__init__(n_startup_trials=0, warn_independent_sampling=False)
        self.space = dict(space)
        self.number = number
        self._cma_rng: Any = self

    @property
    def rng(self) -> FixedSpaceCmaEs:
        return self

    def randint(self, low: int, high: int) -> int:
        """Optuna adds the trial's number."""
        return derive_proposal_seed(7, self.number, bits=32) - self.number if high == 2**16 else 1

    def infer_relative_search_space(self, study: Any, trial: Any) -> dict[str, BaseDistribution]:
        return self.space


@pytest.mark.parametrize("mode", ["max", "min"])
def test_one_trial_at_a_time_proposes_what_plain_optuna_does(mode: Literal["max", "min"]) -> None:
    optuna.logging.disable_default_handler()
    space = OptunaSpace(NUMBERS)
    study = optuna.create_study(direction="maximize" if mode == "max" else "minimize")
    searcher = cmaes(NUMBERS, mode=mode)
    for number in range(60):
        study.sampler = FixedSpaceCmaEs(space.distributions, number)
        trial = study.ask(dict(space.distributions))
        proposed = ask(searcher, number)
        # Optuna pickles the optimizer between two trials, which costs the covariances their last bits.
        assert proposed.configuration == pytest.approx(space.decode(trial.params), rel=1e-9)

        value = None if number % 7 == 3 else badness(proposed.configuration)
        observation(searcher, number, proposed, value)
        if value is None:
            study.tell(trial, state=optuna.trial.TrialState.FAIL)
        else:
            study.tell(trial, value)
    assert proposed.attributes == {"generation": "6"}


def badness(configuration: Configuration) -> float:
    return float(configuration["momentum"]) ** 2 + float(configuration["dropout"])


@pytest.mark.parametrize(("mode", "sign"), [("max", -1), ("min", 1)])
def test_it_finds_the_bottom_of_a_bowl(mode: Literal["max", "min"], sign: int) -> None:
    searcher = cmaes(SQUARE, mode=mode)
    best = math.inf
    for number in range(150):
        proposed = ask(searcher, number)
        x, y = (float(value) for value in proposed.configuration.values())
        height = (x - 1) ** 2 + 10 * (y + 1) ** 2
        best = min(best, height)
        observation(searcher, number, proposed, sign * height)
    assert best < 1e-4


def test_choices_are_drawn_at_random_whatever_comes_of_them() -> None:
    searcher = cmaes(parameters({"name": "x", "float": {"min": 0, "max": 1}}, CHOICE))
    seen = []
    for number in range(300):
        proposed = ask(searcher, number)
        seen.append(proposed.configuration["kind"])
        observation(searcher, number, proposed, 1.0 if seen[-1] == "good" else 0.0)
    assert 70 < seen.count("good") < 130


CHOICE = {"name": "kind", "choice": {"values": ["good", "bad", "worse"]}}


def test_a_space_of_choices_alone_is_drawn_at_random() -> None:
    searcher = cmaes(parameters(CHOICE))
    for number in range(20):
        proposed = ask(searcher, number)
        assert not proposed.attributes
        observation(searcher, number, proposed, 1.0)
    assert len({str(ask(searcher, number)) for number in range(20)}) == 3


def test_trials_that_finish_after_their_generation_change_nothing() -> None:
    searcher, punctual = cmaes(SQUARE, population_size=4), cmaes(SQUARE, population_size=4)
    first = [ask(searcher, number) for number in range(6)]
    for number, proposed in enumerate(first):
        observation(searcher, number, proposed, float(number))
        if number < 4:
            observation(punctual, number, proposed, float(number))
    assert ask(searcher, 6) == ask(punctual, 6)


def test_a_deleted_trial_costs_one_trial_not_the_generations_that_followed() -> None:
    """Its generation is completed by one more; the others are still known."""
    observations = [event for event in record_run(cmaes(SQUARE, population_size=4)) if isinstance(event, Observation)]
    generations = [int(observation.attributes["generation"]) for observation in observations]
    deleted = next(observation for observation in observations if observation.value is not None)
    rebuilt = cmaes(SQUARE, population_size=4)
    for known in observations:
        if known is not deleted:
            rebuilt.tell(known)
    proposed = ask(rebuilt, 30)
    assert max(generations) > 2
    while proposed.attributes["generation"] == "0":
        observation(rebuilt, 30, proposed, 0.5)
        proposed = ask(rebuilt, 31)
    assert int(proposed.attributes["generation"]) >= max(generations) - 1


def known(searcher: Searcher, *points: tuple[float, float]) -> None:
    for number, (x, y) in enumerate(points):
        searcher.tell(Observation(number, {"x": x, "y": y}, -((x - 4) ** 2) - (y - 4) ** 2, step=1))


def mean_of(searcher: Searcher) -> tuple[float, float]:
    drawn = [ask(searcher, number).configuration for number in range(200)]
    return tuple(sum(float(point[name]) for point in drawn) / len(drawn) for name in ("x", "y"))  # type: ignore[return-value]


def test_the_start_is_in_the_middle_or_at_the_best_known_result() -> None:
    searcher = cmaes(SQUARE)
    assert mean_of(searcher) == pytest.approx((1, 1), abs=0.3)
    known(searcher, (-2, 0), (2, 3), (-3, -3))
    assert mean_of(searcher) == pytest.approx((2, 3), abs=0.4)


def test_many_known_results_give_the_start_a_shape() -> None:
    searcher = cmaes(SQUARE)
    known(searcher, *((x / 2, y / 2) for x in range(-6, 11) for y in range(-6, 11)))
    drawn = [ask(searcher, number).configuration for number in range(200)]
    assert mean_of(searcher) == pytest.approx((4, 4), abs=0.5)
    assert sum(float(point["x"]) > 2 for point in drawn) > 190


def test_known_results_come_too_late_after_the_first_generation() -> None:
    searcher = cmaes(SQUARE, population_size=4)
    for number in range(4):
        observation(searcher, number, ask(searcher, number), float(number))
    before = ask(searcher, 9)
    known(searcher, (2, 3))
    assert ask(searcher, 9) == before
