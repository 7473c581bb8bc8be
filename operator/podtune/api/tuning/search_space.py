"""The search space of an experiment: its parameters and the domain of each.

A parameter is a tagged union, written the Kubernetes way: exactly one of the fields `float`, `int`, `choice`, `normal`,
`logNormal`, `fixed` and `expression` is set. The first five are domains to sample values from; the last two need no
sampling. `dependencies` holds the relations between parameters.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from contextlib import suppress
from fractions import Fraction
from typing import Annotated, Literal, Self

from pydantic import Field, PlainSerializer, PlainValidator, WithJsonSchema, field_validator, model_validator

from podtune.api.base import ApiModel, FieldError, Form
from podtune.api.expressions.expression import ExpressionText
from podtune.api.json_values import JsonText, decode_value, read_parameter_value

ParameterName = Annotated[
    str,
    Field(max_length=63),
    Form("[A-Za-z_][A-Za-z0-9_]*", "is not a valid parameter name; use letters, digits and _"),
]
Scalar = bool | int | float | str
"""A parameter's value; a list or a map is a `JsonText`."""
ParameterValue = Annotated[
    Scalar,
    PlainValidator(read_parameter_value),
    PlainSerializer(decode_value),
    WithJsonSchema({"x-kubernetes-preserve-unknown-fields": True}),
]
"""A field that holds one, as people write it: a string, number, boolean, list or map."""
MAX_PARENTS = 8
"""How many parameters another one may depend on through conditions."""
_FARTHEST = 8
"""How many standard deviations from the mean a truncated distribution may begin; there is next to nothing farther
out."""


class FloatDomain(ApiModel):
    """A real interval, both ends included."""

    min: float = Field(description="Lower bound, included.")
    max: float = Field(description="Upper bound, included.")
    scale: Literal["linear", "log"] = Field(
        default="linear", description="Whether to draw values uniformly or log-uniformly."
    )
    step: float | None = Field(
        default=None, gt=0, description="Values are min, min + step, … up to max. Can't be combined with scale log."
    )

    @model_validator(mode="after")
    def _check(self) -> Self:
        if self.min > self.max:
            raise FieldError("min", f"min {self.min:g} is above max {self.max:g}; swap them")
        if self.scale == "log" and self.min <= 0:
            raise FieldError("min", f"min {self.min:g} must be above 0 with scale log; raise it or use scale linear")
        if self.scale == "log" and self.step is not None:
            raise FieldError("step", f"step {self.step:g} can't be combined with scale log; remove one of the two")
        return self


class IntDomain(ApiModel):
    """An integer interval, both ends included."""

    min: int = Field(description="Lower bound, included.")
    max: int = Field(description="Upper bound, included.")
    step: int = Field(default=1, ge=1, description="Values are min, min + step, … up to max.")
    scale: Literal["linear", "log"] = Field(
        default="linear", description="Whether to draw values uniformly or log-uniformly."
    )

    @model_validator(mode="after")
    def _check(self) -> Self:
        if self.min > self.max:
            raise FieldError("min", f"min {self.min} is above max {self.max}; swap them")
        if self.scale == "log" and self.min < 1:
            raise FieldError("min", f"min {self.min} must be at least 1 with scale log; raise it or use scale linear")
        if self.scale == "log" and self.step != 1:
            raise FieldError("step", f"step {self.step} can't be combined with scale log; remove one of the two")
        return self


class ChoiceDomain(ApiModel):
    """A finite set of values without an order."""

    values: list[ParameterValue] = Field(
        min_length=1,
        max_length=256,
        description="The values to choose from: strings, numbers, booleans, lists or maps.",
    )

    @model_validator(mode="after")
    def _check(self) -> Self:
        written = [format_value(value) for value in self.values]
        doubled = {value for value in written if written.count(value) > 1}
        if doubled:
            raise FieldError("values", f"{min(doubled)!r} is listed twice; remove one of the two")
        return self


class NormalDomain(ApiModel):
    """Real numbers around a mean, by the normal distribution."""

    mean: float = Field(description="Mean of the distribution, before it is truncated.")
    stddev: float = Field(gt=0, description="Standard deviation of the distribution, before it is truncated.")
    min: float | None = Field(default=None, description="Lower bound, included. The distribution is truncated there.")
    max: float | None = Field(default=None, description="Upper bound, included. The distribution is truncated there.")
    step: float | None = Field(
        default=None,
        gt=0,
        description="Values are rounded to multiples of this. min and max must be multiples of it, too.",
    )

    @model_validator(mode="after")
    def _check(self) -> Self:
        _check_truncation(self, self.mean, self.min, self.max)
        for name, bound in (("min", self.min), ("max", self.max)):
            if bound is not None and self.step is not None and Fraction(repr(bound)) % Fraction(repr(self.step)):
                raise FieldError(name, f"{name} {bound:g} is not a multiple of step {self.step:g}; change one of them")
        return self


class LogNormalDomain(ApiModel):
    """Numbers above 0 whose natural logarithm is normally distributed."""

    mean: float = Field(ge=-700, le=700, description="Mean of the logarithm: values are around exp(mean).")
    stddev: float = Field(gt=0, le=100, description="Standard deviation of the logarithm.")
    min: float | None = Field(
        default=None, gt=0, description="Lower bound, included. The distribution is truncated there."
    )
    max: float | None = Field(
        default=None, gt=0, description="Upper bound, included. The distribution is truncated there."
    )

    @model_validator(mode="after")
    def _check(self) -> Self:
        low, high = (None if bound is None else math.log(bound) for bound in (self.min, self.max))
        _check_truncation(self, self.mean, low, high)
        return self


class FixedValue(ApiModel):
    """A value that is the same for all trials."""

    value: ParameterValue = Field(description="The value: a string, number, boolean, list or map.")


Domain = FloatDomain | IntDomain | ChoiceDomain | NormalDomain | LogNormalDomain
"""What values are sampled from."""
PARAMETER_KINDS = {
    "float": "float_",
    "int": "int_",
    "choice": "choice",
    "normal": "normal",
    "logNormal": "log_normal",
    "fixed": "fixed",
    "expression": "expression",
}
"""What a parameter can be, as a manifest spells it, and its field in the model."""


class Parameter(ApiModel):
    """One hyperparameter: its name, its possible values, and the conditions under which it exists."""

    name: ParameterName = Field(
        description="Name of the parameter; the trial sees it as the environment variable PODTUNE_PARAM_<name>."
    )
    float_: FloatDomain | None = Field(default=None, alias="float", description="A real interval.")
    int_: IntDomain | None = Field(default=None, alias="int", description="An integer interval.")
    choice: ChoiceDomain | None = Field(default=None, description="A finite set of values.")
    normal: NormalDomain | None = Field(default=None, description="Real numbers around a mean.")
    log_normal: LogNormalDomain | None = Field(
        default=None, description="Numbers above 0 whose logarithm is normally distributed."
    )
    fixed: FixedValue | None = Field(default=None, description="The same value for all trials.")
    expression: ExpressionText | None = Field(
        default=None,
        description=(
            "Computed from other parameters, such as batch_size / 256 * 0.1. A resulting text that reads as a number, "
            "true or false becomes one."
        ),
    )
    when: dict[ParameterName, Annotated[list[ParameterValue], Field(max_length=256)]] = Field(
        default_factory=dict,
        max_length=MAX_PARENTS,
        description=(
            "The parameter exists only if each of these parameters exists and has one of the listed values. Trials "
            "without it lack its environment variable."
        ),
    )

    @field_validator("when")
    @classmethod
    def _names_values(cls, when: dict[str, list[Scalar]]) -> dict[str, list[Scalar]]:
        for name, values in when.items():
            if not values:
                raise FieldError(name, "an empty list matches no trial; add a value")
        return when

    @model_validator(mode="after")
    def _check(self) -> Self:
        given = [name for name, field in PARAMETER_KINDS.items() if getattr(self, field) is not None]
        if len(given) != 1:
            found = " and ".join(given) or "none"
            raise ValueError(
                f"parameter {self.name!r} needs exactly one of {', '.join(PARAMETER_KINDS)}; found {found}"
            )
        return self

    @property
    def is_sampled(self) -> bool:
        """Whether a searcher chooses its value; else it is fixed or computed."""
        return self.fixed is None and self.expression is None

    @property
    def holds_json(self) -> bool:
        """Whether some of its values are lists or maps."""
        values = self.choice.values if self.choice is not None else [self.fixed.value] if self.fixed is not None else ()
        return any(isinstance(value, JsonText) for value in values)

    @property
    def domain(self) -> Domain:
        """What its values are sampled from; only a sampled parameter has it."""
        domain = self.float_ or self.int_ or self.choice or self.normal or self.log_normal
        assert domain is not None, f"{self.name} is not sampled"
        return domain


def format_value(value: Scalar) -> str:
    """Writes a parameter's value as it stands in a Trial and in the environment of its pod.

    Floats are written so that reading them back gives the same number; booleans as in YAML.
    """
    if isinstance(value, bool):
        return "true" if value else "false"
    return repr(value) if isinstance(value, float) else str(value)


def parse_value(parameter: Parameter, written: str) -> Scalar:
    """Reads a value back that `format_value` wrote.

    Raises:
        ValueError: The text is not a value of the parameter's domain.
    """
    if parameter.fixed is not None:
        return _find_listed(parameter, [parameter.fixed.value], written)
    if parameter.expression is not None:
        return parse_plain_value(written)
    match parameter.domain:
        case IntDomain():
            return int(written)
        case ChoiceDomain(values=values):
            return _find_listed(parameter, values, written)
        case _:
            return float(written)


def parse_configuration(parameters: Sequence[Parameter], written: Mapping[str, str]) -> dict[str, Scalar]:
    """Reads the values of those parameters that have one, in the manifest's order."""
    return {p.name: parse_value(p, written[p.name]) for p in parameters if p.name in written}


def parse_plain_value(written: str) -> Scalar:
    """Reads a value whose type nobody knows: a boolean or number if `format_value` would write that so, else a text."""
    if written in ("true", "false"):
        return written == "true"
    for kind in (int, float):
        with suppress(ValueError):
            value = kind(written)
            if format_value(value) == written and math.isfinite(value):
                return value
    return written


def _find_listed(parameter: Parameter, values: list[Scalar], written: str) -> Scalar:
    for value in values:
        if format_value(value) == written:
            return value
    raise ValueError(f"{written!r} is not one of the values of parameter {parameter.name!r}")


def _check_truncation(
    domain: NormalDomain | LogNormalDomain, mean: float, low: float | None, high: float | None
) -> None:
    """Refuses bounds between which there is nothing."""
    if domain.min is not None and domain.max is not None and domain.min >= domain.max:
        raise FieldError("min", f"min {domain.min:g} is not below max {domain.max:g}; change one, or use fixed")
    beyond = {"min": -math.inf if low is None else low - mean, "max": -math.inf if high is None else mean - high}
    for name, distance in beyond.items():
        if distance > _FARTHEST * domain.stddev:
            problem = (
                f"{name} {getattr(domain, name):g} leaves only values more than {_FARTHEST} standard deviations from "
                "the mean"
            )
            raise FieldError(name, f"{problem}; move it, or the mean")
