"""The tracking server that a trial's results go to as well, as the operator tells it."""

from __future__ import annotations

import json
import os
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from podtune.protocol.tracking import OF_MLFLOW
from podtune.storage.mounted_secret import read_secret


class TrackerSettingsError(ValueError):
    """The text is not what the operator writes; the message names the field."""


@dataclass(frozen=True, slots=True)
class TrackerSettings:
    """A server of MLflow.

    Attributes:
        uri: Its address.
        experiment: Name of its experiment that runs go to.
        credentials: The directory of a mounted Secret; None where there is none.
        ca_file: Certificates of the authorities that its own is signed by; empty for the system's.
        dashboard: Address of our dashboard, which runs link to; empty where none is known.
    """

    uri: str
    experiment: str
    credentials: Path | None = None
    ca_file: str = ""
    dashboard: str = ""

    def read_credentials(self) -> Mapping[str, str]:
        """The Secret's values; without one those of MLflow's own variables, which only the user of a machine sets."""
        if self.credentials is not None and self.credentials.is_dir():
            return read_secret(self.credentials, OF_MLFLOW)
        return {key: os.environ.get(key, "") for key in OF_MLFLOW}

    @classmethod
    def from_json(cls, text: str) -> TrackerSettings | None:
        """Reads the variable `PODTUNE_TRACKER`; an empty text means that there is none.

        Raises:
            TrackerSettingsError: It is wrong.
        """
        if not text:
            return None
        try:
            body = json.loads(text)
        except ValueError as error:
            raise TrackerSettingsError(f"it is not JSON: {error}") from error
        if not isinstance(body, dict):
            raise TrackerSettingsError("it is not a JSON object")
        credentials = _read_text(body, "credentials")
        uri, experiment = _read_text(body, "uri"), _read_text(body, "experiment")
        if not uri or not experiment:
            raise TrackerSettingsError("uri or experiment is missing")
        return cls(
            uri,
            experiment,
            Path(credentials) if credentials else None,
            _read_text(body, "ca_file"),
            _read_text(body, "dashboard"),
        )


def _read_text(body: Mapping[str, Any], name: str) -> str:
    value = body.get(name, "")
    if not isinstance(value, str):
        raise TrackerSettingsError(f"{name} is {value!r}, not a text")
    return value
