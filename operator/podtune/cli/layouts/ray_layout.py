"""Results as Ray Tune lays them out: for each Trial a folder with params.json, result.json and progress.csv.

After https://docs.ray.io/en/latest/tune/tutorials/tune-output.html. Columns that Ray fills in are there as far as they
are known: of a machine, its address and the process nothing is. Times are in UTC.
"""

from __future__ import annotations

import csv
import json
from collections.abc import Iterable, Mapping
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from podtune.cli.layouts.exported_trial import ExportedTrial
from podtune.storage.segments.reader import StoredResult
from podtune.trial.layout import TIME_THIS_ITER, TIME_TOTAL

PARAMS_FILE = "params.json"
RESULT_FILE = "result.json"
PROGRESS_FILE = "progress.csv"
_CONFIG = "config"


class RayLayout:
    """Writes files as results come, in order of time; see `LayoutWriter`."""

    def __init__(self, directory: Path, trials: Iterable[ExportedTrial]) -> None:
        self._directory = directory
        self._trials = {trial.name: trial for trial in trials}
        self._last: dict[str, dict[str, Any]] = {}
        """Of each trial the row that is not written yet: of the last one it is told that it is."""
        self._begun: dict[tuple[str, str], float] = {}
        """How long a trial had trained when an attempt began, by its name and the attempt's id."""
        for trial in self._trials.values():
            folder = directory / trial.name
            folder.mkdir()
            (folder / RESULT_FILE).touch()
            text = json.dumps(trial.parameters, indent=2, sort_keys=True, ensure_ascii=False)
            (folder / PARAMS_FILE).write_text(f"{text}\n", encoding="utf-8")

    def add(self, stored: StoredResult) -> None:
        """See `LayoutWriter`."""
        trial = self._trials.get(stored.trial)
        if trial is None:
            return  # its Trial is gone
        if stored.trial in self._last:
            self._write(stored.trial)
        self._last[stored.trial] = self._build_row(trial, stored)

    def finish(self) -> None:
        """See `LayoutWriter`."""
        for name, row in self._last.items():
            row["done"] = self._trials[name].has_succeeded
            self._write(name)
            _write_table(self._directory / name)

    def _build_row(self, trial: ExportedTrial, stored: StoredResult) -> dict[str, Any]:
        result = stored.result
        filled: dict[str, Any] = {
            "done": False,
            "trial_id": trial.name,
            "timestamp": int(result.time),
            "date": datetime.fromtimestamp(result.time, UTC).strftime("%Y-%m-%d_%H-%M-%S"),
            "iterations_since_restore": result.seq,
            **self._measure_since_restore(stored),
            **({} if trial.has_changed else {_CONFIG: trial.parameters}),
        }
        return dict(result.metrics) | {name: value for name, value in filled.items() if name not in result.metrics}

    def _measure_since_restore(self, stored: StoredResult) -> dict[str, float]:
        """How long the attempt has trained; nothing where its first result is not kept."""
        total, last = (stored.result.metrics.get(name) for name in (TIME_TOTAL, TIME_THIS_ITER))
        if not isinstance(total, int | float) or not isinstance(last, int | float):
            return {}
        attempt = (stored.trial, stored.attempt)
        if stored.result.seq == 1:
            self._begun[attempt] = total - last
        return {"time_since_restore": total - self._begun[attempt]} if attempt in self._begun else {}

    def _write(self, trial: str) -> None:
        with (self._directory / trial / RESULT_FILE).open("a", encoding="utf-8") as file:
            file.write(json.dumps(self._last[trial], ensure_ascii=False) + "\n")


def _write_table(folder: Path) -> None:
    """The rows of a trial as a table, without the configuration; a metric that appears late has a column, too."""
    with (folder / RESULT_FILE).open(encoding="utf-8") as lines:
        rows = [_leave_out_config(json.loads(line)) for line in lines]
    columns = dict.fromkeys(name for row in rows for name in row)
    with (folder / PROGRESS_FILE).open("w", encoding="utf-8", newline="") as file:
        table = csv.DictWriter(file, list(columns), lineterminator="\n")
        table.writeheader()
        table.writerows(rows)


def _leave_out_config(row: Mapping[str, Any]) -> dict[str, Any]:
    return {name: value for name, value in row.items() if name != _CONFIG}
