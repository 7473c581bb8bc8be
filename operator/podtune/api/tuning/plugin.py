"""Third-party search algorithms, schedulers and stoppers, installed in the operator's image."""

from __future__ import annotations

import json
from typing import Annotated, Any

from pydantic import Field, field_validator

from podtune.api.base import ApiModel, Form

MAX_SETTINGS = 8192
"""Longest settings of a plugin, in characters of JSON."""


class Plugin(ApiModel):
    """A search algorithm, scheduler or stopper that a package in the operator's image provides."""

    name: Annotated[
        str,
        Form("[A-Za-z0-9]([A-Za-z0-9_.-]*[A-Za-z0-9])?", "is not a valid plugin name; use letters, digits, -, _ and ."),
    ] = Field(max_length=63, description="Name of the plugin's entry point.")
    settings: dict[str, Any] = Field(
        default_factory=dict, description="Settings for the plugin, which validates them itself."
    )

    @field_validator("settings")
    @classmethod
    def _check(cls, settings: dict[str, Any]) -> dict[str, Any]:
        length = len(json.dumps(settings))
        if length > MAX_SETTINGS:
            raise ValueError(f"{length} characters of JSON are too many; give at most {MAX_SETTINGS}")
        return settings
