from __future__ import annotations

from typing import Any

import pytest
from pydantic import ValidationError

from podtune.api.base import FieldError
from podtune.api.tuning.population import (
    Pb2Settings,
    PbtSettings,
    PopulationSettings,
    check_population,
    list_mutable_domains,
)
from podtune.api.tuning.search import SearchSpec
from podtune.api.tuning.search_space import ChoiceDomain, FloatDomain, Parameter

PARAMETERS = [
    Parameter.model_validate(manifest)
    for manifest in (
        {"name": "lr", "float": {"min": 0.001, "max": 0.1}},
        {"name": "layers", "int": {"min": 1, "max": 8}},
        {"name": "optimizer", "choice": {"values": ["adam", "sgd", "rmsprop"]}},
        {"name": "noise", "normal": {"mean": 0.0, "stddev": 1.0}},
        {"name": "epochs", "fixed": {"value": 20}},
    )
]


def settings(*mutations: dict[str, Any], kind: type[PopulationSettings] = PbtSettings) -> PopulationSettings:
    return kind.model_validate({"interval": 5, "mutations": mutations})


def check(*mutations: dict[str, Any], trials: int | str = 8, kind: type[PopulationSettings] = PbtSettings) -> None:
    search = SearchSpec.model_validate({"algorithm": "random", "maxTrials": trials})
    check_population("pbt", settings(*mutations, kind=kind), search, PARAMETERS)


def test_without_mutations_all_that_is_sampled_is_changed_in_the_manifests_order() -> None:
    check()
    assert list(list_mutable_domains(settings(), PARAMETERS)) == ["lr", "layers", "optimizer", "noise"]


def test_mutations_say_what_is_changed_in_which_order_and_within_what() -> None:
    mutations = ({"name": "optimizer"}, {"name": "lr", "float": {"min": 0.01, "max": 0.5}})
    check(*mutations)
    domains = list_mutable_domains(settings(*mutations), PARAMETERS)
    assert list(domains) == ["optimizer", "lr"]
    assert domains["optimizer"] == PARAMETERS[2].domain
    assert domains["lr"] == FloatDomain(min=0.01, max=0.5)


def test_a_list_of_numbers_has_the_type_of_the_parameter() -> None:
    mutations = ({"name": "lr", "choice": {"values": [1, 0.5]}}, {"name": "layers", "choice": {"values": [1, 2, 4]}})
    check(*mutations)
    domains = list_mutable_domains(settings(*mutations), PARAMETERS)
    assert isinstance(domains["lr"], ChoiceDomain)
    assert [(type(value), value) for value in domains["lr"].values] == [(float, 1.0), (float, 0.5)]
    assert isinstance(domains["layers"], ChoiceDomain)
    assert [type(value) for value in domains["layers"].values] == [int, int, int]


def test_a_normal_parameter_takes_float_bounds() -> None:
    check({"name": "noise", "float": {"min": -1.0, "max": 1.0}})


@pytest.mark.parametrize(
    ("mutation", "path", "said"),
    [
        ({"name": "momentum"}, "name", "'momentum' is not a parameter; use one of lr, layers"),
        ({"name": "epochs"}, "name", "'epochs' is fixed or computed"),
        ({"name": "layers", "float": {"min": 1, "max": 2}}, "float", "'layers' is an int; give it int bounds"),
        ({"name": "lr", "int": {"min": 1, "max": 2}}, "int", "'lr' is a float; give it float bounds"),
        ({"name": "layers", "choice": {"values": [1, 2.5]}}, "choice.values[1]", "'2.5' can't be a value of 'layers'"),
        ({"name": "layers", "choice": {"values": [True]}}, "choice.values[0]", "'true' can't be a value of 'layers'"),
        ({"name": "lr", "choice": {"values": [1, 1.0]}}, "choice.values[1]", "or is listed twice"),
        ({"name": "optimizer", "choice": {"values": ["lamb"]}}, "choice.values[0]", "'lamb' can't be a value"),
    ],
)
def test_a_mutation_that_can_not_be_is_refused(mutation: dict[str, Any], path: str, said: str) -> None:
    with pytest.raises(FieldError) as refused:
        check(mutation)
    assert refused.value.path == f"scheduler.pbt.mutations[0].{path}"
    assert said in refused.value.problem


@pytest.mark.parametrize("kind", ["float", "int"])
def test_bounds_for_a_choice_are_refused(kind: str) -> None:
    with pytest.raises(FieldError, match="'optimizer' is a choice; give it a choice"):
        check({"name": "optimizer", kind: {"min": 1, "max": 2}})


def test_a_mutation_twice_is_refused() -> None:
    with pytest.raises(FieldError, match="'lr' is listed twice; remove one"):
        check({"name": "lr"}, {"name": "lr"})


def test_two_kinds_of_bounds_are_refused() -> None:
    with pytest.raises(ValidationError, match="mutation of 'lr' takes one of float, int, choice, not float and choice"):
        settings({"name": "lr", "float": {"min": 0, "max": 1}, "choice": {"values": [1.0]}})


@pytest.mark.parametrize("trials", [1, 1001, "unlimited"])
def test_a_population_has_a_size(trials: int | str) -> None:
    with pytest.raises(FieldError, match=f"search.maxTrials: {trials} is not a population size for pbt; use 2 to 1000"):
        check(trials=trials)


def test_one_that_goes_in_step_is_smaller() -> None:
    in_step = PbtSettings(interval=5, synchronous=True)
    search = SearchSpec.model_validate({"algorithm": "random", "maxTrials": 257})
    with pytest.raises(FieldError, match="257 is not a population size for synchronous pbt; use 2 to 256 trials"):
        check_population("pbt", in_step, search, PARAMETERS)


def test_pb2_needs_a_number_to_change() -> None:
    check({"name": "optimizer"}, {"name": "lr"}, kind=Pb2Settings)
    with pytest.raises(FieldError, match="has only choices to change, but pb2 models only numbers; use pbt"):
        check({"name": "optimizer"}, kind=Pb2Settings)
