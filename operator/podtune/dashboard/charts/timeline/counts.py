"""How many trials were in each state, or did what, at each time: areas one upon the other."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from itertools import accumulate, chain, pairwise
from typing import TypeVar

from podtune.dashboard.charts.plots import SIZE
from podtune.dashboard.charts.scales import Scale, Tick
from podtune.dashboard.charts.timeline.clock import list_time_ticks
from podtune.dashboard.charts.timeline.collection import TimeRange, TracedTrial, measure_range, read_history
from podtune.dashboard.charts.timeline.spans import ACTIVITY_WORDS, STATES_BY_ACTIVITY
from podtune.dashboard.keeping import keep_by_block, keep_by_trial_from, keep_chart
from podtune.dashboard.numbers import format_moment
from podtune.dashboard.trial_rows import STATE_WORDS, ExperimentRows, ShownState

MOST_COLUMNS = 240
"""At so many times, trials are counted at most."""
TABLE_ROWS = 24
"""At so many of them, the table has their numbers."""
STACKED_STATES = (
    ShownState.DONE,
    ShownState.STOPPED,
    ShownState.FAILED,
    ShownState.RUNNING,
    ShownState.PAUSED,
    ShownState.PENDING,
)
"""From the bottom to the top: what has ended stays there."""
_STATE_PLACES = {state: place for place, state in enumerate(STACKED_STATES)}
_ACTIVITY_PLACES = {activity: place for place, activity in enumerate(ACTIVITY_WORDS)}
_KINDS = 16
"""More than there are states or activities."""

Kind = TypeVar("Kind", bound=StrEnum)
CountChange = tuple[float, int, int]
"""A moment, the place of a kind, and how many more of it there are from then on: 1 or -1."""


@dataclass(frozen=True, slots=True)
class Area:
    """The trials of one kind over time.

    Attributes:
        key: Name of the kind.
        path: The area in a box of 1000 by 1000.
        counts: How many there were at each of the times.
    """

    key: str
    label: str
    path: str
    counts: Sequence[int]


@dataclass(frozen=True, slots=True)
class StackedPlot:
    """Areas one upon the other.

    Attributes:
        moments: When trials were counted, in seconds since 1970.
    """

    title: str
    areas: Sequence[Area]
    moments: Sequence[float]
    x_ticks: Sequence[Tick]
    y_ticks: Sequence[Tick]

    @property
    def listed(self) -> Sequence[tuple[str, Sequence[int]]]:
        """Rows of the table: some of the times, with the numbers of all kinds."""
        step = max(len(self.moments) // TABLE_ROWS, 1)
        last = len(self.moments) - 1
        places = sorted({*range(0, last, step), last})
        return [(format_moment(self.moments[at]), [area.counts[at] for area in self.areas]) for at in places]


@keep_chart
def draw_states(experiment: ExperimentRows, now: float | None = None) -> StackedPlot | None:
    """How many trials were in each state; None where nothing is on record."""
    span = measure_range(experiment, now)
    if span is None:
        return None
    changes = _count_state_changes.read_all(experiment, choose_width(span))
    return _stack("Trials by state over time", span, {state: STATE_WORDS[state] for state in STACKED_STATES}, changes)


@keep_chart
def draw_activities(experiment: ExperimentRows, now: float | None = None) -> StackedPlot | None:
    """How many trials were doing what; those that have ended do nothing."""
    span = measure_range(experiment, now)
    if span is None:
        return None
    changes = _count_activity_changes.read_all(experiment, choose_width(span))
    return _stack("Trials by what they do, over time", span, ACTIVITY_WORDS, changes)


def choose_width(span: TimeRange) -> float:
    """The time between two columns: a power of two, so that it stays the same while time goes on."""
    return float(2.0 ** math.ceil(math.log2(span.seconds / (MOST_COLUMNS - 1))))


@keep_by_trial_from(read_history)
def read_state_changes(traced: TracedTrial, width: float) -> Sequence[int]:
    """When a trial came into each state and left it, in codes."""
    places = [_STATE_PLACES[STATES_BY_ACTIVITY[span.activity]] for span in traced.history.spans]
    final = traced.history.final
    return encode_changes(_list_changes(traced, places, None if final is None else _STATE_PLACES[final]), width)


@keep_by_trial_from(read_history)
def read_activity_changes(traced: TracedTrial, width: float) -> Sequence[int]:
    """When a trial began and ceased to do something, in codes."""
    places = [_ACTIVITY_PLACES[span.activity] for span in traced.history.spans]
    return encode_changes(_list_changes(traced, places, None), width)


def count_codes(codes: Iterable[Sequence[int]]) -> Counter[int]:
    """How often each change is among those of some trials: many begin or end at the same column."""
    return Counter(chain.from_iterable(codes))


_count_state_changes = keep_by_block(read_state_changes)(count_codes)
_count_activity_changes = keep_by_block(read_activity_changes)(count_codes)


def _list_changes(traced: TracedTrial, places: Sequence[int], final: int | None) -> Iterator[CountChange]:
    """One kind after the other; a history that goes on stays in the last."""
    history, spans = traced.history, traced.history.spans
    if not spans:
        return
    yield spans[0].begin, places[0], 1
    for (_, before), (span, after) in pairwise(zip(spans, places, strict=True)):
        if before != after:
            yield span.begin, before, -1
            yield span.begin, after, 1
    if not history.is_open:
        yield spans[-1].end, places[-1], -1
        if final is not None:
            yield spans[-1].end, final, 1


def encode_changes(changes: Iterable[CountChange], width: float) -> Sequence[int]:
    """Changes as numbers that can be counted: the column from which on they hold, the kind and the direction."""
    return tuple((math.ceil(moment / width) * _KINDS + place) * 2 + (more < 0) for moment, place, more in changes)


def count_changes(counted: Iterable[Mapping[int, int]], kinds: int, first: int, last: int) -> Sequence[Sequence[int]]:
    """How many there are of each kind at each column.

    Args:
        counted: The changes of all trials, with how often there is each, in as many parts as one likes.
        kinds: How many kinds there are.
        first: Number of the first column; it has what was before as well.
        last: Number of the last column; likewise of what is after.
    """
    added = [[0] * (last - first + 1) for _ in range(kinds)]
    for code, count in chain.from_iterable(part.items() for part in counted):
        column, place = divmod(code // 2, _KINDS)
        added[place][min(max(column, first), last) - first] += -count if code % 2 else count
    return [list(accumulate(each)) for each in added]


def _stack(title: str, span: TimeRange, words: Mapping[Kind, str], changes: Iterable[Mapping[int, int]]) -> StackedPlot:
    width = choose_width(span)
    first, last = math.ceil(span.begin / width), math.ceil(span.end / width)
    moments = [*(column * width for column in range(first, last)), span.end]
    counted = zip(words, count_changes(changes, len(words), first, last), strict=True)
    counts = {kind: each for kind, each in counted if any(each)}
    highest = max([1, *(sum(column) for column in zip(*counts.values(), strict=True))])
    places = [0.0, *(round(SIZE * (moment - span.begin) / span.seconds, 1) for moment in moments[1:])]
    areas, below = [], [0] * len(moments)
    for kind, each in counts.items():
        above = [low + count for low, count in zip(below, each, strict=True)]
        areas.append(Area(kind, words[kind], _draw(places, below, above, highest), each))
        below = above
    return StackedPlot(
        title=title,
        areas=areas,
        moments=moments,
        x_ticks=list_time_ticks(span.begin, span.end),
        y_ticks=[tick for tick in Scale(0.0, float(highest)).list_ticks(4) if "." not in tick.label],
    )


def _draw(places: Sequence[float], below: Sequence[int], above: Sequence[int], highest: int) -> str:
    """An area between two lines of steps, without the columns in which nothing changes."""
    tops, bottoms = list(_list_steps(places, above, highest)), list(_list_steps(places, below, highest))
    (_, y), *steps = tops
    there = "".join(f"H{x:g}V{to}" for x, to in steps)
    # The way back: along each step to its beginning, and then to the height of the one before.
    back = "".join(f"H{x:g}V{to}" for (x, _), (_, to) in zip(bottoms[:0:-1], bottoms[-2::-1], strict=True))
    return f"M0 {y}{there}H{places[-1]:g}V{bottoms[-1][1]}{back}H0Z"


def _list_steps(places: Sequence[float], values: Sequence[int], highest: int) -> Iterator[tuple[float, int]]:
    """Where a line changes its height, and to which."""
    before: int | None = None
    for x, value in zip(places, values, strict=True):
        if value != before:
            yield x, round(SIZE * (1 - value / highest))
        before = value
