"""The base of all API models, and the field types they share."""

from __future__ import annotations

import re
from typing import Annotated

from pydantic import AfterValidator, BaseModel, ConfigDict, Field, JsonValue
from pydantic.alias_generators import to_camel

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


class ApiModel(BaseModel):
    """A frozen model with camelCase names on the wire; a field that it doesn't know is an error."""

    model_config = ConfigDict(
        alias_generator=to_camel,
        populate_by_name=True,
        extra="forbid",
        frozen=True,
        allow_inf_nan=False,
        use_attribute_docstrings=False,
    )


class StatusModel(ApiModel):
    """A model of what the operator itself writes: fields of a later version are passed over, not refused."""

    model_config = ConfigDict(extra="ignore")


def seconds(duration: str) -> float:
    """Reads a duration such as `1h30m` as seconds.

    Raises:
        ValueError: The text is no duration.
    """
    match = _DURATION.fullmatch(duration)
    if not match or not duration:
        raise ValueError(f"{duration!r} is not a duration; write it like 90s, 10m or 1h30m")
    hours, minutes, secs = (int(part or 0) for part in match.groups())
    return float(hours * 3600 + minutes * 60 + secs)


def _checked_duration(text: str) -> str:
    seconds(text)
    return text


Duration = Annotated[
    str,
    Field(
        max_length=20,
        json_schema_extra={
            "x-kubernetes-validations": [
                {
                    "rule": "size(self) > 0 && self.matches('^([0-9]+h)?([0-9]+m)?([0-9]+s)?$')",
                    "message": "not a duration; write it like 90s, 10m or 1h30m",
                    "messageExpression": "'\\'' + self + '\\' is not a duration; write it like 90s, 10m or 1h30m'",
                }
            ]
        },
    ),
    AfterValidator(_checked_duration),
]
"""A length of time, such as 90s, 10m or 1h30m; `seconds` reads it."""


def keyed_by(key: str) -> dict[str, JsonValue]:
    """For a list whose entries are told apart by a field: the API server holds it unique and merges by it."""
    return {"x-kubernetes-list-type": "map", "x-kubernetes-list-map-keys": [key]}
