"""How parameters go with the time that a result takes."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import chain

from podtune.dashboard.keeping import keep_by_block, keep_by_trial, keep_summary
from podtune.dashboard.numbers import read_finite
from podtune.dashboard.search_axes import SearchAxis
from podtune.dashboard.trial_rows import ExperimentRows, TrialRow
from podtune.tuning.rank_correlation import correlate_ranks, measure_association

LEAST_TIMED = 10
"""With fewer trials on record, nothing is said on time."""


def correlate_times(experiment: ExperimentRows) -> Mapping[str, tuple[float | None, bool]]:
    """How each parameter goes with time, by its name, and whether its values are numbers."""
    return _correlate_each(experiment, _list_timed.read_all(experiment, experiment.axes), experiment.axes)


def _find_seconds(row: TrialRow) -> float | None:
    """Training time for each result: a trial that was stopped early trained less, whatever its parameters."""
    usage, results = row.view.status.usage, row.view.status.iteration
    return usage.training_seconds / results if usage is not None and usage.training_seconds and results else None


@keep_by_trial
def _read_timed(row: TrialRow, axes: tuple[SearchAxis, ...]) -> tuple[float, tuple[str | None, ...]] | None:
    """Training time for each result with the values of all parameters; None as long as the time is not known."""
    seconds, values = _find_seconds(row), row.view.parameters
    return None if seconds is None else (seconds, tuple(values.get(axis.name) for axis in axes))


@keep_by_block(_read_timed)
def _list_timed(
    timed: Sequence[tuple[float, tuple[str | None, ...]] | None],
) -> Sequence[tuple[float, tuple[str | None, ...]]]:
    return [each for each in timed if each is not None]


@keep_summary
def _correlate_each(
    blocks: Sequence[Sequence[tuple[float, tuple[str | None, ...]]]], axes: tuple[SearchAxis, ...]
) -> Mapping[str, tuple[float | None, bool]]:
    """How each parameter goes with time, and whether its values are numbers."""
    timed = list(chain.from_iterable(blocks))
    return {
        axis.name: _correlate_one([(texts[at], seconds) for seconds, texts in timed]) for at, axis in enumerate(axes)
    }


def _correlate_one(timed: Sequence[tuple[str | None, float]]) -> tuple[float | None, bool]:
    own = [(text, seconds) for text, seconds in timed if text is not None]
    texts, taken = [text for text, _ in own], [seconds for _, seconds in own]
    known = {text: read_finite(text) for text in {*texts}}
    numbers = [number for text in texts if (number := known[text]) is not None]
    is_signed = len(numbers) == len(texts)
    if len(own) < LEAST_TIMED:
        return None, is_signed
    return correlate_ranks(numbers, taken) if is_signed else measure_association(texts, taken), is_signed
