"""The kinds of files that a program logs metrics to: how they are found, and what reads their records."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Protocol

from podtune.agent.event_files.records import RecordFile
from podtune.agent.event_files.scalars import ScalarParser
from podtune.agent.metric_files.logged_scalars import ScalarEvent
from podtune.agent.wandb_files.history import HistoryParser
from podtune.agent.wandb_files.run_log import RunLog


class MetricRecord(Protocol):
    """A record of a file."""

    @property
    def data(self) -> bytes:
        """What it holds."""

    @property
    def end(self) -> int:
        """Where in the file it ends."""

    @property
    def is_intact(self) -> bool:
        """Whether the data is what was written."""


class OpenRecords(Protocol):
    """The records of an open file, from a position on to the end that it has now.

    Attributes:
        position: Where the next record begins.
    """

    position: int

    def read(self) -> Iterator[MetricRecord]:
        """The records that are complete.

        Raises:
            CorruptFile: What follows is no record; `position` says where.
            OSError: The file can't be read.
        """


class RecordParser(Protocol):
    """Reads the records of one file in their order."""

    def parse(self, record: bytes) -> ScalarEvent | None:
        """The scalars of a record; None where it has none.

        Raises:
            BadMessage: It is none.
        """


@dataclass(frozen=True, slots=True)
class FileKind:
    """A kind of files.

    Attributes:
        name: Tells it from others.
        is_one: Whether a file is of this kind, by its name.
        depth: How many directories deeper than those that are searched such files may be.
        open_records: Reads an open file, whose descriptor it is given, from a position on.
        make_parser: Makes what reads the records of one file.
    """

    name: str
    is_one: Callable[[str], bool]
    depth: int
    open_records: Callable[[int, int], OpenRecords]
    make_parser: Callable[[], RecordParser]


EVENT_FILE_KIND = FileKind("event-files", lambda name: "tfevents" in name, 8, RecordFile, ScalarParser)
"""Those of TensorBoard."""
WANDB_FILE_KIND = FileKind("wandb-files", lambda name: name.endswith(".wandb"), 0, RunLog, HistoryParser)
"""Those of the client of Weights & Biases."""
