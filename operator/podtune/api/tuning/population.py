"""Schedulers that train a population and change configurations while trials run: population based training and PB2."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Self

from pydantic import Field, model_validator

from podtune.api.base import ApiModel, FieldError, key_by
from podtune.api.tuning.objective import MetricName
from podtune.api.tuning.search import SearchSpec
from podtune.api.tuning.search_space import (
    ChoiceDomain,
    Domain,
    FloatDomain,
    IntDomain,
    Parameter,
    ParameterName,
    Scalar,
    format_value,
)

LARGEST = 1000
"""The largest population: it is ranked again at each perturbation."""
LARGEST_IN_STEP = 256
"""The largest synchronous one: the decision on all of its trials is stored in one trial's status."""


class Mutation(ApiModel):
    """A parameter to change while trials run, and its bounds."""

    name: ParameterName = Field(description="Name of one of the experiment's parameters.")
    float_: FloatDomain | None = Field(
        default=None, alias="float", description="Other bounds for a float, normal or log-normal parameter."
    )
    int_: IntDomain | None = Field(default=None, alias="int", description="Other bounds for an int parameter.")
    choice: ChoiceDomain | None = Field(
        default=None,
        description=(
            "A list of values: some of a choice parameter's, or numbers. A mutation moves to a neighbour in the list."
        ),
    )

    @model_validator(mode="after")
    def _check(self) -> Self:
        given = [name for name, value in (("float", self.float_), ("int", self.int_), ("choice", self.choice)) if value]
        if len(given) > 1:
            raise ValueError(f"mutation of {self.name!r} takes one of float, int, choice, not {' and '.join(given)}")
        return self

    @property
    def domain(self) -> FloatDomain | IntDomain | ChoiceDomain | None:
        """What is given instead of the parameter's own domain."""
        return self.float_ or self.int_ or self.choice


class PerturbationFactors(ApiModel):
    """What numbers are multiplied by: one of the two, as a coin falls."""

    down: float = Field(default=0.8, gt=0, lt=1, description="The factor below 1.")
    up: float = Field(default=1.2, gt=1, description="The factor above 1.")


class PopulationSettings(ApiModel):
    """Settings that PBT and PB2 have in common; the population is `search.maxTrials` trials."""

    time_attribute: MetricName = Field(
        default="training_iteration",
        description=(
            "The result that measures a trial's progress, such as epoch or time_total_s. It must never decrease, "
            "except that a trial which continues from another's checkpoint continues from that trial's value."
        ),
    )
    interval: int = Field(
        ge=1,
        description="How far a trial's time attribute must advance before it is ranked again. Each time costs a pause.",
    )
    burn_in: int = Field(default=0, ge=0, description="No trial is ranked before its time attribute reaches this.")
    quantile: float = Field(
        default=0.25,
        gt=0,
        le=0.5,
        description=(
            "The worst trials, this share of the population, continue from the checkpoints of the best, the same share."
        ),
    )
    resample_probability: float = Field(
        default=0.25,
        ge=0,
        le=1,
        description="Probability that a parameter is resampled from its domain instead of being perturbed.",
    )
    synchronous: bool = Field(
        default=False,
        description=(
            "Whether all trials wait for each other at each interval, so that they are ranked at the same progress. If "
            "false, each trial is ranked against the latest scores of the others when it reaches the interval."
        ),
    )
    mutations: list[Mutation] = Field(
        default_factory=list,
        max_length=64,
        description=(
            "Parameters to change, in this order, with their bounds if these differ from the search space's. Defaults "
            "to all sampled parameters."
        ),
        json_schema_extra=key_by("name"),
    )


class PbtSettings(PopulationSettings):
    """Population based training (Jaderberg et al., 2017, https://arxiv.org/abs/1711.09846)."""

    perturbation_factors: PerturbationFactors = Field(
        default_factory=PerturbationFactors,
        description=(
            "Factors that a number is multiplied by when it is perturbed. An int is rounded, so with the default "
            "factors 1 and 2 never change; list values for such a parameter as a choice in mutations. A choice moves "
            "to a neighbour in its list."
        ),
    )
    clip: bool = Field(
        default=False,
        description=(
            "Whether a number that has left its domain is moved back to the nearest value in it. If false, it stays "
            "outside."
        ),
    )


class Pb2Settings(PopulationSettings):
    """Population based bandits, PB2 (Parker-Holder et al., 2020, https://arxiv.org/abs/2002.02518).

    Numbers are chosen within their bounds by a model of how much each configuration has gained in an interval; choices
    are changed as PBT does it.
    """


def check_population(
    name: str,
    settings: PopulationSettings,
    search: SearchSpec,
    parameters: Sequence[Parameter],
    path: str = "scheduler",
) -> None:
    """Refuses what can't work: a population without a fixed size, mutations of unknown parameters.

    Raises:
        FieldError: The path starts at the Experiment's spec.
    """
    trials = search.max_trials
    largest = LARGEST_IN_STEP if settings.synchronous else LARGEST
    if not isinstance(trials, int) or not 2 <= trials <= largest:
        kind = f"synchronous {name}" if settings.synchronous else name
        raise FieldError("search.maxTrials", f"{trials} is not a population size for {kind}; use 2 to {largest} trials")
    known = {parameter.name: parameter for parameter in parameters}
    for index, mutation in enumerate(settings.mutations):
        _check_mutation(f"{path}.{name}.mutations[{index}]", mutation, known)
    names = [mutation.name for mutation in settings.mutations]
    if doubled := {mutated for mutated in names if names.count(mutated) > 1}:
        raise FieldError(f"{path}.{name}.mutations", f"{min(doubled)!r} is listed twice; remove one of the two")
    mutable = list_mutable_domains(settings, parameters)
    if not mutable:
        raise FieldError("parameters", f"none is sampled, so {name} has nothing to change; give one a domain")
    if isinstance(settings, Pb2Settings) and all(isinstance(domain, ChoiceDomain) for domain in mutable.values()):
        raise FieldError(f"{path}.{name}", "has only choices to change, but pb2 models only numbers; use pbt")


def _check_mutation(path: str, mutation: Mutation, known: Mapping[str, Parameter]) -> None:
    parameter = known.get(mutation.name)
    if parameter is None:
        raise FieldError(f"{path}.name", f"{mutation.name!r} is not a parameter; use one of {', '.join(known)}")
    if not parameter.is_sampled:
        raise FieldError(f"{path}.name", f"{mutation.name!r} is fixed or computed, so it can't be changed; remove it")
    match mutation.domain, parameter.domain:
        case None, _:
            return
        case ((FloatDomain() | IntDomain()), ChoiceDomain()):
            raise FieldError(path, f"{mutation.name!r} is a choice; give it a choice, or nothing")
        case FloatDomain(), IntDomain():
            raise FieldError(f"{path}.float", f"{mutation.name!r} is an int; give it int bounds, or a choice")
        case IntDomain(), _ if parameter.int_ is None:
            raise FieldError(f"{path}.int", f"{mutation.name!r} is a float; give it float bounds, or a choice")
        case ChoiceDomain(values=values), domain:
            own = [_find_own_value(value, domain) for value in values]
            for index, value in enumerate(own):
                if value is None or value in own[:index]:
                    shown = format_value(values[index])
                    problem = f"{shown!r:.80} can't be a value of {mutation.name!r}, or is listed twice; remove it"
                    raise FieldError(f"{path}.choice.values[{index}]", problem)


def _find_own_value(value: Scalar, domain: Domain) -> Scalar | None:
    """Converts a manifest's value to a parameter's type, within its bounds or not; None if that is impossible."""
    match domain:
        case ChoiceDomain(values=values):
            return next((own for own in values if format_value(own) == format_value(value)), None)
        case IntDomain():
            return value if type(value) is int else None
        case _:
            return float(value) if isinstance(value, int | float) and not isinstance(value, bool) else None


def list_mutable_domains(settings: PopulationSettings, parameters: Sequence[Parameter]) -> Mapping[str, Domain]:
    """What is changed on the way, and within what, in the order in which it is changed."""
    own = {parameter.name: parameter.domain for parameter in parameters if parameter.is_sampled}
    if not settings.mutations:
        return own
    return {mutation.name: _narrow(own[mutation.name], mutation.domain) for mutation in settings.mutations}


def _narrow(own: Domain, given: FloatDomain | IntDomain | ChoiceDomain | None) -> Domain:
    """What a parameter is changed within; a list of numbers in the type that the parameter's own values have."""
    if not isinstance(given, ChoiceDomain):
        return given or own
    return ChoiceDomain(
        values=[value for value in (_find_own_value(v, own) for v in given.values) if value is not None]
    )
