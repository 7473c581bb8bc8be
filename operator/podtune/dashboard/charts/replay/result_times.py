"""When results were known at the latest: statuses say how long a program had trained by then, and not what time it was.

Between two results of one attempt at least as much time passes as the program trains. So a result had arrived by the
time of a later decision, less the training time from it to the result that the decision was taken on. Pauses, retries
and slow pods make the true time earlier, never later: nothing is shown before it was known.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import pairwise

from podtune.dashboard.decisions import JUMPS
from podtune.dashboard.trial_rows import TrialRow, read_moment

DatedResult = tuple[float, int, float]
"""When a result was known for certain, in seconds since 1970; its iteration; the first objective's value, or NaN."""
_Point = tuple[int, float, float]


@dataclass(frozen=True, slots=True)
class _Anchor:
    """A decision: the results up to its step had arrived by its time.

    Attributes:
        is_exact: Whether no other decision can have made the trial jump since the one before.
    """

    time: float
    step: float
    is_jump: bool
    is_exact: bool


def date_results(row: TrialRow, end: float, *, may_jump: bool) -> list[DatedResult]:
    """The results of a trial's curve, in their order.

    Args:
        row: The trial.
        end: When everything was known.
        may_jump: Whether trials of the experiment clone each other.
    """
    curve = row.view.status.curve
    if curve is None:
        return []
    points = [(int(point[0]), point[1], point[2]) for point in curve.list_points()]
    pace = _find_pace(points) if may_jump else (0, 0.0)
    dated: list[DatedResult] = []
    known, run = row.started or 0.0, 0
    for anchor in _list_anchors(row, end, may_jump=may_jump):
        group = points[len(dated) : _find_last(points, len(dated), run, anchor.step)]
        times = _date_group(group, known, anchor, pace)
        dated += [(time, step, value) for time, (step, _, value) in zip(times, group, strict=True)]
        known = anchor.time
        run = len(dated) if anchor.is_jump else run
    return dated


def _list_anchors(row: TrialRow, end: float, *, may_jump: bool) -> Iterator[_Anchor]:
    last = row.ended if row.ended is not None else end
    number = 0
    for entry in row.view.status.ledger:
        time = read_moment(entry.time)
        if time is None or time > last:
            continue
        is_exact = not may_jump or entry.number == number + 1
        yield _Anchor(time, entry.step, is_jump=entry.action in JUMPS, is_exact=is_exact)
        number = entry.number
    yield _Anchor(last, math.inf, is_jump=False, is_exact=not may_jump)


def _find_last(points: Sequence[_Point], first: int, run: int, step: float) -> int:
    """The end of what a decision covers: where steps fall back, the trial has jumped, which takes a decision."""
    last = first
    while last < len(points) and points[last][0] <= step:
        if not math.isinf(step) and last not in (0, run) and points[last][0] < points[last - 1][0]:
            break
        last += 1
    return last


def _date_group(group: Sequence[_Point], known: float, anchor: _Anchor, pace: tuple[int, float]) -> list[float]:
    """When the results that a decision covers were known: no earlier than the decision before it."""
    times, time = [anchor.time], anchor.time
    for before, after in pairwise(reversed(group)):
        steps, seconds = before[0] - after[0], before[1] - after[1]
        if not anchor.is_exact:
            seconds = pace[0] * pace[1] if steps == pace[0] else 0.0
        time = max(time - seconds, known) if seconds > 0 else time
        times.append(time)
    return times[: len(group)][::-1]


def _find_pace(points: Sequence[_Point]) -> tuple[int, float]:
    """How far apart two results are that follow each other, and the least time that an iteration took between such.

    Where a jump may be missing from the ledger, training time can't be trusted across it. Two results that lie as far
    apart as most do have no jump between them, or one to the same iteration.
    """
    strides = [(after[0] - before[0], after[1] - before[1]) for before, after in pairwise(points)]
    counts = Counter(steps for steps, _ in strides if steps > 0)
    if not counts:
        return 0, 0.0
    stride = max(counts, key=lambda steps: (counts[steps], -steps))
    return stride, min((seconds / steps for steps, seconds in strides if steps == stride and seconds > 0), default=0.0)
