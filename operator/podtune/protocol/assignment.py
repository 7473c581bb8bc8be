"""What a warm pod is given to do next, and how the attempts that it serves are told apart.

Standard library only, as `podtune.protocol.messages`.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from podtune.protocol.checkpoint import CheckpointRef, parse_checkpoints
from podtune.protocol.fields import ProtocolError, read_clipped, read_count, read_object, read_text

MAX_CONFIGURATION = 64
MAX_ASSIGNED_NAME = 63
MAX_UID = 64


def build_attempt_id(pod_uid: str, trial: str, number: int) -> str:
    """Id of an attempt that shares its pod with others, made of the index that ends the trial's name."""
    return f"{pod_uid}/{trial.rpartition('-')[2]}.{number}"


def parse_pod_uid(attempt: str) -> str:
    """UID of the pod that an attempt runs in; of one that has a pod for itself, that is the attempt's id."""
    return attempt.partition("/")[0]


def parse_attempt_number(attempt: str) -> int:
    """Number of an attempt that shares its pod; 0 where the id doesn't say."""
    number = attempt.partition("/")[2].rpartition(".")[2]
    return int(number) if number.isascii() and number.isdecimal() else 0


def format_attempt_folder(attempt: str) -> str:
    """An attempt's id as one part of a key: of one that shares its pod it has a slash."""
    return attempt.replace("/", "-")


@dataclass(frozen=True, slots=True)
class Assignment:
    """An attempt that a pod is to run next.

    Attributes:
        trial: Name of the trial.
        number: Number of the attempt among the trial's.
        attempt: The attempt's id.
        parameters: The configuration, in its own types.
        display_name: The trial's name for people; empty where it has none.
        seed: What the program may seed its draws with.
        restore_from: The checkpoints to restore from, the one to try first at the front.
        restore_or_fail: As `PODTUNE_RESTORE_OR_FAIL`.
        find: As `PODTUNE_FIND_CHECKPOINTS`.
        configuration: As `PODTUNE_CONFIGURATION`.
        trial_uid: As `PODTUNE_TRIAL_UID`; empty where the operator has not told.
    """

    trial: str
    number: int
    attempt: str
    parameters: Mapping[str, Any]
    display_name: str = ""
    seed: int | None = None
    restore_from: tuple[CheckpointRef, ...] = ()
    restore_or_fail: bool = False
    find: bool = False
    configuration: str = ""
    trial_uid: str = ""

    @property
    def index(self) -> str:
        """Position of the trial among the experiment's."""
        return self.trial.rpartition("-")[2]


def parse_assignment(item: Any) -> Assignment:
    """Reads an assignment.

    Raises:
        ProtocolError: It is not one.
    """
    body = read_object(item, "assignment")
    parameters = read_object(body.get("parameters"), "assignment.parameters")
    if None in parameters.values():
        raise ProtocolError("assignment.parameters holds a null")
    return Assignment(
        trial=read_text(body, "trial", 253),
        number=read_count(body, "number"),
        attempt=read_text(body, "attempt", 128),
        parameters=parameters,
        display_name=read_clipped(body, "display_name", MAX_ASSIGNED_NAME),
        seed=None if body.get("seed") is None else read_count(body, "seed"),
        restore_from=parse_checkpoints(body.get("restore_from", [])),
        restore_or_fail=body.get("restore_or_fail") is True,
        find=body.get("find") is True,
        configuration=read_clipped(body, "configuration", MAX_CONFIGURATION),
        trial_uid=read_clipped(body, "trial_uid", MAX_UID),
    )
