"""Files that a program has logged metrics to, read by the agent's own reader.

That reads below the directory which a pod's containers share. So the files are copied into one of that form, where the
agent's results go, too.
"""

from __future__ import annotations

import io
import shutil
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from podtune.agent.event_log import EventLog
from podtune.agent.metric_files.file_kinds import FileKind
from podtune.agent.metric_files.file_search import MAX_METRIC_FILES, MetricFile, MetricFileSearch
from podtune.agent.metric_files.metric_file_reader import MetricFileReader
from podtune.agent.results.result_reader import prepare_directory
from podtune.local.detection.detected_sources import DetectedSource, make_detected_source
from podtune.local.detection.metric_names import choose_objective
from podtune.local.detection.recorded_requests import read_results_file
from podtune.protocol.messages import MetricValue
from podtune.storage.directory import Directory

_MOST_BYTES = 16 << 20
_EARLIER = 2.0
"""Seconds by which the clock of a file system may be behind."""


class MetricFileCopies:
    """Reads files of one kind that were written since it was made."""

    def __init__(self, kind: FileKind, workplace: Path) -> None:
        """Takes an empty directory, for copies."""
        self._kind = kind
        self._workplace = workplace
        self._since = time.time() - _EARLIER
        self._readings = 0

    def search(self, root: Path, pattern: Sequence[str]) -> list[MetricFile]:
        """The files in the directories below `root` that a pattern leads to; see `MetricFileSearch`."""
        found = MetricFileSearch(self._kind, lambda _: None).find(Directory(root), pattern)[:MAX_METRIC_FILES]
        return [file for file in found if _get_time(root, file) >= self._since]

    def read(
        self,
        field: str,
        settings: Mapping[str, Any],
        pattern: Sequence[str],
        places: Mapping[Path, Sequence[str]],
        wanted: str,
    ) -> DetectedSource | None:
        """What the agent reads in files; None where there is nothing to optimise.

        Args:
            field: See `DetectedSource`.
            settings: See `DetectedSource`.
            pattern: The directories that the agent looks in.
            places: For each file, its place below the directory that the agent shares.
            wanted: The objective that is asked for; empty where any will do.
        """
        names = (name for row in self._run(pattern, places, "") for name in row)
        objective = choose_objective(names, wanted)
        if objective is None:
            return None
        return make_detected_source(field, settings, self._run(pattern, places, objective), objective)

    def _run(
        self, pattern: Sequence[str], places: Mapping[Path, Sequence[str]], objective: str
    ) -> list[Mapping[str, MetricValue]]:
        """What the agent makes of copies of the files."""
        self._readings += 1
        root = self._workplace / str(self._readings)
        root.mkdir(parents=True)
        directory = Directory(root)
        prepare_directory(directory)
        for path, names in places.items():
            copy = root.joinpath(*names)
            copy.parent.mkdir(parents=True, exist_ok=True)
            with path.open("rb") as source, copy.open("wb") as target:
                shutil.copyfileobj(io.BytesIO(source.read(_MOST_BYTES)), target)
        log = EventLog(time.time, stream=io.StringIO())
        MetricFileReader(self._kind, tuple(pattern), directory, objective, log).finish()
        return read_results_file(directory, objective)


def _get_time(root: Path, file: MetricFile) -> float:
    """When a file was written to last; 0 where it has gone."""
    try:
        return (root / file.path).stat().st_mtime
    except FileNotFoundError:
        return 0.0
