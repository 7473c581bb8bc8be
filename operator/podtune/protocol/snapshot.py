"""Records of an experiment's snapshot: what a store has to hold for the experiment to be made anew from it alone.

A record is one object of the API, an Experiment or a Trial, as the operator last saw it. The operator never touches the
store: it hands records to agents and storage pods, which store them as they are.

Standard library only: the agent imports it, and has to start fast.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from podtune.protocol.fields import ProtocolError, read_count, read_object, read_text

MAX_RECORD = 2 << 20
"""Characters of a record; the API server takes no larger objects."""
_MAX_NAME = 253


@dataclass(frozen=True, slots=True)
class SnapshotRecord:
    """An object as it is to be stored.

    Attributes:
        trial: Name of the Trial that it is; empty for the Experiment.
        version: The object's resource version: of two records of an object, the one with the higher version counts.
        body: The object as JSON.
    """

    trial: str
    version: int
    body: str


@dataclass(frozen=True, slots=True)
class StoredVersions:
    """Which records an agent has stored last; 0 for none.

    Attributes:
        trial: Version of its own Trial's record.
        experiment: Version of the Experiment's.
    """

    trial: int = 0
    experiment: int = 0


def parse_record(item: object) -> SnapshotRecord:
    """Reads a record.

    Raises:
        ProtocolError: It is not one.
    """
    body = read_object(item, "record")
    trial = body.get("trial", "")
    if not isinstance(trial, str) or len(trial) > _MAX_NAME or "/" in trial:
        raise ProtocolError("record.trial is not the name of a Trial")
    return SnapshotRecord(trial, read_count(body, "version"), read_text(body, "body", MAX_RECORD))


def parse_stored_versions(item: object) -> StoredVersions | None:
    """Reads which records an agent has; None where it does not say.

    Raises:
        ProtocolError: It says something else.
    """
    if item is None:
        return None
    body: Mapping[str, Any] = read_object(item, "stored")
    return StoredVersions(read_count(body, "trial"), read_count(body, "experiment"))
