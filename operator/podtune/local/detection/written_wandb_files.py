"""The runs of Weights & Biases that a program has kept: where its variables say, or below the current directory.

Programs that name a directory themselves, such as those of Lightning, have it below the current one.
"""

from __future__ import annotations

from pathlib import Path

from podtune.agent.metric_files.file_kinds import WANDB_FILE_KIND
from podtune.cluster.pods.result_sources import WANDB_RUNS
from podtune.local.detection.detected_sources import DetectedSource
from podtune.local.detection.metric_file_copies import MetricFileCopies


class WrittenWandbFiles:
    """The runs of one program."""

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
