"""How a trial's event files are called: TensorBoard reads those of a folder in the order of their names."""

from __future__ import annotations

import re
from dataclasses import dataclass

from podtune.storage.segments.segment import SegmentName

TABLE_FILE = "events.out.tfevents.0000000000.podtune"
"""The experiment's own file, which is the same whoever stores it."""
_FILE = re.compile(r"events\.out\.tfevents\.([0-9]{10})\.podtune\.([0-9]{10})-([0-9]{13})")
_FAILURE = re.compile(r"events\.out\.tfevents\.[0-9]{10}\.podtune\.failed")


@dataclass(frozen=True, slots=True)
class EventFileNaming:
    """The names of an attempt's files.

    Attributes:
        attempt: Number of the attempt among the trial's.
    """

    attempt: int

    def format(self, name: SegmentName) -> str:
        """See `SegmentNaming`."""
        return f"events.out.tfevents.{self.attempt:010d}.podtune.{name.first:010d}-{name.time_ms:013d}"

    def parse(self, text: str) -> SegmentName | None:
        """See `SegmentNaming`; None of the files of other attempts."""
        match = _FILE.fullmatch(text)
        return SegmentName(int(match[2]), int(match[3])) if match and int(match[1]) == self.attempt else None


def find_last_attempt(names: list[str]) -> int:
    """The last attempt that has files in a trial's folder; 0 where none has."""
    matches = (_FILE.fullmatch(name) for name in names)
    return max((int(match[1]) for match in matches if match), default=0)


def format_failure_file(attempt: int) -> str:
    """The name of the file that says that the trial has failed with this attempt: it comes after the attempt's own."""
    return f"events.out.tfevents.{attempt:010d}.podtune.failed"


def is_failure_file(name: str) -> bool:
    """Whether a file says that the trial has failed."""
    return _FAILURE.fullmatch(name) is not None
