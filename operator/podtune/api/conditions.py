"""Conditions, as the Kubernetes API conventions have them."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Literal

from pydantic import Field

from podtune.api.base import StatusModel
from podtune.api.names import ConditionType, ExperimentReason

ConditionStatus = Literal["True", "False", "Unknown"]
MAX_MESSAGE = 1024
ORDINARY_IF_FALSE = frozenset(
    {
        ConditionType.COMPLETE,
        ConditionType.FAILED,
        ConditionType.STALLED,
        ConditionType.RECONCILING,
        ConditionType.RUNNING,
        ConditionType.SUCCESS_CRITERIA_MET,
        ConditionType.FAILURE_TARGET,
        ConditionType.SUSPENDED,
        ConditionType.POD_LIMIT_REACHED,
    }
)
"""Conditions that are False where all is well. Of all others, those of a newer operator included, False is bad."""
UNDER_WAY = frozenset({ExperimentReason.IN_PROGRESS, ExperimentReason.STORAGE_WORK_PENDING})
"""Reasons for which a condition does not hold yet."""


class Condition(StatusModel):
    """One observation about a resource."""

    type: str = Field(max_length=64, description="What the condition is about, in CamelCase.")
    status: ConditionStatus = Field(description="Status of the condition: True, False or Unknown.")
    reason: str = Field(max_length=128, description="Why, in one CamelCase word, for programs.")
    message: str = Field(default="", max_length=MAX_MESSAGE, description="Why, in a sentence, for people.")
    last_transition_time: str = Field(max_length=32, description="When the status last changed (RFC 3339).")
    observed_generation: int = Field(default=0, description="Generation of the spec that the condition is based on.")


def clip(text: str, limit: int = MAX_MESSAGE) -> str:
    """Shortens a text to at most `limit` characters, with an ellipsis where something is missing."""
    return text if len(text) <= limit else text[: limit - 1] + "…"


def set_condition(
    conditions: Iterable[Condition],
    type_: ConditionType,
    status: bool | None,
    reason: str,
    message: str,
    *,
    now: str,
    generation: int,
) -> tuple[Condition, ...]:
    """Puts one condition among the others; its transition time moves only when its status does.

    Args:
        conditions: The conditions so far.
        type_: Which one to set.
        status: True, False, or None for Unknown.
        reason: One CamelCase word.
        message: A sentence; shortened when too long.
        now: The present time (RFC 3339).
        generation: `metadata.generation` of what was looked at.

    Returns:
        The conditions, in their old order, a new one last.
    """
    written: ConditionStatus = "Unknown" if status is None else ("True" if status else "False")
    kept = list(conditions)
    position = next((i for i, c in enumerate(kept) if c.type == type_), None)
    before = kept[position] if position is not None else None
    since = before.last_transition_time if before is not None and before.status == written else now
    new = Condition(
        type=type_,
        status=written,
        reason=reason,
        message=clip(message),
        last_transition_time=since,
        observed_generation=generation,
    )
    if position is None:
        kept.append(new)
    else:
        kept[position] = new
    return tuple(kept)


def find_condition(conditions: Iterable[Condition], type_: ConditionType) -> Condition | None:
    """The condition of this type, if there is one."""
    return next((c for c in conditions if c.type == type_), None)


def find_bad_conditions(conditions: Iterable[Condition]) -> list[Condition]:
    """Those that say that something is wrong."""
    untrue = (c for c in conditions if c.status == "False" and c.type not in ORDINARY_IF_FALSE)
    return [condition for condition in untrue if condition.reason not in UNDER_WAY]
