"""A checkpoint by reference, the same in commits, statuses, and lists of what an attempt may start from.

Standard library only, as `podtune.protocol.messages`.
"""

from __future__ import annotations

import json
from collections.abc import Iterable
from dataclasses import asdict, dataclass

from podtune.protocol.fields import ProtocolError, read_count, read_json, read_object, read_text

MAX_URI = 1024
MAX_DIGEST = 80


@dataclass(frozen=True, slots=True)
class CheckpointRef:
    """A checkpoint in the bucket.

    Attributes:
        uri: `s3://bucket/prefix/<experiment uid>/<trial>/<attempt id>/<step>`.
        digest: `sha256:…` of its manifest.
        step: The `step` of the result that it was taken with.
    """

    uri: str
    digest: str
    step: int


def parse_checkpoint(item: object) -> CheckpointRef:
    """Reads a reference.

    Raises:
        ProtocolError: It is not one.
    """
    body = read_object(item, "checkpoint")
    return CheckpointRef(
        uri=read_text(body, "uri", MAX_URI), digest=read_text(body, "digest", MAX_DIGEST), step=read_count(body, "step")
    )


def encode_restore_list(candidates: Iterable[CheckpointRef]) -> str:
    """Encodes the checkpoints that an attempt may start from, the one to try first at the front."""
    return json.dumps([asdict(candidate) for candidate in candidates])


def parse_restore_list(text: str) -> tuple[CheckpointRef, ...]:
    """Reads what `encode_restore_list` wrote; an empty text is an empty list.

    Raises:
        ProtocolError: It is not that.
    """
    return parse_checkpoints(read_json(text) if text else [])


def parse_checkpoints(items: object) -> tuple[CheckpointRef, ...]:
    """Reads a list of references.

    Raises:
        ProtocolError: It is none.
    """
    if not isinstance(items, list):
        raise ProtocolError("the checkpoints to restore from are not a list")
    return tuple(map(parse_checkpoint, items))
