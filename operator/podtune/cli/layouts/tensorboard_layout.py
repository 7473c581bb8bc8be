"""Results as event files: for each Trial a folder, which TensorBoard shows as a run, and the tables of HParams."""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any

from podtune.api.names import TrialState
from podtune.cli.client.resources import ExperimentView
from podtune.cli.layouts.exported_trial import ExportedTrial
from podtune.runner.timestamps import parse_rfc3339
from podtune.storage.event_files.events import encode_scalars, encode_version, format_file_name
from podtune.storage.event_files.hparams import (
    Hyperparameter,
    SessionStatus,
    encode_experiment_summary,
    encode_session_end,
    encode_session_start,
    find_type,
)
from podtune.storage.segments.reader import StoredResult

_MOST_CHOICES = 32
"""Of a parameter with more values, the plugin would show a box each."""
_STATUSES: Mapping[str, SessionStatus] = {
    TrialState.TERMINATED: SessionStatus.SUCCESS,
    TrialState.ERROR: SessionStatus.FAILURE,
}


class TensorBoardLayout:
    """Writes files as results come, in order of time; see `LayoutWriter`."""

    def __init__(self, directory: Path, experiment: ExperimentView, trials: Iterable[ExportedTrial]) -> None:
        self._trials = {trial.name: trial for trial in trials}
        self._files: dict[str, Path] = {}
        begin = parse_rfc3339(experiment.status.start_time) or parse_rfc3339(experiment.created) or 0.0
        parameters = _list_parameters(experiment, [*self._trials.values()])
        told = encode_experiment_summary(begin, parameters, experiment.objectives)
        (directory / format_file_name(begin)).write_bytes(encode_version(begin) + told)
        for trial in self._trials.values():
            (directory / trial.name).mkdir()
            file = self._files[trial.name] = directory / trial.name / format_file_name(trial.start)
            session = encode_session_start(trial.start, trial.parameters, trial.name)
            file.write_bytes(encode_version(trial.start) + session)

    def add(self, stored: StoredResult) -> None:
        """See `LayoutWriter`."""
        if (file := self._files.get(stored.trial)) is not None:
            result = stored.result
            _append(file, encode_scalars(result.time, result.step, result.metrics))

    def finish(self) -> None:
        """See `LayoutWriter`."""
        for trial in self._trials.values():
            status = _STATUSES.get(trial.state, SessionStatus.RUNNING)
            if status is not SessionStatus.RUNNING:
                _append(self._files[trial.name], encode_session_end(trial.end, status))


def _append(file: Path, record: bytes) -> None:
    with file.open("ab") as opened:
        opened.write(record)


def _list_parameters(experiment: ExperimentView, trials: list[ExportedTrial]) -> Iterator[Hyperparameter]:
    for written in experiment.spec.get("parameters") or ():
        name = str(written.get("name", ""))
        values = [trial.parameters[name] for trial in trials if name in trial.parameters]
        yield Hyperparameter(name, find_type(values), _read_choices(written), _read_interval(written))


def _read_choices(parameter: Mapping[str, Any]) -> list[Any]:
    values = (parameter.get("choice") or {}).get("values") or []
    plain = all(isinstance(value, str) for value in values)
    return list(values) if plain and len(values) <= _MOST_CHOICES else []


def _read_interval(parameter: Mapping[str, Any]) -> tuple[float, float] | None:
    domain = parameter.get("float") or parameter.get("int") or {}
    low, high = domain.get("min"), domain.get("max")
    if not isinstance(low, int | float) or not isinstance(high, int | float) or not math.isfinite(high - low):
        return None
    return float(low), float(high)
