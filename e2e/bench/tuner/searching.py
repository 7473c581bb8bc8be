"""A search of a problem: by Podtune's searcher, or by Optuna alone."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Mapping
from typing import Any

import optuna
from optuna.distributions import BaseDistribution, CategoricalDistribution, FloatDistribution, IntDistribution
from optuna.exceptions import ExperimentalWarning
from optuna.samplers import BaseSampler, CmaEsSampler, GPSampler, NSGAIISampler, RandomSampler, TPESampler

from e2e.bench.tuner.problems import Problem, problem, spec
from podtune.tuning.searchers.base import Observation, Searcher
from podtune.tuning.searchers.factory import make_searcher

STARTUP = 10
"""Trials drawn at random before a model is used; the same for both."""
SETTINGS: Mapping[str, Mapping[str, object]] = {
    "tpe": {"tpe": {"startupTrials": STARTUP}},
    "gp": {"gp": {"startupTrials": STARTUP}},
}
SAMPLERS: Mapping[str, Callable[[int], BaseSampler]] = {
    "random": lambda seed: RandomSampler(seed=seed),
    "tpe": lambda seed: TPESampler(n_startup_trials=STARTUP, multivariate=True, constant_liar=True, seed=seed),
    "cmaes": lambda seed: CmaEsSampler(seed=seed),
    "nsga2": lambda seed: NSGAIISampler(seed=seed),
    "gp": lambda seed: GPSampler(n_startup_trials=STARTUP, seed=seed),
}
"""Optuna's samplers, set up as Podtune sets them up, and for the rest by default."""


def ours(name: str, algorithm: str, seed: int, budget: int) -> float:
    """The best value that Podtune's searcher finds."""
    asked = problem(name)
    searcher = new_searcher(asked, algorithm, seed, budget)
    best = float("inf")
    for number in range(budget):
        best = min(best, step(searcher, asked, number))
    return best


def step(searcher: Searcher, asked: Problem, number: int) -> float:
    """Asks for a configuration, and tells what came of it."""
    proposed = searcher.ask(number, ())
    assert proposed is not None  # the spaces are not finite, or large
    value = asked.value(proposed.configuration)
    searcher.tell(Observation(number, proposed.configuration, value, 1, attributes=proposed.attributes))
    return value


def new_searcher(asked: Problem, algorithm: str, seed: int, budget: int) -> Searcher:
    """A searcher that has been told nothing."""
    search = {"algorithm": algorithm, "maxTrials": budget, "seed": seed, **SETTINGS.get(algorithm, {})}
    return make_searcher(spec(asked.parameters, search=search))


def optunas(name: str, algorithm: str, seed: int, budget: int) -> float:
    """The best value that Optuna alone finds."""
    asked = problem(name)
    space = distributions(asked)
    study = new_study(algorithm, seed)
    for _ in range(budget):
        trial = study.ask(space)
        study.tell(trial, asked.value(trial.params))
    return study.best_value


def new_study(algorithm: str, seed: int) -> optuna.Study:
    """A study of Optuna's that knows nothing."""
    optuna.logging.set_verbosity(optuna.logging.ERROR)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ExperimentalWarning)
        sampler = SAMPLERS[algorithm](seed)
    return optuna.create_study(sampler=sampler)


def distributions(asked: Problem) -> dict[str, BaseDistribution]:
    """The search space as one writes it for Optuna."""
    return {parameter["name"]: _distribution(parameter) for parameter in asked.parameters}


def _distribution(parameter: dict[str, Any]) -> BaseDistribution:
    if "choice" in parameter:
        return CategoricalDistribution(parameter["choice"]["values"])
    if "int" in parameter:
        domain = parameter["int"]
        return IntDistribution(domain["min"], domain["max"], step=domain.get("step", 1))
    domain = parameter["float"]
    return FloatDistribution(domain["min"], domain["max"], log=domain.get("scale") == "log")
