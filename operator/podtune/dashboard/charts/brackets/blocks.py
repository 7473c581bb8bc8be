"""Brackets as blocks: a bar for each rung, as wide as the trials that entered, divided by what became of them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from podtune.dashboard.charts.brackets.outcomes import BracketOutcome, BracketRung, ShownBracket
from podtune.dashboard.charts.brackets.reading import SYNCHRONOUS, read_brackets
from podtune.dashboard.charts.learning.frame import list_metrics
from podtune.dashboard.keeping import keep_chart
from podtune.dashboard.numbers import format_count, format_measure
from podtune.dashboard.trial_rows import ExperimentRows, TrialRow

MOST_BLOCKS = 24
"""So many brackets are drawn: those that have something left to do, then the latest."""
MOST_BRACKETS = 200
MOST_AWAITED = 12
"""So many of the trials that a rung waits for are named."""
_OVER = "All its trials are through."


@dataclass(frozen=True, slots=True)
class BarPart:
    """A part of a bar.

    Attributes:
        x: Where it begins, in per cent.
        width: Its width.
    """

    outcome: BracketOutcome
    x: float
    width: float


@dataclass(frozen=True, slots=True)
class RungBar:
    """A rung's bar.

    Attributes:
        room: Width of what there is room for, in per cent; None where that is not limited.
    """

    rung: BracketRung
    segments: Sequence[BarPart]
    room: float | None


@dataclass(frozen=True, slots=True)
class Block:
    """A bracket.

    Attributes:
        sentence: What it waits for.
        awaited: Those that are on their way to the rung that the others wait at.
        left_out: How many more there are.
    """

    bracket: ShownBracket
    title: str
    sentence: str
    bars: Sequence[RungBar]
    awaited: Sequence[TrialRow]
    left_out: int


@dataclass(frozen=True, slots=True)
class BracketPlot:
    """The chart.

    Attributes:
        blocks: Those that are drawn, in the order in which they are filled.
        brackets: All of them, as far as the table has room.
        total: How many there are.
        homeless: How many trials are in none, as far as is known.
        outcomes: What became of trials anywhere.
    """

    metric: str
    time: str
    blocks: Sequence[Block]
    brackets: Sequence[ShownBracket]
    total: int
    homeless: int
    outcomes: Sequence[BracketOutcome]

    @property
    def has_room(self) -> bool:
        """Whether rungs have room for a number of trials."""
        return any(rung.size is not None for bracket in self.brackets for rung in bracket.rungs)


@keep_chart
def draw_brackets(experiment: ExperimentRows) -> BracketPlot | None:
    """The brackets; None where its scheduler has none, or no trial is in one."""
    found = [bracket for bracket in read_brackets(experiment) if bracket.rungs]
    if not found:
        return None
    metric, _ = list_metrics(experiment)[0]
    settings = (experiment.view.spec.get("scheduler") or {}).get(experiment.scheduler) or {}
    place = {id(bracket): at for at, bracket in enumerate(found)}
    wanted = sorted(found, key=lambda bracket: (bracket.current is not None, place[id(bracket)]))[-MOST_BLOCKS:]
    wanted.sort(key=lambda bracket: place[id(bracket)])
    bands = any(bracket.band for bracket in found)
    return BracketPlot(
        metric=metric,
        time=str(settings.get("timeAttribute") or "training_iteration"),
        blocks=[_draw_block(experiment, bracket, with_band=bands) for bracket in wanted],
        brackets=found[-MOST_BRACKETS:],
        total=len(found),
        homeless=len(experiment.rows) - sum(bracket.trials for bracket in found),
        outcomes=[
            outcome
            for outcome in BracketOutcome
            if any(outcome in rung.counts for bracket in found for rung in bracket.rungs)
        ],
    )


def _draw_block(experiment: ExperimentRows, bracket: ShownBracket, *, with_band: bool) -> Block:
    most = max(max(rung.entered, rung.size or 0) for rung in bracket.rungs) or 1
    is_synchronous = experiment.scheduler in SYNCHRONOUS
    if is_synchronous:
        awaited = list(bracket.current.awaited) if bracket.current is not None else []
    else:
        awaited = [row for rung in bracket.rungs for row in rung.awaited]
    return Block(
        bracket=bracket,
        title=f"Bracket {bracket.number}{f', band {bracket.band + 1}' if with_band else ''}",
        sentence=_describe(bracket) if is_synchronous else _describe_asynchronous(bracket),
        bars=[_draw_bar(rung, most) for rung in bracket.rungs],
        awaited=awaited[:MOST_AWAITED],
        left_out=max(0, len(awaited) - MOST_AWAITED),
    )


def _draw_bar(rung: BracketRung, most: int) -> RungBar:
    segments = []
    at = 0
    for outcome, count in rung.counts.items():
        segments.append(BarPart(outcome, round(100 * at / most, 3), round(100 * count / most, 3)))
        at += count
    return RungBar(rung, segments, None if rung.size is None else round(100 * rung.size / most, 3))


def _describe(bracket: ShownBracket) -> str:
    """What the present rung of a bracket waits for."""
    rung = bracket.current
    if rung is None:
        return _OVER
    waiting, awaited = (rung.counts.get(outcome, 0) for outcome in (BracketOutcome.WAITING, BracketOutcome.AWAITED))
    at = f"rung {format_measure(rung.milestone)}"
    free = (rung.size or 0) - rung.entered if rung is bracket.rungs[0] else 0
    coming = f"{format_count(awaited, 'trial')} on the way" if awaited else ""
    parts = [coming, format_count(free, "free place") if free > 0 else ""]
    lacks = " and ".join(part for part in parts if part)
    if not lacks:
        return f"All {format_count(waiting, 'trial')} of {at} have come in."
    paused = f"; {waiting} {'is' if waiting == 1 else 'are'} paused there" if waiting else ""
    return f"{at.capitalize()} waits for {lacks}{paused}."


def _describe_asynchronous(bracket: ShownBracket) -> str:
    """What goes on in a bracket whose rungs wait for nobody."""
    awaited, waiting = (
        sum(rung.counts.get(outcome, 0) for rung in bracket.rungs)
        for outcome in (BracketOutcome.AWAITED, BracketOutcome.WAITING)
    )
    parts = [
        f"{awaited} on the way to a rung" if awaited else "",
        f"{waiting} paused until promoted" if waiting else "",
    ]
    told = ", ".join(part for part in parts if part)
    return f"{told}." if told else _OVER
