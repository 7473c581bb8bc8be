"""A page of the timeline: a lane for each trial, or for each attempt on a node, with its bars in a span of time."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import groupby

from podtune.cli.views.formats import format_duration
from podtune.dashboard.charts.scales import Tick
from podtune.dashboard.charts.timeline.clock import list_time_ticks
from podtune.dashboard.charts.timeline.collection import Timeline, TracedTrial
from podtune.dashboard.charts.timeline.spans import ACTIVITY_WORDS, Activity, Mark, Span
from podtune.dashboard.numbers import format_moment
from podtune.dashboard.trial_rows import STATE_WORDS, ShownState, TrialRow

LANE_COUNTS = (25, 50, 100, 200)
DEFAULT_LANES = 50
MARK_WORDS = {Mark.FAILURE: "failed", Mark.DISRUPTION: "taken away"}
_HAS_POD = frozenset({Activity.STARTING, Activity.TRAINING, Activity.EVALUATING, Activity.SAVING})
_LEAST = 0.05
"""Per cent of the width; a bar is never thinner, as it could not be seen."""


@dataclass(frozen=True, slots=True)
class TimelineQuery:
    """What an address asks for.

    Attributes:
        begin: Where the span of time begins, in seconds since 1970; None for the beginning.
        states: Only trials that are so far; empty for all.
        by_node: Whether attempts are grouped by node instead of by trial.
    """

    begin: float | None = None
    end: float | None = None
    states: tuple[ShownState, ...] = ()
    by_node: bool = False
    page: int = 1
    size: int = DEFAULT_LANES


@dataclass(frozen=True, slots=True)
class Bar:
    """A stretch of time in a lane.

    Attributes:
        x: Where it begins, in per cent of the width.
        width: How wide it is, likewise.
        lost: Where it is hatched, and how wide that is; None where nothing was lost.
        mark_x: Where its mark is; None where there is none, or it lies outside.
        sentence: All of it in a sentence.
    """

    span: Span
    x: float
    width: float
    lost: tuple[float, float] | None
    mark_x: float | None
    sentence: str


@dataclass(frozen=True, slots=True)
class TrialLane:
    """A row of the chart.

    Attributes:
        attempt: The attempt that it shows; 0 for all of the trial's.
        label: What the row is about, for those who can't see it.
    """

    row: TrialRow
    attempt: int
    bars: Sequence[Bar]
    label: str


@dataclass(frozen=True, slots=True)
class LaneGroup:
    """Lanes with a heading; without one where they are by trial."""

    heading: str
    lanes: Sequence[TrialLane]
    total: int


@dataclass(frozen=True, slots=True)
class LanePage:
    """What a page shows.

    Attributes:
        begin: Where the span of time begins, in seconds since 1970.
        total: How many lanes there are in it.
        first: Number of the first lane that is shown, from 1; 0 where there is none.
        last_page: Number of the last page.
        marks: Which marks it has.
        activities: What its trials did.
    """

    groups: Sequence[LaneGroup]
    begin: float
    end: float
    ticks: Sequence[Tick]
    total: int
    first: int
    page: int
    last_page: int
    marks: Sequence[Mark]
    activities: Sequence[Activity]
    has_lost: bool
    has_inexact: bool

    @property
    def lanes(self) -> Sequence[TrialLane]:
        """All of them."""
        return [lane for group in self.groups for lane in group.lanes]


_Entry = tuple[str, TracedTrial, int, Sequence[Span]]


def draw_lanes(timeline: Timeline, query: TimelineQuery) -> LanePage:
    """The lanes of a page; a page beyond the last is the last.

    Where no span of time is asked for, it is that of the lanes on the page: those of 10,000 trials would be too short
    to be seen on all of it.
    """
    begin, end = choose_span(timeline, query)
    entries = list(_list_entries(timeline, query, begin, end))
    last_page = max(-(-len(entries) // query.size), 1)
    page = min(max(query.page, 1), last_page)
    shown = entries[(page - 1) * query.size : page * query.size]
    if query.begin is None and query.end is None and last_page > 1:
        begin = min(entry[3][0].begin for entry in shown)
        end = max(begin + 1.0, *(entry[3][-1].end for entry in shown))
    totals: dict[str, int] = {}
    for heading, *_ in entries:
        totals[heading] = totals.get(heading, 0) + 1
    groups = [
        LaneGroup(heading, [_draw_lane(*entry[1:], begin, end) for entry in found], totals[heading])
        for heading, found in groupby(shown, key=lambda entry: entry[0])
    ]
    spans = [bar.span for group in groups for lane in group.lanes for bar in lane.bars]
    return LanePage(
        groups=groups,
        begin=begin,
        end=end,
        ticks=list_time_ticks(begin, end),
        total=len(entries),
        first=(page - 1) * query.size + 1 if shown else 0,
        page=page,
        last_page=last_page,
        marks=[mark for mark in MARK_WORDS if any(span.mark is mark for span in spans)],
        activities=[each for each in ACTIVITY_WORDS if any(span.activity is each for span in spans)],
        has_lost=any(span.lost_from is not None for span in spans),
        has_inexact=any(not span.is_exact for span in spans),
    )


def choose_span(timeline: Timeline, query: TimelineQuery) -> tuple[float, float]:
    """The span of time that is shown: that of the address, as far as the experiment goes."""
    begin = (
        timeline.range.begin
        if query.begin is None
        else min(max(query.begin, timeline.range.begin), timeline.range.end - 1.0)
    )
    end = timeline.range.end if query.end is None else min(max(query.end, begin + 1.0), timeline.range.end)
    return begin, max(end, begin + 1.0)


def _list_entries(timeline: Timeline, query: TimelineQuery, begin: float, end: float) -> Iterable[_Entry]:
    """Lanes with anything in the span of time, by when that begins."""
    trials = [
        trial
        for trial in timeline.trials
        if trial.begin < end and trial.end > begin and (not query.states or trial.row.progress in query.states)
    ]
    if not query.by_node:
        return [("", trial, 0, _cut(trial.history.spans, begin, end)) for trial in trials]
    attempts = [entry for trial in trials for entry in _list_attempts(trial, begin, end)]
    return sorted(attempts, key=lambda entry: (not entry[0], entry[0], entry[3][0].begin, entry[1].row.view.index))


def _list_attempts(trial: TracedTrial, begin: float, end: float) -> Iterator[_Entry]:
    """A trial's attempts with the nodes that their pods were on; empty where that is not on record."""
    held = [span for span in trial.history.spans if span.activity in _HAS_POD]
    for attempt, spans in groupby(held, key=lambda span: span.attempt):
        own = list(spans)
        node = next((span.node for span in own if span.node), "")
        seen = _cut(own, begin, end)
        if seen:
            yield node, trial, attempt, seen


def _cut(spans: Iterable[Span], begin: float, end: float) -> list[Span]:
    return [
        span for span in spans if span.begin < end and (span.end > begin or (span.mark and begin <= span.end <= end))
    ]


def _draw_lane(trial: TracedTrial, attempt: int, spans: Sequence[Span], begin: float, end: float) -> TrialLane:
    row = trial.row
    bars = [_draw_bar(span, begin, end) for span in spans]
    what = f"{row.name}, attempt {attempt}" if attempt else row.name
    told = "; ".join(bar.sentence for bar in bars[:6])
    more = f"; and {len(bars) - 6} more" if len(bars) > 6 else ""
    return TrialLane(row, attempt, bars, f"{what} ({STATE_WORDS[row.progress].lower()}): {told}{more}")


def _draw_bar(span: Span, begin: float, end: float) -> Bar:
    length = end - begin

    def place(moment: float) -> float:
        return round(100 * min(max((moment - begin) / length, 0.0), 1.0), 3)

    x = place(span.begin)
    width = max(round(place(span.end) - x, 3), _LEAST)
    lost = None
    if span.lost_from is not None and max(span.lost_from, begin) < min(span.end, end):
        at = place(span.lost_from)
        lost = at, max(round(place(span.end) - at, 3), _LEAST)
    is_marked = bool(span.mark) and begin <= span.end <= end
    return Bar(span, x, width, lost, place(span.end) if is_marked else None, describe_span(span))


def describe_span(span: Span) -> str:
    """Such as: training for 1h08m (attempt 2 on node-3), 1m lost; taken away: the node is drained."""
    place = [f"attempt {span.attempt}"] if span.attempt else []
    place += [f"on {span.node}"] if span.node else []
    where = f" ({' '.join(place)})" if place else ""
    doubt = "" if span.is_exact else ", with a wait and a start that are not on record"
    lost = f", {format_duration(span.end - span.lost_from)} lost" if span.lost_from is not None else ""
    word = "time that is not on record" if span.activity is Activity.UNKNOWN else ACTIVITY_WORDS[span.activity].lower()
    why = f"; {f'{MARK_WORDS[span.mark]}: ' if span.mark else ''}{span.sentence}" if span.sentence or span.mark else ""
    return f"{word} for {format_duration(span.seconds)} from {format_moment(span.begin)}{where}{doubt}{lost}{why}"
