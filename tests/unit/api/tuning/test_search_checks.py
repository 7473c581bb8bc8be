"""What `search` can't be, and what it says then; the manifests in tests/component/api/bad are about the same."""

from __future__ import annotations

from typing import Any

import pytest
from pydantic import ValidationError

from podtune.api.tuning.scheduler import SCHEDULERS
from podtune.api.tuning.search import MAX_TRIALS
from podtune.api.tuning.search_checks import REPEATABLE
from podtune.api.validation import InvalidSpec, explain, parse_experiment
from tests.unit.tuning.manifests import experiment

SPACE = [{"name": "lr", "float": {"min": 0.001, "max": 0.1}}]


def said(search: dict[str, Any], **spec: Any) -> str:
    with pytest.raises(ValidationError) as refused:
        experiment(parameters=SPACE, search=search, **spec)
    return explain(refused.value)


@pytest.mark.parametrize(
    ("search", "message"),
    [
        ({"maxTrials": True}, "spec.search.maxTrials: a bool is not a whole number"),
        ({"maxTrials": 2.5}, "spec.search.maxTrials: a float is not a whole number; write one"),
        ({"maxTrials": "24"}, "'24' is not a whole number; write one without quotes, or unlimited"),
        ({"maxTrials": "unlimited"}, "nothing in stop ends the experiment; set stop.totalTime or another budget"),
        (
            {"maxTrials": 10, "repeats": 3},
            "10 trials can't be divided into configurations of 3 repeats each; use 9 or 12",
        ),
        ({"maxTrials": 2, "repeats": 3}, "3 repeats each; use 3"),
        (
            {"maxTrials": 4, "initial": [{"parameters": {"lr": None}}]},
            "initial[0].parameters.lr: a null can't be a value",
        ),
    ],
)
def test_a_mistake_names_the_field_the_value_and_the_remedy(search: dict[str, Any], message: str) -> None:
    assert message in said(search)


@pytest.mark.parametrize("scheduler", ["ashaPromotion", "hyperband"])
def test_repeats_go_with_schedulers_that_look_at_each_trial_alone(scheduler: str) -> None:
    search = {"algorithm": "random", "maxTrials": 9, "repeats": 3}
    message = said(search, scheduler={scheduler: {"maxTime": 9}}, checkpoints={"store": {"bucket": "podtune"}})
    assert message == (
        f"spec.search.repeats: 3 can't be combined with scheduler {scheduler}; use asha, fifo, median, or 1"
    )
    assert SCHEDULERS.keys() >= REPEATABLE


@pytest.mark.parametrize(
    ("names", "message"),
    [
        (["a", "c"], "spec.search.grid.parameters[1]: 'c' is no parameter that a value is chosen for; use one of a, b"),
        (["a", "a"], "spec.search.grid.parameters[1]: 'a' is listed twice; remove it here"),
        (["b"], "'b' does not exist beside every value of a, which is drawn at random; add a, or remove b"),
    ],
)
def test_a_grid_is_of_parameters_that_exist_beside_all_draws(names: list[str], message: str) -> None:
    space = [
        {"name": "a", "choice": {"values": [1, 2]}},
        {"name": "b", "int": {"min": 1, "max": 2}, "when": {"a": [1]}},
        {"name": "c", "fixed": {"value": 1}},
    ]
    search = {"algorithm": "grid", "maxTrials": 4, "grid": {"parameters": names}}
    with pytest.raises(ValidationError) as refused:
        experiment(parameters=space, search=search)
    assert message in explain(refused.value)
    assert experiment(parameters=space, search={**search, "grid": {"parameters": ["a", "b"]}})


def test_a_search_without_a_limit_needs_something_that_ends_it() -> None:
    assert experiment(search={"maxTrials": "unlimited"}, stop={"totalTime": "2h"}).search.trial_limit == MAX_TRIALS
    assert experiment(search={"maxTrials": "unlimited"}, stop={"experiment": [{"target": 0.9}]})
    assert "nothing in stop" in said({"maxTrials": "unlimited"}, stop={"experiment": [{"failures": {"count": 3}}]})


def test_the_limit_holds_whole_configurations() -> None:
    assert experiment(search={"maxTrials": 12, "repeats": 3}).search.trial_limit == 12
    endless = experiment(search={"maxTrials": "unlimited", "repeats": 7}, stop={"totalTime": "2h"})
    assert endless.search.trial_limit % 7 == 0


def test_an_experiment_can_not_learn_from_itself() -> None:
    spec = experiment(parameters=SPACE, search={"maxTrials": 4, "warmStart": {"experiment": "again"}})
    manifest = {"metadata": {"name": "again"}, "spec": spec.model_dump(mode="json", by_alias=True, exclude_none=True)}
    with pytest.raises(InvalidSpec, match="'again' is this experiment itself"):
        parse_experiment(manifest)
    parse_experiment({**manifest, "metadata": {"name": "another"}})
