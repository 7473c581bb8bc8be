from __future__ import annotations

import subprocess
import sys
from collections.abc import Mapping, Sequence
from typing import Any, Literal

import optuna
import pytest
from optuna.distributions import BaseDistribution
from optuna.samplers import TPESampler

from podtune.api.tuning.objective import Criterion, Objective
from podtune.api.tuning.search import TpeSettings
from podtune.api.tuning.search_space import Parameter
from podtune.testing.searchers import SearcherConformance, propose
from podtune.tuning.randomness import derive_seed
from podtune.tuning.searchers.base import Configuration, Observation, PendingTrial, Searcher
from podtune.tuning.searchers.random import RandomSearcher
from podtune.tuning.searchers.spaces.optuna_space import OptunaSpace
from podtune.tuning.searchers.tpe import TpeSearcher
from tests.unit.tuning.manifests import parameters
from tests.unit.tuning.searchers.optuna_spaces import of_optuna

UNIT = parameters({"name": "x", "float": {"min": 0, "max": 1}})


def tpe(
    space: Sequence[Parameter], *, seed: int = 7, mode: Literal["max", "min"] = "max", others: int = 0, **settings: Any
) -> TpeSearcher:
    further = [Criterion(metric=f"m{position}", mode="min") for position in range(others)]
    return TpeSearcher(space, Objective(metric="accuracy", mode=mode, others=further), TpeSettings(**settings), seed)


class TestTpeSearcher(SearcherConformance):
    def make(self, parameters: Sequence[Parameter], *, seed: int = 7, mode: Literal["max", "min"] = "max") -> Searcher:
        return tpe(parameters, seed=seed, mode=mode, startup_trials=3)


class TestUnivariateTpeSearcher(SearcherConformance):
    def make(self, parameters: Sequence[Parameter], *, seed: int = 7, mode: Literal["max", "min"] = "max") -> Searcher:
        return tpe(parameters, seed=seed, mode=mode, multivariate=False, startup_trials=3)


class TestTpeSearcherOfSeveralObjectives(SearcherConformance):
    criteria = 3

    def make(self, parameters: Sequence[Parameter], *, seed: int = 7, mode: Literal["max", "min"] = "max") -> Searcher:
        return tpe(parameters, seed=seed, mode=mode, others=2, startup_trials=3)


class FixedSpaceTpe(TPESampler):
    """Optuna's own, without having to infer the space from the trials."""

    def __init__(self, space: Mapping[str, BaseDistribution], **settings: Any) -> None:
        super().__init__(**settings)
        self.space = dict(space)

    def infer_relative_search_space(self, study: Any, trial: Any) -> dict[str, BaseDistribution]:
        return self.space if self._multivariate else {}


@pytest.mark.parametrize("multivariate", [True, False])
@pytest.mark.parametrize("mode", ["max", "min"])
def test_one_trial_at_a_time_proposes_what_plain_optuna_does(
    mode: Literal["max", "min"], multivariate: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    optuna.logging.disable_default_handler()
    space = OptunaSpace(of_optuna())
    study = optuna.create_study(direction="maximize" if mode == "max" else "minimize")
    searcher = tpe(of_optuna(), mode=mode, multivariate=multivariate)
    for number in range(40):
        study.sampler = FixedSpaceTpe(
            space.distributions, multivariate=multivariate, seed=derive_seed(7, "proposal", number, bits=32)
        )
        trial = study.ask(dict(space.distributions))
        proposed = propose(searcher, number)
        assert proposed == space.decode(trial.params)

        value = None if number % 7 == 3 else float(proposed["momentum"]) ** 2 + float(proposed["dropout"])
        searcher.tell(Observation(number, proposed, value, step=1))
        if value is None:
            study.tell(trial, state=optuna.trial.TrialState.FAIL)
        else:
            study.tell(trial, value)


@pytest.mark.parametrize("multivariate", [True, None])
def test_of_several_objectives_too_it_proposes_what_plain_optuna_does(multivariate: bool | None) -> None:
    optuna.logging.disable_default_handler()
    space = OptunaSpace(of_optuna())
    study = optuna.create_study(directions=["maximize", "minimize"])
    searcher = tpe(of_optuna(), others=1, multivariate=multivariate)
    for number in range(40):
        study.sampler = FixedSpaceTpe(
            space.distributions, multivariate=multivariate, seed=derive_seed(7, "proposal", number, bits=32)
        )
        trial = study.ask(dict(space.distributions))
        proposed = propose(searcher, number)
        assert proposed == space.decode(trial.params)

        values = (float(proposed["momentum"]) ** 2, float(proposed["dropout"]))
        searcher.tell(Observation(number, proposed, values[0], step=1, others=values[1:]))
        study.tell(trial, values)


CONDITIONAL = parameters(
    {"name": "adam_beta", "float": {"min": 0, "max": 1}, "when": {"optimizer": ["adam"]}},
    {"name": "learning_rate", "float": {"min": 0.001, "max": 1, "scale": "log"}},
    {"name": "momentum", "float": {"min": 0, "max": 1}, "when": {"optimizer": ["sgd"]}},
    {"name": "optimizer", "choice": {"values": ["sgd", "adam"]}},
)


def active(configuration: Configuration) -> Configuration:
    """What is left of a configuration where a condition does not hold."""
    inactive = "adam_beta" if configuration["optimizer"] == "sgd" else "momentum"
    return {name: value for name, value in configuration.items() if name != inactive}


@pytest.mark.filterwarnings("ignore::optuna.exceptions.ExperimentalWarning")
@pytest.mark.parametrize("group", [True, False])
def test_parameters_that_come_together_are_modelled_together_as_by_optunas_group(group: bool) -> None:
    optuna.logging.disable_default_handler()
    space = OptunaSpace(CONDITIONAL)
    study = optuna.create_study(direction="maximize")
    searcher = tpe(CONDITIONAL, group=group)
    random = RandomSearcher(CONDITIONAL, seed=1)
    for number in range(40):
        if number < 15:
            proposed = random.ask(number, [])
            configuration = active(proposed.configuration)
        else:
            seed = derive_seed(7, "proposal", number, bits=32)
            study.sampler = TPESampler(multivariate=True, group=group, seed=seed)
            trial = study.ask()
            by_optuna = {name: trial._suggest(name, distribution) for name, distribution in space.distributions.items()}
            assert propose(searcher, number) == space.decode(by_optuna)
            study.tell(trial, state=optuna.trial.TrialState.FAIL)
            configuration = active(space.decode(by_optuna))
        value = float(configuration["learning_rate"])
        searcher.tell(Observation(number, configuration, value, step=1))
        params = space.encode(configuration)
        distributions = {name: space.distributions[name] for name in params}
        study.add_trial(optuna.trial.create_trial(value=value, params=params, distributions=distributions))


def test_a_trial_that_lacks_one_of_several_values_counts_as_failed() -> None:
    searcher, fresh = tpe(UNIT, others=1), tpe(UNIT, others=1)
    for number in range(30):
        others: tuple[float, ...] = (float("nan"),) if number % 2 else ()
        searcher.tell(Observation(number, {"x": 0.5}, 1.0, step=1, others=others))
    assert searcher.ask(30, []) == fresh.ask(30, [])


def test_groups_of_several_objectives_are_modelled_jointly() -> None:
    grouped = tpe(CONDITIONAL, others=1, group=True)
    jointly = tpe(CONDITIONAL, others=1, multivariate=True)
    alone = tpe(CONDITIONAL, others=1)
    for number in range(20):
        for searcher in (grouped, jointly, alone):
            configuration = active(propose(searcher, number))
            searcher.tell(
                Observation(number, configuration, float(configuration["learning_rate"]), 1, others=(number,))
            )
    assert propose(grouped, 20) == propose(jointly, 20) != propose(alone, 20)


@pytest.mark.parametrize(("mode", "sign"), [("max", 1), ("min", -1)])
def test_it_learns_where_the_objective_is_better(mode: Literal["max", "min"], sign: int) -> None:
    searcher = tpe(UNIT, mode=mode)
    for number in range(30):
        x = number / 29
        searcher.tell(Observation(number, {"x": x}, -sign * (x - 0.8) ** 2, step=1))
    proposals = [float(propose(searcher, number)["x"]) for number in range(30, 60)]
    assert sum(abs(x - 0.8) < 0.15 for x in proposals) > 25


def test_trials_under_way_are_kept_clear_of() -> None:
    searcher = tpe(UNIT)
    for number in range(30):
        x = number / 29
        searcher.tell(Observation(number, {"x": x}, -min(abs(x - 0.2), abs(x - 0.8)), step=1))

    def near(place: float, pending: Sequence[PendingTrial]) -> int:
        return sum(abs(float(propose(searcher, number, pending)["x"]) - place) < 0.1 for number in range(100, 160))

    crowd = [PendingTrial(number, {"x": 0.8}) for number in range(30, 50)]
    assert near(0.8, crowd) < near(0.8, []) / 2
    assert near(0.2, crowd) > near(0.2, [])


def test_without_the_constant_liar_trials_under_way_make_no_difference() -> None:
    searcher = tpe(UNIT, constant_liar=False)
    for number in range(30):
        searcher.tell(Observation(number, {"x": number / 29}, number / 29, step=1))
    crowd = [PendingTrial(number, {"x": 1.0}) for number in range(30, 50)]
    assert searcher.ask(50, crowd) == searcher.ask(50, [])


def test_failed_trials_neither_attract_nor_count_as_startup_trials() -> None:
    searcher, fresh = tpe(UNIT), tpe(UNIT)
    for number in range(30):
        searcher.tell(Observation(number, {"x": 0.5}, None, step=0))
    assert [searcher.ask(number, []) for number in range(30, 40)] == [fresh.ask(number, []) for number in range(30, 40)]


def test_a_space_without_a_choice_is_proposed_as_it_is() -> None:
    searcher = tpe(
        parameters({"name": "x", "choice": {"values": ["only"]}}, {"name": "y", "int": {"min": 3, "max": 3}})
    )
    assert propose(searcher, 0) == {"x": "only", "y": 3}
    searcher.tell(Observation(0, {"x": "only", "y": 3}, 1.0, step=1))
    assert propose(searcher, 1, [PendingTrial(0, {"x": "only", "y": 3})]) == {"x": "only", "y": 3}


def test_optuna_says_nothing_and_stays_as_talkative_as_it_was() -> None:
    """In a process of its own, since the verbosity of Optuna is a setting of the process."""
    program = (
        "import optuna; from tests.unit.tuning.searchers.test_tpe import UNIT, Observation, tpe;"
        "optuna.logging.set_verbosity(optuna.logging.INFO);"
        "s = tpe(UNIT, startup_trials=1);"
        "[s.tell(Observation(n, s.ask(n, []).configuration, 1.0, 1)) for n in range(3)];"
        "print(optuna.logging.get_verbosity() == optuna.logging.INFO)"
    )
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True, env=paths())
    assert done.stdout == "True\n"
    assert done.stderr == ""


def test_making_another_searcher_does_not_import_optuna() -> None:
    program = (
        "import sys; from tests.unit.tuning.manifests import experiment;"
        "from podtune.tuning.searchers.factory import make_searcher;"
        "from podtune.tuning.schedulers.factory import make_scheduler;"
        "make_searcher(experiment()).ask(0, []); make_scheduler(experiment());"
        "print(sorted({'optuna', 'numpy'} & set(sys.modules)))"
    )
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True, env=paths())
    assert done.stdout == "[]\n"


def paths() -> dict[str, str]:
    """The environment that gives a new interpreter this one's import path."""
    import os

    return {**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)}
