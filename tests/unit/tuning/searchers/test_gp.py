from __future__ import annotations

import itertools
import math
from collections.abc import Sequence
from typing import Any, Literal

import numpy as np
import pytest

from podtune.api.tuning.objective import Objective
from podtune.api.tuning.search_settings import GpSettings
from podtune.api.tuning.search_space import Parameter
from podtune.testing.searchers import AskEvent, SearcherConformance, propose, record_run
from podtune.tuning import admission
from podtune.tuning.searchers.base import Configuration, Observation, PendingTrial, Searcher
from podtune.tuning.searchers.gp import GpSearcher, _choose_modelled
from podtune.tuning.searchers.models.expected_improvement import ExpectedImprovement, _log_h, maximize
from podtune.tuning.searchers.models.gaussian_process import GaussianProcess, fit_map
from podtune.tuning.searchers.random import RandomSearcher
from podtune.tuning.searchers.spaces.model_space import ModelSpace
from podtune.tuning.searchers.spaces.optuna_space import OptunaSpace
from tests.unit.tuning.manifests import every_kind, experiment, parameters

UNIT = parameters({"name": "x", "float": {"min": 0, "max": 1}})
BRANIN = parameters({"name": "x", "float": {"min": -5, "max": 10}}, {"name": "y", "float": {"min": 0, "max": 15}})
MIXED = parameters(
    {"name": "x", "float": {"min": 0.001, "max": 1, "scale": "log"}},
    {"name": "units", "int": {"min": 1, "max": 1000}},
    {"name": "depth", "int": {"min": 1, "max": 8}},
    {"name": "kind", "choice": {"values": ["a", "b", "c"]}},
)


def gp(
    space: Sequence[Parameter], *, seed: int = 7, mode: Literal["max", "min"] = "max", **settings: Any
) -> GpSearcher:
    return GpSearcher(space, Objective(metric="accuracy", mode=mode), GpSettings(**settings), seed)


class TestGpSearcher(SearcherConformance):
    def make(self, parameters: Sequence[Parameter], *, seed: int = 7, mode: Literal["max", "min"] = "max") -> Searcher:
        return gp(parameters, seed=seed, mode=mode, startup_trials=3, max_points=10)

    def run(self, seed: int = 0) -> list[AskEvent | Observation]:
        """A short one: each proposal takes a while."""
        return record_run(self.make(every_kind(), seed=seed), seed, trials=14)


def branin(configuration: Configuration) -> float:
    x, y = (float(value) for value in configuration.values())
    bent = y - 5.1 / (4 * math.pi**2) * x**2 + 5 / math.pi * x - 6
    return bent**2 + 10 * (1 - 1 / (8 * math.pi)) * math.cos(x) + 10 - 0.397887


@pytest.mark.parametrize(("mode", "sign"), [("min", 1), ("max", -1)])
def test_it_finds_the_minimum_of_branin_in_thirty_trials(mode: Literal["max", "min"], sign: int) -> None:
    searcher = gp(BRANIN, mode=mode)
    heights = []
    for number in range(30):
        configuration = propose(searcher, number)
        heights.append(branin(configuration))
        searcher.tell(Observation(number, configuration, sign * heights[-1], step=1))
    assert min(heights) < 1e-2


def test_it_finds_the_best_mixture_of_numbers_and_choices() -> None:
    searcher = gp(MIXED, mode="min")
    found = []
    for number in range(60):
        c = propose(searcher, number)
        log_x = math.log10(float(c["x"]))
        off = (log_x + 2) ** 2 + (int(c["units"]) / 100 - 4) ** 2 + (int(c["depth"]) - 3) ** 2 / 9 + (c["kind"] != "b")
        found.append(off)
        searcher.tell(Observation(number, c, off, step=1))
    assert min(found) < 0.02


def test_trials_under_way_are_kept_clear_of() -> None:
    searcher = gp(UNIT, startup_trials=4)
    for number, x in enumerate((0.0, 0.3, 0.5, 1.0)):
        searcher.tell(Observation(number, {"x": x}, -((x - 0.63) ** 2), step=1))
    pending: list[PendingTrial] = []
    for number in range(4, 8):
        pending.append(PendingTrial(number, propose(searcher, number, tuple(pending))))
    unaware = [PendingTrial(number, propose(searcher, number)) for number in range(4, 8)]
    assert least_gap(pending) > 0.003
    assert least_gap(unaware) < 0.0003


def least_gap(trials: Sequence[PendingTrial]) -> float:
    places = sorted(float(trial.configuration["x"]) for trial in trials)
    return min(second - first for first, second in itertools.pairwise(places))


def test_it_is_random_search_until_enough_trials_have_finished_well() -> None:
    searcher, at_random = gp(UNIT, startup_trials=4), RandomSearcher(UNIT, seed=7)
    for number in range(20):
        searcher.tell(Observation(number, {"x": number / 20}, [None, math.nan][number % 2], step=1))
    for number in range(4):
        assert searcher.ask(30, []) == at_random.ask(30, [])
        searcher.tell(Observation(number, {"x": number / 4}, number, step=1))
    assert searcher.ask(30, []) != at_random.ask(30, [])


@pytest.mark.parametrize("values", [[math.inf, -math.inf, 1.0, 2.0], [math.inf] * 4, [3.0] * 4])
def test_infinite_and_equal_values_are_no_obstacle(values: list[float]) -> None:
    searcher = gp(UNIT, startup_trials=3)
    for number, value in enumerate(values):
        searcher.tell(Observation(number, {"x": number / 4}, value, step=1))
    assert 0 <= float(propose(searcher, 9)["x"]) <= 1


def test_of_many_trials_the_best_half_and_the_latest_are_modelled() -> None:
    assert list(_choose_modelled([9.0, 1.0, 8.0, 0.0, 2.0, 3.0], 4)) == [0, 2, 4, 5]
    assert list(_choose_modelled([5.0, 5.0, 5.0, 5.0], 3)) == [0, 2, 3]
    assert list(_choose_modelled([1.0, 2.0], 4)) == [0, 1]


def test_a_proposal_costs_no_more_when_there_are_more_trials_than_it_models() -> None:
    searcher = gp(UNIT, max_points=20)
    for number in range(300):
        searcher.tell(Observation(number, {"x": number / 300}, -abs(number / 300 - 0.7), step=1))
    propose(searcher, 300)
    assert searcher._fitted is not None
    assert len(searcher._fitted[1].points) == 20


def test_the_improvement_that_is_expected_is_right_far_from_the_best_value_too() -> None:
    """log(φ(z) + z·Φ(z)): by the asymptotic series where floats would cancel."""

    def far(z: float) -> float:
        series = 1 - 3 / z**2 + 15 / z**4 - 105 / z**6 + 945 / z**8
        return -(z**2) / 2 - math.log(2 * math.pi) / 2 - 2 * math.log(-z) + math.log(series)

    def near(z: float) -> float:
        return math.log(math.exp(-(z**2) / 2) / math.sqrt(2 * math.pi) + z * math.erfc(-z / math.sqrt(2)) / 2)

    low, high = [-1e6, -2e4, -500.0, -30.0], [-1.0001, -0.9999, 0.0, 3.0, 30.0]
    assert _log_h(np.array(low)) == pytest.approx([far(z) for z in low], rel=1e-10)
    assert _log_h(np.array(high)) == pytest.approx([near(z) for z in high], rel=1e-9)
    assert np.all(np.diff(_log_h(np.linspace(-40, 5, 10_000))) > 0)


def process() -> tuple[GaussianProcess, ModelSpace]:
    model_space = ModelSpace(OptunaSpace(MIXED).distributions)
    random = np.random.default_rng(3)
    points = model_space.draw(random, 25)
    values = np.sin(5 * points[:, 0]) + points[:, 1] ** 2 - (points[:, 3] == 1)
    return fit_map(points, (values - values.mean()) / values.std(), model_space.choices), model_space


def test_gradients_are_those_of_the_values() -> None:
    fitted, model_space = process()
    improvement = ExpectedImprovement(fitted)
    for point in model_space.draw(np.random.default_rng(4), 20):
        value, slope = improvement.evaluate_with_gradient(point)
        assert value == pytest.approx(float(improvement.evaluate(point[None])[0]))
        for axis in range(3):
            step = np.zeros(4)
            step[axis] = 1e-6
            rise = improvement.evaluate(np.array([point + step, point - step])) @ [1, -1] / 2e-6
            assert slope[axis] == pytest.approx(rise, rel=1e-3, abs=1e-4)


def test_the_process_goes_through_what_was_seen_and_knows_less_elsewhere() -> None:
    fitted, model_space = process()
    means, deviations = fitted.predict(fitted.points)
    assert means == pytest.approx(fitted.values, abs=0.05)
    elsewhere = model_space.draw(np.random.default_rng(5), 200)
    assert np.median(fitted.predict(elsewhere)[1]) > 3 * np.median(deviations)


def test_climbing_ends_higher_and_on_places_that_there_are() -> None:
    fitted, model_space = process()
    improvement = ExpectedImprovement(fitted)
    for start in model_space.draw(np.random.default_rng(6), 5):
        reached, point = maximize(improvement, start, model_space.axes)
        assert reached >= float(improvement.evaluate(start[None])[0])
        assert reached == pytest.approx(float(improvement.evaluate(point[None])[0]))
        assert model_space.to_point(model_space.to_params(point)) == pytest.approx(point)


def test_every_kind_of_parameter_comes_back_from_its_point() -> None:
    space = OptunaSpace(every_kind())
    model_space = ModelSpace(space.distributions)
    for number in range(50):
        drawn = RandomSearcher(every_kind(), seed=number).ask(0, [])
        params = space.encode(drawn.configuration)
        assert model_space.to_params(model_space.to_point(params)) == pytest.approx(params)


@pytest.mark.parametrize("installed", [True, False])
def test_without_the_packages_the_spec_is_refused_with_the_image_to_use(
    installed: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(admission, "has_gaussian_processes", lambda: installed)
    assert admission.find_problem(experiment(search={"algorithm": "tpe", "maxTrials": 5})) == ""
    problem = admission.find_problem(experiment(search={"algorithm": "gp", "maxTrials": 5}))
    assert ("image.variant=gp" in problem, "or use tpe" in problem) == (not installed, not installed)
    assert problem.startswith("" if installed else "spec.search.algorithm: gp needs scikit-learn")
