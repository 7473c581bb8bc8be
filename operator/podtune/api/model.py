"""The base of all API models, and the field types they share."""

from __future__ import annotations

import re
from typing import Annotated

from pydantic import BaseModel, ConfigDict, Field
from pydantic.alias_generators import to_camel

_DURATION = re.compile(r"^(?:(\d+)h)?(?:(\d+)m)?(?:(\d+)s)?$")


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


Duration = Annotated[
    str,
    Field(
        min_length=2,
        max_length=20,
        pattern=r"^([0-9]+h)?([0-9]+m)?([0-9]+s)?$",
        examples=["90s", "10m", "1h30m"],
    ),
]


def seconds(duration: str) -> float:
    """Reads a duration such as `1h30m` as seconds.

    Raises:
        ValueError: The text is no duration.
    """
    match = _DURATION.match(duration)
    if not match or not duration:
        raise ValueError(f"{duration!r} is not a duration; write it like 90s, 10m or 1h30m")
    hours, minutes, secs = (int(part or 0) for part in match.groups())
    return float(hours * 3600 + minutes * 60 + secs)
