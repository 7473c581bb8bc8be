"""Records of an experiment's snapshot: what a store has to hold for the experiment to be made anew from it alone.

A record is one object of the API, an Experiment or a Trial, as the operator last saw it, or what the experiment has
learnt from an earlier one (its warm start). The operator never touches the store: it hands records to agents and
storage pods, which store them as they are.

Standard library only: the agent imports it, and has to start fast.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from podtune.protocol.fields import ProtocolError, read_count, read_object, read_text

MAX_RECORD = 2 << 20
"""Characters of a record; the API server takes no larger objects."""
WARM_START = "_warm-start"
"""What stands for the name of a Trial in the record of a warm start; no Trial can have this name."""
_MAX_NAME = 253


@dataclass(frozen=True, slots=True)
class SnapshotRecord:
    """An object as it is to be stored.

    Attributes:
        trial: Name of the Trial that it is; empty for the Experiment, `_warm-start` for its warm start.
        version: The object's resource version: of two records of an object, the one with the higher version counts.
        body: The object as JSON.
        has_warm_start: Whether it is an Experiment whose warm start the operator can hand out.
    """

    trial: str
    version: int
    body: str
    has_warm_start: bool = False

    @property
    def is_of_trial(self) -> bool:
        """Whether it is a Trial's."""
        return self.trial not in ("", WARM_START)


@dataclass(frozen=True, slots=True)
class StoredVersions:
    """Which records an agent has stored last; 0 for none.

    Attributes:
        trial: Version of its own Trial's record.
        experiment: Version of the Experiment's.
        lacks_warm_start: Whether the store lacks the record of the experiment's warm start: it alone is asked for then.
    """

    trial: int = 0
    experiment: int = 0
    lacks_warm_start: bool = False


def parse_record(item: object) -> SnapshotRecord:
    """Reads a record.

    Raises:
        ProtocolError: It is not one.
    """
    body = read_object(item, "record")
    trial = body.get("trial", "")
    if not isinstance(trial, str) or len(trial) > _MAX_NAME or "/" in trial:
        raise ProtocolError("record.trial is not the name of a Trial")
    has_warm_start = body.get("has_warm_start") is True
    return SnapshotRecord(trial, read_count(body, "version"), read_text(body, "body", MAX_RECORD), has_warm_start)


def parse_stored_versions(item: object) -> StoredVersions | None:
    """Reads which records an agent has; None where it does not say.

    Raises:
        ProtocolError: It says something else.
    """
    if item is None:
        return None
    body: Mapping[str, Any] = read_object(item, "stored")
    lacks = body.get("lacks_warm_start") is True
    return StoredVersions(read_count(body, "trial"), read_count(body, "experiment"), lacks)
