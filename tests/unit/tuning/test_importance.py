"""The importance of parameters: what Optuna's evaluator says, and what must hold for any trials."""

from __future__ import annotations

import math
import random
import warnings
from collections.abc import Mapping, Sequence
from typing import Any

import optuna
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from optuna.distributions import (
    BaseDistribution,
    CategoricalDistribution,
    FloatDistribution,
    IntDistribution,
)

from podtune.tuning.importance import (
    LEAST_BEST,
    LEAST_TRIALS,
    MOST_CELLS,
    ImportanceEstimate,
    ParameterCells,
    count_cells,
    estimate_importance,
    find_cell,
)

OPTIMIZERS = ("sgd", "adamw", "lion")
DOMAINS: Mapping[str, BaseDistribution] = {
    "lr": FloatDistribution(1e-5, 1e-1, log=True),
    "dropout": FloatDistribution(0, 0.5),
    "optimizer": CategoricalDistribution(OPTIMIZERS),
    "momentum": FloatDistribution(0.5, 0.99),
    "depth": IntDistribution(8, 50, step=2),
    "units": IntDistribution(16, 1024, log=True),
    "decay": FloatDistribution(0, 1, step=0.05),
    "constant": IntDistribution(3, 3),
}
Trial = tuple[dict[str, Any], float]


def draw_trials(count: int, seed: int) -> list[Trial]:
    generator = random.Random(seed)
    trials: list[Trial] = []
    for _ in range(count):
        values: dict[str, Any] = {
            "lr": 10 ** generator.uniform(-5, -1),
            "dropout": generator.uniform(0, 0.5),
            "optimizer": generator.choice(OPTIMIZERS),
            "depth": generator.randrange(8, 51, 2),
            "units": generator.randint(16, 1024),
            "decay": generator.randrange(21) / 20,
            "constant": 3,
        }
        if values["optimizer"] != "lion":
            values["momentum"] = generator.uniform(0.5, 0.99)
        loss = (math.log10(values["lr"]) + 3) ** 2 + values["dropout"] + 3 * abs(values.get("momentum", 0.8) - 0.9)
        trials.append((values, round(loss, 1)))  # some are as good as others
    return trials


def make_cells(name: str, domain: BaseDistribution, trials: Sequence[Trial]) -> ParameterCells:
    if isinstance(domain, CategoricalDistribution):
        cells = [domain.choices.index(values[name]) for values, _ in trials]
        return ParameterCells(name, len(domain.choices), is_ordered=False, cells=cells)
    assert isinstance(domain, FloatDistribution | IntDistribution)
    low, high, is_log = domain.low, domain.high, domain.log
    count = count_cells(low, high, domain.step, is_log=is_log)
    cells = [find_cell(values[name], low, high, count, is_log=is_log) if name in values else -1 for values, _ in trials]
    return ParameterCells(name, count, is_ordered=True, cells=cells)


def estimate(trials: Sequence[Trial], seed: int = 1) -> ImportanceEstimate:
    cells = [make_cells(name, domain, trials) for name, domain in DOMAINS.items()]
    found = estimate_importance([loss for _, loss in trials], cells, random.Random(seed))
    assert found is not None
    return found


def ask_optuna(trials: Sequence[Trial], quantile: float) -> dict[str, float]:
    optuna.logging.set_verbosity(optuna.logging.ERROR)
    study = optuna.create_study()
    for values, loss in trials:
        domains = {name: DOMAINS[name] for name in values}
        study.add_trial(optuna.trial.create_trial(params=values, distributions=domains, value=loss))
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", optuna.exceptions.ExperimentalWarning)
        evaluator = optuna.importance.PedAnovaImportanceEvaluator(target_quantile=quantile)
        return optuna.importance.get_param_importances(study, evaluator=evaluator)


@pytest.mark.parametrize(("count", "seed"), [(40, 1), (60, 2), (500, 3)])
def test_it_is_what_optuna_says(count: int, seed: int) -> None:
    trials = draw_trials(count, seed)
    quantile = max(math.ceil(0.1 * count), LEAST_BEST) / count
    shares = {each.name: each.share for each in estimate(trials).importances}
    assert shares == pytest.approx(ask_optuna(trials, quantile), abs=1e-12)


def test_what_decides_comes_first_and_what_does_not_has_a_small_share() -> None:
    found = estimate(draw_trials(300, 5))
    shares = {each.name: each.share or 0.0 for each in found.importances}
    assert found.importances[0].name == "lr"
    assert max(shares["depth"], shares["units"], shares["decay"]) < 0.1 < shares["lr"]
    assert shares["constant"] == 0


def test_errors_shrink_with_more_trials_and_hold_what_many_trials_say() -> None:
    few, many = estimate(draw_trials(100, 6)), estimate(draw_trials(6000, 7))
    small, large = ({each.name: each for each in found.importances} for found in (many, few))
    for name in ("lr", "dropout", "momentum"):
        assert (small[name].error or 0.0) < (large[name].error or 0.0) / 2
        assert abs((large[name].share or 0.0) - (small[name].share or 0.0)) < 3 * (large[name].error or 0.0)


def test_errors_of_a_resample_with_fewer_trials_are_those_of_all(monkeypatch: pytest.MonkeyPatch) -> None:
    trials = draw_trials(1500, 8)
    whole = {each.name: each.error or 0.0 for each in estimate(trials).importances}
    monkeypatch.setattr("podtune.tuning.importance.MOST_DRAWN", 500)
    part = {each.name: each.error or 0.0 for each in estimate(trials).importances}
    assert 0.5 < part["lr"] / whole["lr"] < 2


def test_a_parameter_that_few_of_the_best_have_is_not_judged() -> None:
    losses = [float(trial) for trial in range(60)]
    lr = ParameterCells("lr", 10, is_ordered=True, cells=[trial // 6 for trial in range(60)])
    rare = ParameterCells(
        "rare", 10, is_ordered=True, cells=[3, 3, -1, -1, -1, -1] + [trial % 10 for trial in range(54)]
    )
    found = estimate_importance(losses, [rare, lr], random.Random(1))
    assert found is not None
    assert [(each.name, each.share) for each in found.importances] == [("lr", 1.0), ("rare", None)]


def test_nothing_is_said_of_few_trials_or_of_trials_that_are_all_the_same() -> None:
    lr = ParameterCells("lr", 2, is_ordered=True, cells=[trial % 2 for trial in range(LEAST_TRIALS)])
    short = ParameterCells("lr", 2, is_ordered=True, cells=lr.cells[1:])
    losses = [float(trial % 2) for trial in range(LEAST_TRIALS)]
    assert estimate_importance(losses, [lr], random.Random(1)) is not None
    assert estimate_importance(losses[1:], [short], random.Random(1)) is None
    assert estimate_importance([0.5] * LEAST_TRIALS, [lr], random.Random(1)) is None
    assert estimate_importance(losses, [], random.Random(1)) is None


def test_many_parameters_have_shares_and_the_first_ones_errors() -> None:
    generator = random.Random(9)
    many = [
        ParameterCells(f"p{place:03}", 50, is_ordered=True, cells=[generator.randrange(50) for _ in range(60)])
        for place in range(100)
    ]
    found = estimate_importance([float(trial) for trial in range(60)], many, random.Random(1))
    assert found is not None
    assert [each.error is not None for each in found.importances] == [True] * 40 + [False] * 60


@st.composite
def spaces(draw: st.DrawFn) -> tuple[list[int], list[ParameterCells]]:
    count = draw(st.integers(LEAST_TRIALS, 60))
    losses = draw(st.lists(st.integers(0, 30), min_size=count, max_size=count))
    parameters = []
    for place in range(draw(st.integers(1, 4))):
        cells = draw(st.integers(1, MOST_CELLS))
        least = draw(st.sampled_from([-1, 0]))
        values = draw(st.lists(st.integers(least, cells - 1), min_size=count, max_size=count))
        parameters.append(ParameterCells(f"p{place}", cells, is_ordered=draw(st.booleans()), cells=values))
    return losses, parameters


@settings(max_examples=60, deadline=None)
@given(spaces(), st.randoms(use_true_random=False))
def test_shares_add_up_to_one_and_the_order_of_trials_and_the_scale_of_losses_change_nothing(
    space: tuple[list[int], list[ParameterCells]], shuffler: random.Random
) -> None:
    losses, parameters = space
    found = estimate_importance(losses, parameters, random.Random(1))
    order = list(range(len(losses)))
    shuffler.shuffle(order)
    shuffled = [
        ParameterCells(each.name, each.count, each.is_ordered, [each.cells[place] for place in order])
        for each in parameters
    ]
    assert estimate_importance([losses[place] for place in order], shuffled, random.Random(1)) == found
    assert estimate_importance([math.exp(loss) for loss in losses], parameters, random.Random(1)) == found
    if found is not None:
        assert sum(each.share or 0.0 for each in found.importances) == pytest.approx(1)
        assert all(each.share is None or 0 <= each.share <= 1 for each in found.importances)
        assert all(each.error is None or 0 <= each.error <= 0.5 for each in found.importances)
        assert found.best >= LEAST_BEST


@settings(max_examples=30, deadline=None)
@given(st.integers(0, 2**32), st.booleans())
def test_a_parameter_that_decides_is_above_one_that_does_not(seed: int, is_ordered: bool) -> None:
    """With enough trials: choices are smoothed so much that chance may outweigh one with twenty trials a value."""
    generator = random.Random(seed)
    decisive = [generator.randrange(10) for _ in range(400)]
    other = [generator.randrange(10) for _ in range(400)]
    losses = [cell + generator.random() for cell in decisive]
    parameters = [
        ParameterCells("other", 10, is_ordered, other),
        ParameterCells("decisive", 10, is_ordered, decisive),
    ]
    found = estimate_importance(losses, parameters, random.Random(1))
    assert found is not None
    assert found.importances[0].name == "decisive"


@pytest.mark.parametrize(
    ("low", "high", "step", "is_log", "count"),
    [
        (0, 1, None, False, 50),
        (8, 50, 2, False, 22),
        (0, 1000, 1, False, 50),
        (3, 3, 1, False, 1),
        (16, 1024, 1, True, 11),
    ],
)
def test_a_number_has_a_cell_for_each_value_or_fifty(
    low: float, high: float, step: float | None, is_log: bool, count: int
) -> None:
    assert count_cells(low, high, step, is_log=is_log) == count
    assert find_cell(low, low, high, count, is_log=is_log) == 0
    assert find_cell(high, low, high, count, is_log=is_log) == count - 1
    assert find_cell(high * 10, low, high, count, is_log=is_log) == count - 1
