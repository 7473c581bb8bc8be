"""A rule in CEL, which the API server checks, and builders for the rules that several models share."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from podtune.api.base import ApiModel

_CHANGEABLE = "only desiredState, overrides, limits, retry and checkpointRequest can"


@dataclass(frozen=True, slots=True)
class Rule:
    """One CEL rule.

    Attributes:
        rule: The expression; it must be true.
        message: What is said when it is not, and the remedy.
        expression: A CEL expression of the message with its values, where they are worth naming.
        field: The field below the object that is at fault, such as `.min`.
        is_of_field: Whether it stands at that field, whose value is `self`. The API server looks at it with half the
            effort, and not at all where the field is not there, or was not before.
        is_of_creation: Whether it is about fields that never change. The API server looks at an object's rules again
            whenever its status is written; this one is then passed over.
    """

    rule: str
    message: str
    expression: str | None = None
    field: str | None = None
    is_of_field: bool = False
    is_of_creation: bool = False

    def to_schema(self) -> dict[str, Any]:
        """The rule as an entry of `x-kubernetes-validations`."""
        written: dict[str, Any] = {"rule": self.rule, "message": self.message}
        if self.is_of_creation:
            written |= {"rule": f"oldSelf.hasValue() || ({self.rule})", "optionalOldSelf": True}
        if self.expression is not None:
            written["messageExpression"] = self.expression
        if self.field is not None and not self.is_of_field:
            written["fieldPath"] = self.field
        return written


def require_fixed(field: str, same: str | None = None) -> Rule:
    """A field that stays as it was made: what trials were compared by, or where their checkpoints are.

    Args:
        field: A field that is always there.
        same: When it counts as what it was; when it is equal, unless it is said.
    """
    return Rule(
        rule=same or _require_unchanged(field),
        message=f"{field} can't be changed once the experiment exists; make a new Experiment",
        field=f".{field}",
    )


def require_fixed_optional(field: str) -> Rule:
    """A field that may be left out, and stays so."""
    return require_fixed(field, _require_unchanged_or_absent(field))


def require_fixed_of_trial(field: str) -> Rule:
    """A field of a Trial that is not for its user to change, where there is one."""
    return Rule(
        rule="self == oldSelf",
        message=f"{field} of a trial can't be changed; {_CHANGEABLE}",
        field=f".{field}",
        is_of_field=True,
    )


def require_fixed_presence_in_trial(fields: Sequence[str]) -> Rule:
    """Fields of a Trial that may be left out, and stay so."""
    return Rule(
        rule=" && ".join(f"has(self.{field}) == has(oldSelf.{field})" for field in fields),
        message=f"{', '.join(fields[:-1])} and {fields[-1]} of a trial can't be changed; {_CHANGEABLE}",
    )


def require_exactly_one(model: type[ApiModel]) -> Rule:
    """Of all fields of a model one is given."""
    fields = [field.alias or name for name, field in model.model_fields.items()]
    found = " + ".join(f"(has(self.{field}) ? ' {field}' : '')" for field in fields)
    return Rule(
        rule=f"[{', '.join(f'has(self.{field})' for field in fields)}].exists_one(given, given)",
        message=f"an entry needs exactly one of {', '.join(fields)}; start a new one, with a dash, for each",
        expression=f"'needs exactly one of {', '.join(fields)}; found:' + {found} + '; start an entry for each'",
    )


def require_some_time(field: str) -> Rule:
    """A duration that may be left out, and is not zero."""
    return Rule(
        rule=f"!has(self.{field}) || self.{field}.matches('[1-9]')",
        message=f"{field} is too short; use at least 1s",
        field=f".{field}",
    )


def _require_unchanged(field: str) -> str:
    return f"self.{field} == oldSelf.{field}"


def _require_unchanged_or_absent(field: str) -> str:
    return f"has(self.{field}) == has(oldSelf.{field}) && (!has(self.{field}) || {_require_unchanged(field)})"
