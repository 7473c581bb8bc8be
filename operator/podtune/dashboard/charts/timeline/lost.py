"""Training that came to nothing: what an attempt did after its last checkpoint, before it failed or was taken away."""

from __future__ import annotations

import math
import re
from collections.abc import Iterator, Sequence
from dataclasses import replace

from podtune.api.names import TrialState
from podtune.dashboard.charts.timeline.spans import Activity, Span
from podtune.dashboard.trial_rows import TrialRow

_FROM_CHECKPOINT = re.compile(r"checkpoint of iteration (\d+)$")
"""The ledger says so in its sentence alone."""
_FROM_SCRATCH = "from scratch"


def find_lost(spans: Sequence[Span], row: TrialRow) -> Iterator[Span]:
    """Marks training that came after the last checkpoint of an attempt that failed or was taken away."""
    restored = 0
    for span in spans:
        if span.activity is not Activity.TRAINING or not span.mark:
            yield span
            continue
        is_last = span is spans[-1] or (spans[-1].activity is Activity.SAVING and span is spans[-2])
        if is_last and row.view.state == TrialState.ERROR:
            checkpoint = row.view.status.checkpoint
            again: int | None = checkpoint.step if checkpoint is not None else 0
        else:
            again = _find_restored(span.sentence)
        yield replace(span, lost_from=_find_loss(span, row, restored, again))
        restored = again if again is not None else restored


def _find_restored(sentence: str) -> int | None:
    """The iteration that a trial goes on from; None where the sentence does not say it."""
    if _FROM_SCRATCH in sentence:
        return 0
    found = _FROM_CHECKPOINT.search(sentence)
    return int(found[1]) if found else None


def _find_loss(span: Span, row: TrialRow, before: int, again: int | None) -> float | None:
    """Since when an attempt's work was repeated, by the training time that the curve has of its iterations."""
    if again is None:
        return None
    if again == 0 or (span.is_exact and again <= before):
        return span.begin
    if not span.is_exact:
        return None
    kept = _read_seconds(row, again)
    first = _read_seconds(row, before) if before else 0.0
    if kept is None or first is None:
        return None
    return min(max(span.begin + kept - first, span.begin), span.end)


def _read_seconds(row: TrialRow, iteration: int) -> float | None:
    """The training time at an iteration, between the two nearest points of the curve."""
    curve = row.view.status.curve
    before = (0.0, 0.0)
    for step, seconds, *_ in curve.list_points() if curve is not None else ():
        if step >= iteration:
            share = (iteration - before[0]) / (step - before[0]) if step > before[0] else 1.0
            return before[1] + share * (seconds - before[1]) if math.isfinite(seconds) else None
        if math.isfinite(seconds):
            before = step, seconds
    return None
