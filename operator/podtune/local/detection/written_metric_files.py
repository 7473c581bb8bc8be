"""The files of TensorBoard and of Weights & Biases that a program has written below its directories."""

from __future__ import annotations

import re
from collections.abc import Sequence
from itertools import takewhile
from pathlib import Path

from podtune.agent.metric_files.file_kinds import EVENT_FILE_KIND, WANDB_FILE_KIND
from podtune.agent.metric_files.file_search import MetricFile
from podtune.cluster.pods.result_sources import WANDB_RUNS
from podtune.local.detection.detected_sources import DetectedSource
from podtune.local.detection.metric_file_copies import MetricFileCopies

_DEFAULT = "tensorboard"
"""What `results.tensorBoard.directory` is by default."""
_VARIES = re.compile(r".*\d{4}.*|.*\d[-_:]\d.*|.*[-_]v?\d+")
"""Names that differ from run to run, such as after the time."""
_USABLE = re.compile(r"[A-Za-z0-9_][A-Za-z0-9_.-]*")
_ANY = "*"


class WrittenEventFiles:
    """The event files of TensorBoard that one program has written."""

    def __init__(self, command: Sequence[str], shared: Path, workplace: Path) -> None:
        """Looks below the current directory, below those that the command names, and below the shared one.

        Args:
            command: The program's words.
            shared: Its PODTUNE_DIR.
            workplace: An empty directory, for copies.
        """
        self._command = command
        self._shared = shared
        self._copies = MetricFileCopies(EVENT_FILE_KIND, workplace)

    def find(self, wanted: str) -> DetectedSource | None:
        """What the agent reads in them; None where there is nothing."""
        for root in self._list_roots():
            files = self._copies.search(root, ())
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

    def _read(self, root: Path, files: Sequence[MetricFile], wanted: str) -> DetectedSource | None:
        is_named = root not in (self._shared, Path.cwd())
        pattern = (_DEFAULT,) if is_named else _find_pattern(files)
        if not pattern:
            return None
        has_default = is_named or any(not file.run for file in files)
        places = {root / file.path: (*((_DEFAULT,) if has_default else ()), *file.run, file.name) for file in files}
        settings = {} if pattern == (_DEFAULT,) else {"directory": "/".join(pattern)}
        return self._copies.read("tensorBoard", settings, pattern, places, wanted)


class WrittenWandbFiles:
    """The runs of Weights & Biases that one program has kept: where its variables say, or below the current directory.

    Programs that name a directory themselves, such as those of Lightning, have it below the current one.
    """

    def __init__(self, shared: Path, workplace: Path) -> None:
        """Prepares it.

        Args:
            shared: The program's PODTUNE_DIR.
            workplace: An empty directory, for copies.
        """
        self._shared = shared
        self._copies = MetricFileCopies(WANDB_FILE_KIND, workplace)

    def find(self, wanted: str) -> DetectedSource | None:
        """What the agent reads in them; None where there is nothing."""
        pattern = WANDB_RUNS.split("/")
        for root in (self._shared, Path.cwd()):
            places = {root / file.path: file.path.split("/") for file in self._copies.search(root, pattern)}
            if places and (found := self._copies.read("wandb", {}, pattern, places, wanted)):
                return found
        return None


def _find_pattern(files: Sequence[MetricFile]) -> tuple[str, ...]:
    """The directory that all files are below, as `results.tensorBoard.directory` names it; none if it can't."""
    together = takewhile(lambda names: len(set(names)) == 1, zip(*(file.run for file in files), strict=False))
    common = [names[0] for names in together]
    if not all(_USABLE.fullmatch(name) for name in common):
        return ()
    return (_DEFAULT,) if not common else tuple(_ANY if _VARIES.fullmatch(name) else name for name in common)
