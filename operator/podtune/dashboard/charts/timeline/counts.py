"""How many trials were in each state, or did what, at each time: areas one upon the other."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from itertools import accumulate

from podtune.api.names import TrialState
from podtune.dashboard.charts.plots import SIZE
from podtune.dashboard.charts.scales import Scale, Tick
from podtune.dashboard.charts.timeline.clock import format_moment, list_time_ticks
from podtune.dashboard.charts.timeline.collection import Timeline, TracedTrial
from podtune.dashboard.charts.timeline.spans import ACTIVITY_WORDS, STATES, Activity

COLUMNS = 240
"""At so many times, trials are counted."""
TABLE_ROWS = 24
"""At so many of them, the table has their numbers."""
_KEPT = 32
STATE_NAMES: Mapping[str, str] = {
    TrialState.TERMINATED: "Terminated",
    TrialState.ERROR: "Error",
    TrialState.RUNNING: "Running",
    TrialState.PAUSED: "Paused",
    TrialState.PENDING: "Pending",
}
"""From the bottom to the top."""

CountChange = tuple[float, str, int]
"""A moment, a kind, and how many more of it there are from then on."""


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
        highest: The largest sum.
    """

    title: str
    areas: Sequence[Area]
    moments: Sequence[float]
    highest: int
    x_ticks: Sequence[Tick]
    y_ticks: Sequence[Tick]

    @property
    def listed(self) -> Sequence[tuple[str, Sequence[int]]]:
        """Rows of the table: some of the times, with the numbers of all kinds."""
        step = max(len(self.moments) // TABLE_ROWS, 1)
        last = len(self.moments) - 1
        places = sorted({*range(0, last, step), last})
        return [(format_moment(self.moments[at]), [area.counts[at] for area in self.areas]) for at in places]


@lru_cache(maxsize=_KEPT)
def draw_states(timeline: Timeline) -> StackedPlot:
    """How many trials were in each state."""
    changes = _list_changes(timeline.trials, lambda activity: STATES[activity], has_final=True)
    return _stack("Trials by state over time", timeline, STATE_NAMES, changes)


@lru_cache(maxsize=_KEPT)
def draw_activities(timeline: Timeline) -> StackedPlot:
    """How many trials were doing what; those that have ended do nothing."""
    changes = _list_changes(timeline.trials, lambda activity: activity, has_final=False)
    return _stack("Trials by what they do, over time", timeline, dict(ACTIVITY_WORDS.items()), changes)


def _list_changes(
    trials: Sequence[TracedTrial], name: Callable[[Activity], str], *, has_final: bool
) -> Iterable[CountChange]:
    for trial in trials:
        for span in trial.history.spans:
            yield span.begin, name(span.activity), 1
            if span is not trial.history.spans[-1] or trial.history.final is not None:
                yield span.end, name(span.activity), -1
        if has_final and trial.history.final is not None:
            yield trial.end, trial.history.final, 1


def count_changes(
    changes: Iterable[CountChange], kinds: Iterable[str], begin: float, end: float, columns: int = COLUMNS
) -> Mapping[str, Sequence[int]]:
    """How many there are of each kind at evenly spaced times, the first and the last of which are given."""
    width = (end - begin) / (columns - 1)
    added = {kind: [0] * (columns + 1) for kind in kinds}
    for moment, kind, more in changes:
        place = math.ceil((moment - begin) / width - 1e-9)
        added[kind][min(max(place, 0), columns)] += more
    return {kind: list(accumulate(each[:columns])) for kind, each in added.items()}


def _stack(title: str, timeline: Timeline, words: Mapping[str, str], changes: Iterable[CountChange]) -> StackedPlot:
    counts = count_changes(changes, words, timeline.begin, timeline.end)
    shown = [kind for kind in words if any(counts[kind])]
    sums = [sum(column) for column in zip(*(counts[kind] for kind in shown), strict=True)] or [0]
    highest = max(*sums, 1)
    areas, below = [], [0] * COLUMNS
    for kind in shown:
        above = [low + count for low, count in zip(below, counts[kind], strict=True)]
        areas.append(Area(str(kind).lower(), words[kind], _draw(below, above, highest), counts[kind]))
        below = above
    y = Scale(0.0, float(highest))
    return StackedPlot(
        title=title,
        areas=areas,
        moments=[timeline.begin + at * timeline.seconds / (COLUMNS - 1) for at in range(COLUMNS)],
        highest=highest,
        x_ticks=list_time_ticks(timeline.begin, timeline.end),
        y_ticks=[tick for tick in y.list_ticks(4) if "." not in tick.label],
    )


def _draw(below: Sequence[int], above: Sequence[int], highest: int) -> str:
    """An area between two lines of steps, without the points between which nothing changes."""

    def place(column: int, value: int) -> tuple[float, int]:
        return round(SIZE * column / (COLUMNS - 1), 1), round(SIZE * (1 - value / highest))

    x, y = place(0, above[0])
    path = [f"M{x:g} {y}"]
    for column in range(1, COLUMNS):
        x, y = place(column, above[column])
        if column == COLUMNS - 1 or above[column] != above[column - 1]:
            path.append(f"H{x:g}V{y}")
    x, y = place(COLUMNS - 1, below[-1])
    path.append(f"V{y}")
    for column in range(COLUMNS - 1, 0, -1):
        if column == 1 or below[column] != below[column - 1]:
            path.append(f"H{place(column if below[column] != below[column - 1] else 0, 0)[0]:g}")
            path.append(f"V{place(0, below[column - 1])[1]}")
    return "".join([*path, f"H0V{place(0, above[0])[1]}Z"])
