"""The search space of an experiment: its parameters and the domain of each.

A domain is a tagged union written the Kubernetes way: exactly one of the fields `float`, `int`, `choice` is set.
"""

from __future__ import annotations

from typing import Annotated, Any, Literal, Self

from pydantic import Field, StrictBool, StrictFloat, StrictInt, StrictStr, field_validator, model_validator

from podtune.api.model import ApiModel, FieldError, Form

ParameterName = Annotated[
    str,
    Field(max_length=63),
    Form("[A-Za-z_][A-Za-z0-9_]*", "can't name an environment variable; use letters, digits and _"),
]
Scalar = StrictBool | StrictInt | StrictFloat | StrictStr
MAX_TEXT = 1024


class FloatDomain(ApiModel):
    """A real interval, both ends included."""

    min: float = Field(description="Lower bound, included.")
    max: float = Field(description="Upper bound, included.")
    scale: Literal["linear", "log"] = Field(
        default="linear", description="Whether values are drawn uniformly or log-uniformly."
    )
    step: float | None = Field(
        default=None, gt=0, description="Values are min, min + step, … up to max. Not together with scale log."
    )

    @model_validator(mode="after")
    def _check(self) -> Self:
        if self.min > self.max:
            raise FieldError("min", f"min {self.min:g} is above max {self.max:g}; swap them")
        if self.scale == "log" and self.min <= 0:
            raise FieldError("min", f"min {self.min:g} must be above 0 with scale log; raise it or use scale linear")
        if self.scale == "log" and self.step is not None:
            raise FieldError("step", f"step {self.step:g} can't be combined with scale log; drop one of the two")
        return self


class IntDomain(ApiModel):
    """An integer interval, both ends included."""

    min: int = Field(description="Lower bound, included.")
    max: int = Field(description="Upper bound, included.")
    step: int = Field(default=1, ge=1, description="Values are min, min + step, … up to max.")
    scale: Literal["linear", "log"] = Field(
        default="linear", description="Whether values are drawn uniformly or log-uniformly."
    )

    @model_validator(mode="after")
    def _check(self) -> Self:
        if self.min > self.max:
            raise FieldError("min", f"min {self.min} is above max {self.max}; swap them")
        if self.scale == "log" and self.min < 1:
            raise FieldError("min", f"min {self.min} must be at least 1 with scale log; raise it or use scale linear")
        if self.scale == "log" and self.step != 1:
            raise FieldError("step", f"step {self.step} can't be combined with scale log; drop one of the two")
        return self


class ChoiceDomain(ApiModel):
    """A finite set of values without an order."""

    values: list[Scalar] = Field(
        min_length=1, max_length=256, description="The values to choose from: strings, numbers or booleans."
    )

    @field_validator("values", mode="before")
    @classmethod
    def _holds_scalars(cls, values: Any) -> Any:
        """Says it in one sentence; a union would say it once for each of its types."""
        for position, value in enumerate(values if isinstance(values, list) else ()):
            if not isinstance(value, bool | int | float | str):
                kind = {dict: "map", list: "list", type(None): "null"}.get(type(value), type(value).__name__)
                raise FieldError(f"[{position}]", f"a {kind} can't be a value; use a string, number or boolean")
            if isinstance(value, str) and len(value) > MAX_TEXT:
                raise FieldError(f"[{position}]", f"a text of {len(value)} characters; shorten it to {MAX_TEXT}")
        return values

    @model_validator(mode="after")
    def _check(self) -> Self:
        written = [format_value(value) for value in self.values]
        doubled = {value for value in written if written.count(value) > 1}
        if doubled:
            raise FieldError("values", f"{min(doubled)!r} stands there twice; remove one of the two")
        return self


class Parameter(ApiModel):
    """One hyperparameter: a name and exactly one domain."""

    name: ParameterName = Field(
        description="Name of the parameter; the trial sees it as the environment variable PODTUNE_PARAM_<name>."
    )
    float_: FloatDomain | None = Field(default=None, alias="float", description="A real interval.")
    int_: IntDomain | None = Field(default=None, alias="int", description="An integer interval.")
    choice: ChoiceDomain | None = Field(default=None, description="A finite set of values.")

    @model_validator(mode="after")
    def _check(self) -> Self:
        given = [name for name, value in (("float", self.float_), ("int", self.int_), ("choice", self.choice)) if value]
        if len(given) != 1:
            found = " and ".join(given) or "none"
            raise ValueError(f"parameter {self.name!r} needs exactly one of float, int, choice; found {found}")
        return self

    @property
    def domain(self) -> FloatDomain | IntDomain | ChoiceDomain:
        """The one domain that is set."""
        domain = self.float_ or self.int_ or self.choice
        assert domain is not None  # _check holds this
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
    match parameter.domain:
        case FloatDomain():
            return float(written)
        case IntDomain():
            return int(written)
        case ChoiceDomain(values=values):
            for value in values:
                if format_value(value) == written:
                    return value
            raise ValueError(f"{written!r} is not one of the values of parameter {parameter.name!r}")
