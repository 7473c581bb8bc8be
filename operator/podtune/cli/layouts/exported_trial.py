"""A Trial as it goes into files that other programs read."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from pydantic import JsonValue, ValidationError

from podtune.api.json_values import decode_value
from podtune.api.names import TrialState
from podtune.api.tuning.search_space import Parameter, parse_plain_value, parse_value
from podtune.cli.client.resources import ExperimentView, TrialView
from podtune.runner.timestamps import parse_rfc3339


@dataclass(frozen=True, slots=True)
class ExportedTrial:
    """What is told of a Trial besides its results.

    Attributes:
        parameters: Those that it runs with now, or ran with at last, in their own types.
        has_changed: Whether it began with others, as after an exploit: nobody knows which results came of which.
        start: When it has begun, in seconds since the epoch; 0 where it has not.
        end: When it has ended; 0 where it has not.
    """

    name: str
    parameters: Mapping[str, JsonValue]
    has_changed: bool
    state: str
    start: float
    end: float

    @property
    def has_succeeded(self) -> bool:
        """Whether it has come to a good end."""
        return self.state == TrialState.TERMINATED


def describe_trial(experiment: ExperimentView, view: TrialView) -> ExportedTrial:
    """Reads what is told of a Trial."""
    return ExportedTrial(
        name=view.name,
        parameters=_decode(experiment.spec.get("parameters") or (), view.parameters),
        has_changed=bool(view.status.parameters) and dict(view.status.parameters) != dict(view.proposed),
        state=view.state,
        start=parse_rfc3339(view.status.start_time) or 0.0,
        end=parse_rfc3339(view.status.completion_time) or 0.0,
    )


def _decode(parameters: Sequence[Mapping[str, Any]], written: Mapping[str, str]) -> dict[str, JsonValue]:
    """Values in their own types; of a kind that a later operator knows, as they look."""
    decoded: dict[str, JsonValue] = {}
    for parameter in parameters:
        name = str(parameter.get("name", ""))
        if name not in written:
            continue
        try:
            value = parse_value(Parameter.model_validate(parameter), written[name])
        except (ValidationError, ValueError):
            value = parse_plain_value(written[name])
        decoded[name] = decode_value(value)
    return decoded
