"""The base of all API models, and the field types they share."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Annotated, Any, ClassVar

from pydantic import BaseModel, ConfigDict, Field, GetCoreSchemaHandler, GetJsonSchemaHandler, JsonValue
from pydantic.alias_generators import to_camel
from pydantic_core import CoreSchema, core_schema

_DURATION = re.compile(r"(?:([0-9]+)h)?(?:([0-9]+)m)?(?:([0-9]+)s)?")


class FieldError(ValueError):
    """A field has a value that it can't have.

    Attributes:
        path: The field, below the object that was looked at, as a manifest spells it: `containers[0].image`.
        problem: The value and the remedy, in a sentence.
    """

    def __init__(self, path: str, problem: str) -> None:
        super().__init__(f"{path}: {problem}")
        self.path = path
        self.problem = problem


@dataclass(frozen=True, slots=True)
class Problem:
    """A mistake in a manifest.

    Attributes:
        field: Where it is, as a manifest spells it: `spec.parameters[0].float.min`.
        what: The value and the remedy, in a sentence.
    """

    field: str
    what: str

    def __str__(self) -> str:
        return f"{self.field}: {self.what}"


class ApiModel(BaseModel):
    """A frozen model with camelCase names on the wire; a field that it doesn't know is an error."""

    model_config: ClassVar[ConfigDict] = ConfigDict(
        alias_generator=to_camel,
        populate_by_name=True,
        extra="forbid",
        frozen=True,
        allow_inf_nan=False,
        use_attribute_docstrings=False,
    )


class StatusModel(ApiModel):
    """A model of what the operator itself writes: fields of a later version are passed over, not refused."""

    model_config: ClassVar[ConfigDict] = ConfigDict(extra="ignore")


@dataclass(frozen=True, slots=True)
class Form:
    """Annotation of a text that has to have a form, here and in the API server.

    The `pattern` of JSON Schema would do, but answers a mistake with the pattern alone.

    Attributes:
        pattern: A regular expression for the whole text, in the syntax that Python and RE2 share.
        remedy: What to say after the text that has another form: `is not a duration; write it like 90s`.
    """

    pattern: str
    remedy: str

    def __get_pydantic_core_schema__(self, source: Any, handler: GetCoreSchemaHandler) -> CoreSchema:
        """Checks the text after all else."""
        return core_schema.no_info_after_validator_function(self._check, handler(source))

    def __get_pydantic_json_schema__(self, schema: CoreSchema, handler: GetJsonSchemaHandler) -> dict[str, Any]:
        """Says the same in CEL."""
        rule = {
            "rule": f'self.matches(r"^(?:{self.pattern})$")',
            "message": self.remedy,
            "messageExpression": f'"\'" + self + "\' {self.remedy}"',
        }
        return handler(schema) | {"x-kubernetes-validations": [rule]}

    def _check(self, text: str) -> str:
        if not re.fullmatch(self.pattern, text):
            raise ValueError(f"{text!r} {self.remedy}")
        return text


@dataclass(frozen=True, slots=True)
class IntegerOrWord:
    """Annotation of a whole number that may be one word instead, here and in the API server.

    Attributes:
        low: Lowest number.
        high: Highest number.
        word: The word.
    """

    low: int
    high: int
    word: str

    def __get_pydantic_core_schema__(self, source: Any, handler: GetCoreSchemaHandler) -> CoreSchema:
        """Says one thing of a mistake; a union would say one for each of its types."""
        return core_schema.no_info_plain_validator_function(self._check)

    def __get_pydantic_json_schema__(self, schema: CoreSchema, handler: GetJsonSchemaHandler) -> dict[str, Any]:
        """As Kubernetes has it, for instance in a Service's targetPort."""
        rule = {
            "rule": f"type(self) == int ? self >= {self.low} && self <= {self.high} : self == '{self.word}'",
            "message": f"is neither a whole number from {self.low} to {self.high} nor {self.word}; write one of them",
        }
        return {"x-kubernetes-int-or-string": True, "x-kubernetes-validations": [rule]}

    def _check(self, value: object) -> object:
        if value == self.word:
            return value
        if isinstance(value, bool) or not isinstance(value, int):
            shown = repr(value) if isinstance(value, str) else f"a {type(value).__name__}"
            raise ValueError(f"{shown:.64} is not a whole number; write one without quotes, or {self.word}")
        if value < self.low:
            raise ValueError(f"{value} is too small; it must be at least {self.low}")
        if value > self.high:
            raise ValueError(f"{value} is too large; it may be at most {self.high}")
        return value


_DURATION_REMEDY = "is not a duration; write it like 90s, 10m or 1h30m"
Duration = Annotated[
    str, Field(max_length=20), Form("[0-9]+h([0-9]+m)?([0-9]+s)?|[0-9]+m([0-9]+s)?|[0-9]+s", _DURATION_REMEDY)
]
"""A length of time, such as 90s, 10m or 1h30m; `parse_duration` reads it."""


def parse_duration(duration: str) -> float:
    """Reads a duration such as `1h30m` as seconds.

    Raises:
        ValueError: The text is no duration.
    """
    match = _DURATION.fullmatch(duration)
    if not match or not duration:
        raise ValueError(f"{duration!r} {_DURATION_REMEDY}")
    hours, minutes, secs = (int(part or 0) for part in match.groups())
    return float(hours * 3600 + minutes * 60 + secs)


Size = Annotated[
    str,
    Field(max_length=20),
    Form("[0-9]+(\\.[0-9]+)?(Ki|Mi|Gi|Ti|k|M|G|T)?", "is not a size; write it like 50Gi"),
]
"""A number of bytes, such as 500M or 50Gi; `parse_size` reads it."""


ATOMIC: dict[str, JsonValue] = {"x-kubernetes-map-type": "atomic"}
"""For an object that is only ever written as a whole: it is one managed field, instead of one for each of its own."""


def key_by(key: str) -> dict[str, JsonValue]:
    """For a list whose entries are told apart by a field: the API server holds it unique and merges by it."""
    return {"x-kubernetes-list-type": "map", "x-kubernetes-list-map-keys": [key]}
