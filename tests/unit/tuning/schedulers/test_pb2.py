from __future__ import annotations

import math
import random
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, ClassVar, Literal

import pytest

from podtune.testing.schedulers import SchedulerConformance
from podtune.tuning.schedulers import pb2
from podtune.tuning.schedulers.base import RecordError, Scheduler
from podtune.tuning.schedulers.factory import make_scheduler
from podtune.tuning.schedulers.population.explore import RankedPerformance
from podtune.tuning.schedulers.population.gain_log import Gain
from podtune.tuning.searchers.base import Configuration
from tests.unit.tuning.manifests import experiment

Mode = Literal["max", "min"]
PARAMETERS: list[dict[str, Any]] = [
    {"name": "lr", "float": {"min": 0.0001, "max": 1.0, "scale": "log"}},
    {"name": "units", "int": {"min": 8, "max": 256, "step": 8}},
    {"name": "optimizer", "choice": {"values": ["adam", "sgd", "rmsprop"]}},
]
START: Configuration = {"lr": 0.3, "units": 128, "optimizer": "sgd"}


def population(
    size: int = 4, *, seed: int = 7, mode: Mode = "max", parameters: list[dict[str, Any]] = PARAMETERS, **settings: Any
) -> Scheduler:
    return make_scheduler(
        experiment(
            objective={"metric": "accuracy", "mode": mode},
            parameters=parameters,
            search={"algorithm": "random", "maxTrials": size, "seed": seed},
            scheduler={"pb2": {"timeAttribute": "epoch", "interval": 1, **settings}},
            checkpoints={"store": {"bucket": "some-bucket"}},
        )
    )


class Nearest:
    """A model that takes no time: of a point, it knows the gain of the nearest one."""

    def __init__(self, gains: Sequence[Gain], interval: float) -> None:
        self._gains = gains

    def upper_confidence_bound(
        self, pending: Sequence[Sequence[float]], time: float
    ) -> Callable[[Sequence[Sequence[float]]], list[float]]:
        return lambda points: [self._nearest(point).rate + len(pending) * time * point[0] for point in points]

    def _nearest(self, point: Sequence[float]) -> Gain:
        return min(self._gains, key=lambda gain: math.dist(gain.point, point))


@pytest.fixture(scope="class")
def _model_of_no_cost() -> Iterator[None]:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(pb2, "_import_model", lambda: Nearest)
        patch.setattr(pb2, "AT_RANDOM", 5)
        patch.setattr(pb2, "NEARBY", 2)
        yield


@pytest.mark.usefixtures("_model_of_no_cost")
class PopulationConformance(SchedulerConformance):
    settings: ClassVar[Mapping[str, Any]]

    def make(self, *, seed: int = 7, mode: Mode = "max") -> Scheduler:
        return population(15, seed=seed, mode=mode, **self.settings)

    def configuration(self, trial: int) -> Configuration:
        return {"lr": 0.01, "units": 8 * (1 + trial), "optimizer": "sgd"}


class TestAsynchronous(PopulationConformance):
    settings: ClassVar = {"interval": 3}


class TestSynchronous(PopulationConformance):
    settings: ClassVar = {"interval": 4, "synchronous": True}


class Training:
    """A population whose trials gain most at a learning rate of 0.01, less the farther they are from it."""

    def __init__(self, scheduler: Scheduler, configurations: list[dict[str, Any]], seed: int = 0) -> None:
        self.scheduler = scheduler
        self.configurations: list[Configuration] = list(configurations)
        self._draw = random.Random(seed)
        self._scores = [0.0] * len(configurations)
        self._epochs = [0] * len(configurations)
        self.chosen: list[Configuration] = []
        for trial, configuration in enumerate(configurations):
            scheduler.on_trial_add(trial, configuration)
        scheduler.on_search_over()

    def go_on(self, epochs: int, sign: float = 1.0) -> None:
        for _ in range(epochs):
            for trial in range(len(self.configurations)):
                self._epoch(trial, sign)

    def _epoch(self, trial: int, sign: float) -> None:
        distance = math.log10(float(self.configurations[trial]["lr"])) + 2
        self._scores[trial] += math.exp(-(distance**2)) + self._draw.gauss(0, 0.01)
        self._epochs[trial] += 1
        metrics = {"epoch": self._epochs[trial], "accuracy": sign * self._scores[trial]}
        exploit = self.scheduler.on_result(trial, metrics).exploit
        if exploit is not None:
            self.chosen.append(exploit.configuration)
            self.configurations[trial] = exploit.configuration
            self._scores[trial] = self._scores[exploit.donor]
            self._epochs[trial] = self._epochs[exploit.donor]
            self.scheduler.on_configuration(trial, exploit.configuration)


def spread(size: int = 8, seed: int = 0) -> list[dict[str, Any]]:
    draw = random.Random(seed)
    return [{**START, "lr": 10 ** draw.uniform(-4, 0)} for _ in range(size)]


class TestChoice:
    @staticmethod
    def _clones(scheduler: Scheduler) -> Iterator[object]:
        """What the trials that a barrier has paused are started as, one after the other."""
        waiting = list(range(8))
        while waiting and (start := scheduler.choose(waiting)) is not None:
            waiting.remove(start.trial)
            yield start.exploit

    @pytest.mark.parametrize("mode", ["max", "min"])
    def test_moves_to_where_most_is_gained(self, mode: Mode) -> None:
        parameters = [{"name": "lr", "float": {"min": 0.0001, "max": 1.0, "scale": "log"}}]
        training = Training(population(8, mode=mode, parameters=parameters), [{"lr": c["lr"]} for c in spread()])
        training.go_on(12, sign=1.0 if mode == "max" else -1.0)
        latest = [abs(math.log10(float(configuration["lr"])) + 2) for configuration in training.chosen[-8:]]
        assert sorted(latest)[len(latest) // 2] < 0.5  # of four decades, one around the best

    def test_stays_within_the_bounds_and_on_the_grid(self) -> None:
        training = Training(population(8), spread())
        training.go_on(8)
        assert len(training.chosen) > 5
        for configuration in training.chosen:
            assert list(configuration) == ["lr", "units", "optimizer"]
            assert 0.0001 <= float(configuration["lr"]) <= 1.0
            assert type(configuration["units"]) is int
            assert configuration["units"] in range(8, 257, 8)
            assert configuration["optimizer"] in ("adam", "sgd", "rmsprop")

    def test_without_anything_to_learn_from_numbers_are_changed_a_little(self) -> None:
        scheduler = population(2)
        for trial in range(2):
            scheduler.on_trial_add(trial, START)
        scheduler.on_result(1, {"epoch": 1, "accuracy": 0.5})
        scheduler.on_result(0, {"epoch": 1, "accuracy": 0.9})
        exploit = scheduler.on_result(1, {"epoch": 2, "accuracy": 0.1}).exploit
        assert exploit is not None
        assert exploit.configuration["lr"] in (0.3 * 0.8, 0.3 * 1.2)
        assert exploit.configuration["units"] in (104, 152)

    def test_nobody_is_cloned_before_the_burn_in_is_over(self) -> None:
        training = Training(population(8, burnIn=5), spread())
        training.go_on(4)
        assert training.chosen == []
        training.go_on(1)
        assert training.chosen

    @pytest.mark.parametrize(("quantile", "clones"), [(0.125, 1), (0.25, 2), (0.5, 4)])
    def test_the_quantile_says_how_many_are_replaced(self, quantile: float, clones: int) -> None:
        scheduler = population(8, quantile=quantile, synchronous=True)
        for trial in range(8):
            scheduler.on_trial_add(trial, START)
        scheduler.on_search_over()
        for trial in range(8):
            scheduler.on_result(trial, {"epoch": 1, "accuracy": trial / 8})
        assert sum(clone is not None for clone in self._clones(scheduler)) == clones

    @pytest.mark.parametrize(("probability", "found"), [(0.0, {"sgd"}), (1.0, {"sgd", "rmsprop"})])
    def test_choices_are_drawn_anew_as_often_as_the_resample_probability_says(
        self, probability: float, found: set[str]
    ) -> None:
        """Else they move to a neighbour in the list: of the first value that is the second one, or itself."""
        chosen = set()
        for seed in range(20):
            scheduler = population(2, seed=seed, resampleProbability=probability)
            for trial in range(2):
                scheduler.on_trial_add(trial, {**START, "optimizer": "adam"})
            scheduler.on_result(1, {"epoch": 1, "accuracy": 0.5})
            scheduler.on_result(0, {"epoch": 1, "accuracy": 0.9})
            exploit = scheduler.on_result(1, {"epoch": 2, "accuracy": 0.1}).exploit
            assert exploit is not None
            chosen.add(str(exploit.configuration["optimizer"]))
        assert chosen - {"adam"} == found

    def test_constraints_hold(self) -> None:
        scheduler = make_scheduler(
            experiment(
                parameters=PARAMETERS,
                constraints=["lr * units <= 40"],
                search={"algorithm": "random", "maxTrials": 8},
                scheduler={"pb2": {"timeAttribute": "epoch", "interval": 1}},
                checkpoints={"store": {"bucket": "some-bucket"}},
            )
        )
        training = Training(scheduler, spread())
        training.go_on(8)
        assert len(training.chosen) > 5
        assert all(float(chosen["lr"]) * float(chosen["units"]) <= 40 for chosen in training.chosen)

    def test_a_restart_changes_nothing_of_what_is_chosen(self) -> None:
        uncut, cut = (Training(population(8), spread()) for _ in range(2))
        uncut.go_on(6)
        cut.go_on(3)
        restarted = population(8)
        for trial in (3, 7, 0, 1, 6, 2, 5, 4):
            restarted.restore(trial, cut.scheduler.record(trial), cut.configurations[trial])
        restarted.on_search_over()
        cut.scheduler = restarted
        cut.go_on(3)
        assert uncut.chosen == cut.chosen
        assert len(uncut.chosen) > 3

    def test_others_that_run_with_the_same_drive_it_elsewhere(self) -> None:
        explorer = pb2.Bandit(*bandit_of(population(8)))
        gains = {0: [(1.0, 0.1), (2.0, 0.3), (3.0, 0.6)], 1: [(1.0, 0.1), (2.0, 0.1), (3.0, 0.1)]}
        for trial, reached in gains.items():
            for time, score in reached:
                configuration = {**START, "lr": 0.01 if trial == 0 else 0.5}
                explorer.observe(trial, RankedPerformance(time, score, configuration))
        donors = {**START, "lr": 0.01}
        alone = explorer.explore(0, donors, [], random.Random(1))
        crowded = explorer.explore(0, donors, [alone] * 10, random.Random(1))
        assert alone != crowded


def bandit_of(scheduler: Any) -> tuple[Any, Any, Any]:
    bandit = scheduler._explorer
    return bandit._space, {**bandit._numbers, **bandit._choices}, bandit._settings


class TestGains:
    def test_are_what_a_configuration_has_gained_in_an_interval(self) -> None:
        explorer = pb2.Bandit(*bandit_of(population(8)))
        explorer.observe(3, RankedPerformance(10, 0.5, START))
        explorer.observe(3, RankedPerformance(20, 0.7, START))
        point = (pytest.approx(0.869, abs=1e-3), pytest.approx(0.484, abs=1e-3))
        assert explorer._logs[3].gains == (Gain(20, 0.02, point),)  # type: ignore[arg-type]

    def test_a_clone_gains_from_where_its_donor_was(self) -> None:
        explorer = pb2.Bandit(*bandit_of(population(8)))
        explorer.observe(3, RankedPerformance(10, 0.1, START))
        explorer.on_clone(3, RankedPerformance(14, 0.5, START))
        explorer.observe(3, RankedPerformance(24, 0.9, START))
        assert [gain.rate for gain in explorer._logs[3].gains] == [0.04]

    def test_nan_is_no_gain(self) -> None:
        explorer = pb2.Bandit(*bandit_of(population(8)))
        for time, score in ((10, 0.1), (20, math.nan), (30, 0.5), (40, 0.6)):
            explorer.observe(3, RankedPerformance(time, score, START))
        assert [gain.time for gain in explorer._logs[3].gains] == [40]

    def test_the_latest_are_kept_and_read_back_as_they_were(self) -> None:
        explorer = pb2.Bandit(*bandit_of(population(8)))
        draw = random.Random(0)
        for time in range(40):
            explorer.observe(3, RankedPerformance(time, draw.random(), {**START, "lr": draw.random() / 2 + 0.1}))
        record = explorer.record(3)
        assert sum(len(values) for values in record["gains"].values()) < 1500
        other = pb2.Bandit(*bandit_of(population(8)))
        other.restore(3, record)
        assert other._logs[3].gains == explorer._logs[3].gains
        assert [gain.time for gain in other._logs[3].gains] == list(range(24, 40))
        assert other.record(3) == record

    def test_what_nobody_wrote_is_refused(self) -> None:
        with pytest.raises(RecordError, match="gains has 3 numbers, which is not a multiple of 4"):
            population(8).restore(3, {"gains": {"0": "1 2 3"}}, START)


def test_without_the_packages_it_says_what_is_missing(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "podtune.tuning.schedulers.population.gain_model", None)
    with pytest.raises(pb2.ModelMissing, match=r"scheduler pb2 needs scikit-learn .* use the operator's gp image"):
        population(8)
