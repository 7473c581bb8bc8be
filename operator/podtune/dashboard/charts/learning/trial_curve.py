"""One trial's learning curve, with what was decided on it and the best trial's curve behind it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from podtune.api.resources.trial import LedgerEntry
from podtune.dashboard.charts.learning.curves import write_items
from podtune.dashboard.charts.learning.frame import (
    CurveAxes,
    Frame,
    Point,
    draw_jumps,
    draw_line,
    fit_frame,
    list_metrics,
    read_points,
)
from podtune.dashboard.charts.learning.rungs import compare_to_limit, find_cutoff
from podtune.dashboard.numbers import read_finite
from podtune.dashboard.trial_rows import STATE_WORDS, ExperimentRows, ShownState, TrialRow

AXES = CurveAxes()
MEDIAN = "median"
BEYOND = 2.5
"""The best trial's curve is shown so many times as far as the trial's own has come."""
_TURNS = {
    "RETRY": "retried",
    "RESTART": "restarted",
    "EXPLOIT": "cloned another",
    "RESTORE": "restored",
    "RESUME": "resumed",
    "FAIL": "failed",
}
"""Decisions after which a trial goes on otherwise, or not at all."""


@dataclass(frozen=True, slots=True)
class Comparison:
    """A decision that compared the trial's value with a limit.

    Attributes:
        at: Where the value is, in per cent of the box.
        limit: How far down the limit is, likewise.
        sentence: The numbers.
    """

    entry: LedgerEntry
    at: Point
    limit: float
    sentence: str

    @property
    def is_end(self) -> bool:
        """Whether it stopped the trial."""
        return self.entry.action == "STOP"


@dataclass(frozen=True, slots=True)
class Turn:
    """A decision after which the trial went on from elsewhere, at a place in per cent of the box."""

    entry: LedgerEntry
    x: float
    label: str


@dataclass(frozen=True, slots=True)
class TrialCurvePlot:
    """A trial's curve.

    Attributes:
        jumps: Where it went back, to the state of the trial that it cloned.
        best: Path of the best trial's curve; empty for the best trial, and where there is none.
        end: Where a failed trial's curve ends, in per cent of the box.
    """

    row: TrialRow
    metrics: Sequence[tuple[str, float]]
    other: TrialRow | None
    frame: Frame
    line: str
    jumps: str
    best: str
    comparisons: Sequence[Comparison]
    turns: Sequence[Turn]
    end: Point | None


def draw_trial_curve(experiment: ExperimentRows, row: TrialRow) -> TrialCurvePlot | None:
    """A trial's curve over its iterations; None where it has none."""
    own = read_points(row, AXES)
    if not own:
        return None
    metric, sign = list_metrics(experiment)[0]
    other = experiment.best if experiment.best is not row else None
    ends = [point for point in own if point is not None]
    reach = BEYOND * max(at for at, _ in ends)
    best = [point for point in read_points(other, AXES) if point and point[0] <= reach] if other is not None else []
    known = [*ends, *best]
    compared = [(entry, read) for entry in row.view.status.ledger if (read := _read_comparison(entry))]
    beside = [
        *(number for _, (value, limit, _) in compared for number in (value, limit)),
        *(value for _, value in ends),
    ]
    frame = fit_frame(known, AXES, metric, sign, beside=[*beside, *(value for _, value in ends)])
    return TrialCurvePlot(
        row=row,
        metrics=list_metrics(experiment),
        other=other if best else None,
        frame=frame,
        line=draw_line(own, frame),
        jumps=draw_jumps(own, frame),
        best=draw_line(best, frame),
        comparisons=[
            Comparison(
                entry,
                frame.place_share((float(entry.step), value)),
                frame.place_share((float(entry.step), limit))[1],
                f"{'best ' if word == MEDIAN else ''}{metric} {compare_to_limit(value, limit, word, sign)}",
            )
            for entry, (value, limit, word) in compared
        ],
        turns=[
            Turn(entry, frame.place_share((float(entry.step), frame.y.low))[0], _TURNS[entry.action])
            for entry in row.view.status.ledger
            if entry.action in _TURNS
        ],
        end=frame.place_share(ends[-1]) if row.progress is ShownState.FAILED else None,
    )


def write_trial_points(experiment: ExperimentRows, row: TrialRow) -> str:
    """The curves of `draw_trial_curve` as JSON, to read them under the pointer."""
    plot = draw_trial_curve(experiment, row)
    if plot is None:
        return write_items((), ())
    rows = [each for each in (row, plot.other) if each is not None]
    curves = ((each, STATE_WORDS[each.progress], read_points(each, AXES)) for each in rows)
    return write_items((plot.frame.x_label, plot.frame.y_label), curves, plot.frame)


def _read_comparison(entry: LedgerEntry) -> tuple[float, float, str] | None:
    """Value and limit of a decision, and what the limit is; the median rule compares the best value so far."""
    cutoff, word = find_cutoff((entry,)), "cutoff"
    if cutoff is None:
        cutoff, word = read_finite(entry.inputs.get(MEDIAN)), MEDIAN
    value = read_finite(entry.inputs.get("value") or entry.inputs.get("best"))
    return None if value is None or cutoff is None else (value, cutoff, word)
