"""The thread that reads the files that a program logs metrics to, and writes what it finds as results.

Where a result was read stands in its line of the results file: one write tells both, so an agent that is started again
neither loses a result nor writes one twice. It reads the files from their starts, for the latest values of other tags.
"""

from __future__ import annotations

import heapq
import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from podtune.agent.endpoint.results_writer import ResultsWriter
from podtune.agent.event_log import EventLog, LogThrottle
from podtune.agent.metric_files.file_kinds import FileKind, MetricRecord, RecordParser
from podtune.agent.metric_files.file_search import MAX_METRIC_FILES, MetricFile, MetricFileSearch
from podtune.agent.metric_files.logged_results import LoggedResults, ReadPosition
from podtune.agent.metric_files.logged_scalars import BadMessage, CorruptFile, ScalarEvent
from podtune.agent.results.poller import Poller
from podtune.agent.results.program_metrics import make_metric_name
from podtune.agent.results.results_file import ResultsFile
from podtune.storage.directory import Directory
from podtune.trial.layout import READ_FROM_KEY

METRIC_FILES_PERIOD = 0.5
"""Seconds between two looks at the files."""


@dataclass(slots=True)
class _ReadFile:
    """What is known of a file.

    Attributes:
        key: Tells it from others, also from one that took its place.
        parser: Reads its records.
        position: How far it was read.
        is_corrupt: Whether the rest of it can't be read.
    """

    key: str
    parser: RecordParser
    position: int = 0
    is_corrupt: bool = False


@dataclass(frozen=True, slots=True)
class _LoggedEvent:
    """What was read."""

    event: ScalarEvent
    run: tuple[str, ...]
    read_from: ReadPosition


class MetricFileReader(Poller):
    """Looks for what was added to the files; see `Poller`."""

    def __init__(
        self, kind: FileKind, pattern: Sequence[str], directory: Directory, objective: str, log: EventLog
    ) -> None:
        """Prepares it.

        Args:
            kind: The kind of files to read.
            pattern: The names of the directories that lead to the files, below the shared one; see `file_search`.
            directory: The directory shared with the program, where results are written, too.
            objective: Name of the objective's metric.
            log: Where to tell of trouble.
        """
        super().__init__(kind.name, METRIC_FILES_PERIOD)
        self._kind = kind
        self._pattern = tuple(pattern)
        self._directory = directory
        self._log = log
        self._writer = ResultsWriter(directory)
        self._results = LoggedResults(objective)
        self._has_learned = False
        self._files: dict[str, _ReadFile] = {}
        self._failures = LogThrottle()
        self._unwritten: list[Mapping[str, Any]] = []

    def look(self) -> None:
        """Reads what was added, and writes the results that it makes."""
        if not self._learn() or not self._write(()):
            return
        for logged in heapq.merge(*map(self._read, self._find()), key=lambda logged: logged.event.time):
            if self.is_late:
                self._complain("metric files are not read to their ends", "the program has ended, and time is up")
                return
            if not self._write(self._take(logged)):
                return
        self._write(filter(None, (self._results.complete(),)))

    def finish(self) -> None:
        """Reads to the end; says what there was instead, where the program has never logged the objective."""
        self.look()
        self._write(filter(None, (self._results.build_rest(),)))

    def close(self) -> None:
        """See `Poller`."""
        super().close()
        self._writer.close()

    def _learn(self) -> bool:
        """Goes on where an earlier process of this agent has stopped; whether it is known where that was."""
        if self._has_learned:
            return True
        file = ResultsFile(self._directory)
        mark = READ_FROM_KEY.encode()
        try:
            while lines := file.read_lines():
                for line in filter(None, (_parse(line) for line in lines if mark in line)):
                    self._results.learn(line)
        except OSError as error:
            self._complain("results file can't be read", error)
            return False
        finally:
            file.close()
        self._has_learned = True
        return True

    def _find(self) -> list[MetricFile]:
        """The files that hold more than was read."""

        def complain(error: OSError) -> None:
            self._complain("metric files can't be listed", error)

        found = MetricFileSearch(self._kind, complain).find(self._directory, self._pattern)
        if len(found) > MAX_METRIC_FILES:
            self._complain("metric file passed over", f"there are more than {MAX_METRIC_FILES}; log to fewer")
        known = ((file, self._know(file)) for file in found[:MAX_METRIC_FILES])
        return [file for file, state in known if state.position < file.size and not state.is_corrupt]

    def _know(self, file: MetricFile) -> _ReadFile:
        """What is known of a file; nothing of one that took another's place."""
        key = f"{file.path}#{file.inode}"
        known = self._files.get(file.path)
        if known is None or known.key != key or file.size < known.position:
            known = self._files[file.path] = _ReadFile(key, self._kind.make_parser())
        return known

    def _read(self, file: MetricFile) -> Iterator[_LoggedEvent]:
        """What was added to a file."""
        known = self._know(file)
        try:
            with file.directory.open_file(file.name) as descriptor:
                records = self._kind.open_records(descriptor, known.position)
                try:
                    for record in records.read():
                        if event := self._parse_record(known, record):
                            yield _LoggedEvent(event, file.run, ReadPosition(known.key, record.end))
                        known.position = record.end  # once it is asked for what follows
                    known.position = records.position
                except CorruptFile as error:
                    known.is_corrupt = True
                    self._complain("metric file is corrupt", f"{error}; the rest of it is passed over", file.path)
        except OSError as error:
            self._complain("metric file can't be read", error, file.path)

    def _parse_record(self, known: _ReadFile, record: MetricRecord) -> ScalarEvent | None:
        """The scalars of a record; None where it has none, or is damaged."""
        try:
            event = known.parser.parse(record.data)
        except BadMessage as error:
            self._complain("record is damaged", f"{error}; it is passed over", known.key)
            return None
        if event is not None and not record.is_intact:
            self._complain("record is damaged", "its checksum is wrong; it is passed over", known.key)
            return None
        return event

    def _take(self, logged: _LoggedEvent) -> Iterator[Mapping[str, Any]]:
        for scalar in logged.event.scalars:
            name = make_metric_name((*logged.run, scalar.tag))
            result = self._results.take(name, scalar.value, logged.event.step, logged.read_from)
            if result is not None:
                yield result

    def _write(self, results: Iterable[Mapping[str, Any]]) -> bool:
        """Writes results, those first that could not be written before; returns whether all are written."""
        self._unwritten += results
        while self._unwritten:
            try:
                self._writer.append(self._unwritten[0])
            except OSError as error:
                self._complain("result can't be written", error)
                return False
            del self._unwritten[0]
        return True

    def _complain(self, event: str, error: object, file: str = "") -> None:
        if self._failures.should_log():
            self._log.warning(event, message=str(error), file=file, times=self._failures.count)


def _parse(line: bytes) -> Mapping[str, Any] | None:
    try:
        body = json.loads(line)
    except (ValueError, RecursionError):
        return None
    return body if isinstance(body, dict) else None
