"""A segment: one object with some of the records of a stream, and what its key and its first line say of it.

S3 can't append to an object. So what grows while a trial runs is stored in segments: the last one of a stream, the
active one, is stored again and again until it is full, and the ones before it never change any more. Their keys tell
the number and the time of their first record, so that a listing alone says where to look.
"""

from __future__ import annotations

import json
import re
from dataclasses import asdict, dataclass

from podtune.protocol.fields import ProtocolError, read_count, read_json, read_object, read_text
from podtune.protocol.messages import MAX_ATTEMPT

RESULT_STREAM = "results"
"""Kind of the stream that holds results, one on each line."""
LOG_STREAM = "logs"
"""Kind of the stream that holds lines of the program's output, each after the time of its print."""
_SUFFIXES = {RESULT_STREAM: ".jsonl", LOG_STREAM: ".log"}
FORMAT = 1
LATEST = 10**13 - 1
"""The latest time that a name can tell, in milliseconds since the epoch."""
_MAX_NAME = 253
_NAME = re.compile(r"([0-9]{10})-([0-9]{13})(\.[a-z]+)")


@dataclass(frozen=True, slots=True)
class SegmentHeader:
    """What the first line of a segment says of its stream.

    Attributes:
        attempt: The attempt's id.
        number: Number of the attempt among the trial's.
        rank: Rank of the pod in its gang; 0 where it is alone.
    """

    namespace: str
    experiment: str
    trial: str
    attempt: str
    number: int
    rank: int = 0


def encode_header(header: SegmentHeader, stream: str = RESULT_STREAM) -> bytes:
    """Encodes the first line of a segment of a kind of stream."""
    return json.dumps({"podtune": stream, "version": FORMAT, **asdict(header)}).encode() + b"\n"


def parse_header(line: bytes, stream: str = RESULT_STREAM) -> SegmentHeader:
    """Reads the first line of a segment of a kind of stream.

    Raises:
        ProtocolError: It is not one, or of a version that is not known.
    """
    body = read_object(read_json(line), "header")
    if body.get("podtune") != stream or body.get("version") != FORMAT:
        raise ProtocolError(f"it is not the header of a segment of {stream} of version {FORMAT}")
    return SegmentHeader(
        namespace=read_text(body, "namespace", _MAX_NAME),
        experiment=read_text(body, "experiment", _MAX_NAME),
        trial=read_text(body, "trial", _MAX_NAME),
        attempt=read_text(body, "attempt", MAX_ATTEMPT),
        number=read_count(body, "number"),
        rank=read_count(body, "rank"),
    )


@dataclass(frozen=True, slots=True, order=True)
class SegmentName:
    """The last part of a segment's key; names sort as their records do.

    Attributes:
        first: Number of its first record.
        time_ms: When that was read, in milliseconds since the epoch.
    """

    first: int
    time_ms: int

    def format(self, stream: str = RESULT_STREAM) -> str:
        """As it stands in the key, in a kind of stream."""
        return f"{self.first:010d}-{self.time_ms:013d}{_SUFFIXES[stream]}"


def parse_segment_name(text: str, stream: str = RESULT_STREAM) -> SegmentName | None:
    """Reads the last part of a key; None where it is not that of a segment of this kind of stream."""
    match = _NAME.fullmatch(text)
    return SegmentName(int(match[1]), int(match[2])) if match and match[3] == _SUFFIXES[stream] else None
