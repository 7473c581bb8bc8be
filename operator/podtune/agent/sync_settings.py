"""How checkpoints, artifacts, results, logs and snapshots are stored, as the operator tells it."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from podtune.storage.checkpoint.syncer import DEFAULTS, Options

_TIMEOUT = 1800.0
RETRIES = 100
_PERIOD = 300.0
KEPT_RESULTS = 256 << 20
SEGMENT_PERIOD = 10.0
SNAPSHOT_PERIOD = 300.0


class SyncSettingsError(ValueError):
    """The text is not what the operator writes; the message names the field."""


@dataclass(frozen=True, slots=True)
class ArtifactSettings:
    """What is stored besides results, logs and checkpoints.

    Attributes:
        include: Patterns of files below the shared directory.
        exclude: Patterns of what is left out of them.
        period: Seconds between two looks at what has changed.
        on_checkpoint: Whether there is a look after each checkpoint, too.
    """

    include: tuple[str, ...] = ("*",)
    exclude: tuple[str, ...] = ()
    period: float = _PERIOD
    on_checkpoint: bool = True


@dataclass(frozen=True, slots=True)
class SyncSettings:
    """How things are stored.

    Attributes:
        timeout: Seconds after which a checkpoint's upload, or a restore, is broken off.
        artifacts: What else is stored; None for nothing.
        results: How many bytes of the attempt's results stay in the bucket; none are stored when 0.
        logs: How many bytes of its program's output do; none are stored when 0.
        segment_period: Seconds between two looks at what has changed of results and output.
        snapshot_period: Seconds between two records of the snapshot, at least; none are stored when 0.
    """

    options: Options = DEFAULTS
    timeout: float = _TIMEOUT
    retries: int = RETRIES
    artifacts: ArtifactSettings | None = None
    results: int = KEPT_RESULTS
    logs: int = 0
    segment_period: float = SEGMENT_PERIOD
    snapshot_period: float = SNAPSHOT_PERIOD

    @property
    def keeps_segments(self) -> bool:
        """Whether anything is stored besides checkpoints and artifacts."""
        return bool(self.results or self.logs or self.snapshot_period)

    @classmethod
    def from_json(cls, text: str) -> SyncSettings:
        """Reads the variable `PODTUNE_SYNC`; an empty text means the defaults.

        Raises:
            SyncSettingsError: It is wrong.
        """
        try:
            body = json.loads(text or "{}")
        except ValueError as error:
            raise SyncSettingsError(f"it is not JSON: {error}") from error
        if not isinstance(body, dict):
            raise SyncSettingsError("it is not a JSON object")
        artifacts = body.get("artifacts")
        return cls(
            options=Options(
                packs=body.get("layout", "Plain") == "Packed",
                reuses=body.get("reuseUnchanged", True) is not False,
                exclude=_read_patterns(body, "exclude", ()),
            ),
            timeout=_read_number(body, "timeout", _TIMEOUT),
            retries=int(_read_number(body, "retries", RETRIES)),
            artifacts=None if artifacts is None else _parse_artifacts(artifacts),
            results=int(_read_number(body, "results", KEPT_RESULTS)),
            logs=int(_read_number(body, "logs", 0)),
            segment_period=_read_number(body, "segmentPeriod", SEGMENT_PERIOD),
            snapshot_period=_read_number(body, "snapshotPeriod", SNAPSHOT_PERIOD),
        )


def _parse_artifacts(body: Any) -> ArtifactSettings:
    if not isinstance(body, dict):
        raise SyncSettingsError(f"artifacts is {body!r}, not a JSON object")
    return ArtifactSettings(
        include=_read_patterns(body, "include", ("*",)),
        exclude=_read_patterns(body, "exclude", ()),
        period=_read_number(body, "period", _PERIOD),
        on_checkpoint=body.get("onCheckpoint", True) is not False,
    )


def _read_patterns(body: Mapping[str, Any], name: str, default: tuple[str, ...]) -> tuple[str, ...]:
    value = body.get(name, default)
    if not isinstance(value, list | tuple) or not all(isinstance(item, str) for item in value):
        raise SyncSettingsError(f"{name} is {value!r}, not a list of strings")
    return tuple(value)


def _read_number(body: Mapping[str, Any], name: str, default: float) -> float:
    value = body.get(name, default)
    if isinstance(value, bool) or not isinstance(value, int | float) or not 0 <= value < 1 << 63:
        raise SyncSettingsError(f"{name} is {value!r}, not a number from 0")
    return float(value)
