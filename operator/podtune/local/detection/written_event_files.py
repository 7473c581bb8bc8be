"""The event files of TensorBoard that a program has written below its directories, read by the agent's own reader.

That reads below the directory which a pod's containers share. So the files are copied into one of that form, where the
agent's results go, too.
"""

from __future__ import annotations

import io
import re
import shutil
import time
from collections.abc import Mapping, Sequence
from itertools import takewhile
from pathlib import Path

from podtune.agent.event_files.event_file_reader import EventFileReader
from podtune.agent.event_files.file_search import MAX_EVENT_FILES, EventFile, EventFileSearch
from podtune.agent.event_log import EventLog
from podtune.agent.results.result_reader import prepare_directory
from podtune.local.detection.detected_sources import DetectedSource, make_detected_source
from podtune.local.detection.metric_names import choose_objective
from podtune.local.detection.recorded_requests import read_results_file
from podtune.protocol.messages import MetricValue
from podtune.storage.directory import Directory

_DEFAULT = "tensorboard"
"""What `results.tensorBoard.directory` is by default."""
_VARIES = re.compile(r".*\d{4}.*|.*\d[-_:]\d.*|.*[-_]v?\d+")
"""Names that differ from run to run, such as after the time."""
_USABLE = re.compile(r"[A-Za-z0-9_][A-Za-z0-9_.-]*")
_ANY = "*"
_MOST_BYTES = 16 << 20
_EARLIER = 2.0
"""Seconds by which the clock of a file system may be behind."""


class WrittenEventFiles:
    """The event files of one program."""

    def __init__(self, command: Sequence[str], shared: Path, workplace: Path) -> None:
        """Looks below the current directory, below those that the command names, and below the shared one.

        Args:
            command: The program's words.
            shared: Its PODTUNE_DIR.
            workplace: An empty directory, for copies.
        """
        self._command = command
        self._shared = shared
        self._workplace = workplace
        self._since = time.time() - _EARLIER
        self._readings = 0

    def find(self, wanted: str) -> DetectedSource | None:
        """What the agent reads in them; None where there is nothing."""
        for root in self._list_roots():
            files = [file for file in _search(root) if _get_time(root, file) >= self._since]
            if files and (found := self._read(root, files, wanted)):
                return found
        return None

    def _list_roots(self) -> list[Path]:
        """The directories to look below, each once."""
        named = (Path(word.rpartition("=")[2]) for word in self._command if len(word) > 1)
        here = Path.cwd()
        roots = [self._shared, here]
        for path in (each.resolve() for each in named if each.is_dir()):
            if path != Path(path.anchor) and not any(path.is_relative_to(root) for root in roots):
                roots.append(path)
        return roots

    def _read(self, root: Path, files: Sequence[EventFile], wanted: str) -> DetectedSource | None:
        is_named = root not in (self._shared, Path.cwd())
        pattern = (_DEFAULT,) if is_named else _find_pattern(files)
        if not pattern:
            return None
        objective = choose_objective((name for row in self._run(root, files, pattern, "") for name in row), wanted)
        if objective is None:
            return None
        results = self._run(root, files, pattern, objective)
        settings = {} if pattern == (_DEFAULT,) else {"directory": "/".join(pattern)}
        return make_detected_source("tensorBoard", settings, results, objective)

    def _run(
        self, root: Path, files: Sequence[EventFile], pattern: Sequence[str], objective: str
    ) -> list[Mapping[str, MetricValue]]:
        """What the agent makes of copies of the files."""
        self._readings += 1
        place = self._workplace / str(self._readings)
        place.mkdir(parents=True)
        directory = Directory(place)
        prepare_directory(directory)
        is_named = root not in (self._shared, Path.cwd())
        has_default = is_named or any(not file.run for file in files)
        for file in files:
            names = (_DEFAULT, *file.run) if has_default else file.run
            copy = place.joinpath(*names, file.name)
            copy.parent.mkdir(parents=True, exist_ok=True)
            with root.joinpath(*file.run, file.name).open("rb") as source, copy.open("wb") as target:
                shutil.copyfileobj(io.BytesIO(source.read(_MOST_BYTES)), target)
        reader = EventFileReader(tuple(pattern), directory, objective, EventLog(time.time, stream=io.StringIO()))
        reader.finish()
        return read_results_file(directory, objective)


def _search(root: Path) -> list[EventFile]:
    return EventFileSearch(lambda _: None).find(Directory(root), ())[:MAX_EVENT_FILES]


def _get_time(root: Path, file: EventFile) -> float:
    """When a file was written to last; 0 where it has gone."""
    try:
        return root.joinpath(*file.run, file.name).stat().st_mtime
    except FileNotFoundError:
        return 0.0


def _find_pattern(files: Sequence[EventFile]) -> tuple[str, ...]:
    """The directory that all files are below, as `results.tensorBoard.directory` names it; none if it can't."""
    together = takewhile(lambda names: len(set(names)) == 1, zip(*(file.run for file in files), strict=False))
    common = [names[0] for names in together]
    if not all(_USABLE.fullmatch(name) for name in common):
        return ()
    return (_DEFAULT,) if not common else tuple(_ANY if _VARIES.fullmatch(name) else name for name in common)
