"""fANOVA: what Optuna's evaluator says, and what must hold for any forest."""

from __future__ import annotations

import math
import random
from collections.abc import Mapping, Sequence

import optuna
import pytest
from optuna.distributions import BaseDistribution, CategoricalDistribution, FloatDistribution, IntDistribution

from podtune.tuning.fanova import MOST_LEARNED, ParameterValues, VarianceShares, estimate_variance_shares
from podtune.tuning.importance import LEAST_TRIALS

SEED = 1
OPTIMIZERS = ("sgd", "adamw")
DOMAINS: Mapping[str, BaseDistribution] = {
    "decay": FloatDistribution(0, 1),
    "depth": IntDistribution(8, 50),
    "dropout": FloatDistribution(0, 0.5),
    "lr": FloatDistribution(-5, -1),
}
Configuration = dict[str, float]


def draw(count: int, seed: int) -> tuple[list[Configuration], list[float]]:
    generator = random.Random(seed)
    trials = [
        {
            "decay": generator.uniform(0, 1),
            "depth": float(generator.randint(8, 50)),
            "dropout": generator.uniform(0, 0.5),
            "lr": generator.uniform(-5, -1),
        }
        for _ in range(count)
    ]
    return trials, [(each["lr"] + 3) ** 2 + 3 * each["dropout"] + each["lr"] * each["decay"] / 4 for each in trials]


def estimate(trials: Sequence[Configuration], losses: Sequence[float], *, log: str = "") -> VarianceShares:
    """The same with the logarithm of a parameter taken by us."""
    parameters = []
    for name, domain in DOMAINS.items():
        assert isinstance(domain, FloatDistribution | IntDistribution)
        ends, values = [float(domain.low), float(domain.high)], [each[name] for each in trials]
        if name == log:
            ends, values = [math.exp(end) for end in ends], [math.exp(value) for value in values]
        parameters.append(ParameterValues(name, ends[0], ends[1], name == log, values))
    found = estimate_variance_shares(losses, parameters, SEED)
    assert found is not None
    return found


def ask_optuna(
    trials: Sequence[Mapping[str, object]], losses: Sequence[float], domains: Mapping[str, BaseDistribution]
) -> dict[str, float]:
    optuna.logging.set_verbosity(optuna.logging.ERROR)
    study = optuna.create_study()
    for values, loss in zip(trials, losses, strict=True):
        study.add_trial(optuna.trial.create_trial(params=dict(values), distributions=dict(domains), value=loss))
    evaluator = optuna.importance.FanovaImportanceEvaluator(seed=SEED)
    return optuna.importance.get_param_importances(study, evaluator=evaluator)


def read_shares(found: VarianceShares) -> dict[str, float | None]:
    return {each.name: each.share for each in found.importances}


@pytest.mark.parametrize(("count", "seed"), [(20, 1), (60, 2), (150, 3)])
def test_it_is_what_optuna_says(count: int, seed: int) -> None:
    trials, losses = draw(count, seed)
    whole = [{**each, "depth": int(each["depth"])} for each in trials]
    assert read_shares(estimate(trials, losses)) == pytest.approx(ask_optuna(whole, losses, DOMAINS), abs=1e-9)


def test_choices_weigh_as_much_as_optuna_says_though_it_has_a_column_for_each() -> None:
    trials, losses = draw(150, 4)
    generator = random.Random(1)
    picked = [generator.randrange(2) for _ in trials]
    losses = [loss + 2 * choice for loss, choice in zip(losses, picked, strict=True)]
    domains = {**DOMAINS, "optimizer": CategoricalDistribution(OPTIMIZERS)}
    named = [
        {**each, "depth": int(each["depth"]), "optimizer": OPTIMIZERS[choice]}
        for each, choice in zip(trials, picked, strict=True)
    ]
    parameters = [
        ParameterValues(name, float(domain.low), float(domain.high), False, [each[name] for each in trials])
        for name, domain in DOMAINS.items()
        if isinstance(domain, FloatDistribution | IntDistribution)
    ]
    choices = ParameterValues("optimizer", -0.5, 1.5, is_log=False, values=[float(choice) for choice in picked])
    found = estimate_variance_shares(losses, [*parameters, choices], SEED)
    assert found is not None
    assert read_shares(found) == pytest.approx(ask_optuna(named, losses, domains), abs=0.05)


def test_what_decides_comes_first_with_its_spread() -> None:
    found = estimate(*draw(200, 5))
    assert found.importances[0].name == "lr"
    assert sum(each.share or 0.0 for each in found.importances) == pytest.approx(1)
    assert all(0 < (each.error or 0.0) < 0.3 for each in found.importances)
    assert 0.6 < found.alone < 1  # the learning rate and the decay also decide together


def test_a_logarithmic_scale_is_that_of_the_search() -> None:
    trials, losses = draw(100, 6)
    assert read_shares(estimate(trials, losses, log="lr")) == pytest.approx(
        read_shares(estimate(trials, losses)), abs=0.02
    )


def test_parameters_that_some_trials_do_without_have_no_share_and_constants_have_none_of_it() -> None:
    losses = [float(trial % 7) for trial in range(60)]
    week = ParameterValues("week", 0, 6, is_log=False, values=losses)
    rare = ParameterValues("rare", 0, 1, is_log=False, values=[None, *losses[1:]])
    constant = ParameterValues("constant", 3, 3, is_log=False, values=[3.0] * 60)
    found = estimate_variance_shares(losses, [rare, constant, week], SEED)
    assert found is not None
    assert [(each.name, each.share) for each in found.importances] == [("week", 1.0), ("constant", 0.0), ("rare", None)]


def test_nothing_is_said_of_few_trials_or_of_trials_that_are_all_the_same() -> None:
    values = [float(trial % 2) for trial in range(LEAST_TRIALS)]
    lr = ParameterValues("lr", 0, 1, is_log=False, values=values)
    short = ParameterValues("lr", 0, 1, is_log=False, values=values[1:])
    assert estimate_variance_shares(values, [lr], SEED) is not None
    assert estimate_variance_shares(values[1:], [short], SEED) is None
    assert estimate_variance_shares([0.5] * LEAST_TRIALS, [lr], SEED) is None
    assert estimate_variance_shares(values, [], SEED) is None
    assert estimate_variance_shares([], [], SEED) is None


def test_of_very_many_trials_an_even_sample_is_learned() -> None:
    losses = [float(trial % 50) for trial in range(2 * MOST_LEARNED + 1)]
    found = estimate_variance_shares(losses, [ParameterValues("lr", 0, 49, is_log=False, values=losses)], SEED)
    assert found is not None
    assert found.trials <= MOST_LEARNED
