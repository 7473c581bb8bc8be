"""What TensorBoard's HParams tab shows, as the operator tells it."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from podtune.agent.trackers.tracker_settings import TrackerSettingsError
from podtune.storage.event_files.hparams import Hyperparameter, find_type


@dataclass(frozen=True, slots=True)
class EventFileSettings:
    """The table of an experiment.

    Attributes:
        parameters: What is known of its parameters before there are values.
        metrics: The metrics that have columns.
        dashboard: Address of our dashboard; empty where none is known.
    """

    parameters: tuple[Mapping[str, Any], ...]
    metrics: tuple[str, ...]
    dashboard: str = ""

    @classmethod
    def from_json(cls, text: str) -> EventFileSettings | None:
        """Reads the variable `PODTUNE_TENSORBOARD`; an empty text means that no event files are stored.

        Raises:
            TrackerSettingsError: It is wrong.
        """
        if not text:
            return None
        try:
            body = json.loads(text)
            parsed = cls(tuple(body["parameters"]), tuple(map(str, body["metrics"])), str(body.get("dashboard", "")))
            list(parsed.list_parameters({}))
        except (ValueError, KeyError, TypeError, AttributeError, IndexError) as error:
            raise TrackerSettingsError(f"it can't be read ({type(error).__name__}: {error})") from error
        return parsed

    def list_parameters(self, values: Mapping[str, Any]) -> Iterator[Hyperparameter]:
        """The parameters as the tab lists them; what the search space does not tell, a trial's values do."""
        for entry in self.parameters:
            name, interval = str(entry["name"]), entry.get("interval")
            choices = list(entry.get("choices", ()))
            yield Hyperparameter(
                name,
                find_type(choices or ([0.0] if interval else [values[name]] if name in values else [])),
                choices if all(isinstance(choice, str) for choice in choices) else (),
                (float(interval[0]), float(interval[1])) if interval else None,
            )
