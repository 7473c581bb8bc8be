"""The timeline: what trials were doing when, and what GPUs were held for."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from urllib.parse import urlencode

from aiohttp import web
from multidict import MultiMapping

from podtune.dashboard.charts.timeline.clock import write_moment
from podtune.dashboard.charts.timeline.collection import Timeline, trace_experiment
from podtune.dashboard.charts.timeline.counts import StackedPlot, draw_activities, draw_states
from podtune.dashboard.charts.timeline.lanes import (
    DEFAULT_LANES,
    LANE_COUNTS,
    MARK_WORDS,
    LanePage,
    TimelineQuery,
    draw_lanes,
)
from podtune.dashboard.charts.timeline.purposes import draw_purposes
from podtune.dashboard.charts.timeline.spans import ACTIVITY_WORDS, Activity
from podtune.dashboard.numbers import format_moment
from podtune.dashboard.pages.context import NotThere, find_present, find_rows
from podtune.dashboard.pages.sharing import share_answer
from podtune.dashboard.query_values import QueryError, read_choice, read_choices, read_time, read_whole_number
from podtune.dashboard.rendering import render_page, render_svg
from podtune.dashboard.trial_rows import STATE_WORDS, ExperimentRows

TIMELINE_CHARTS = ("timeline", "activities", "states", "purposes")
_LEAST_SPAN = 10.0
"""A span of time is not narrowed further, in seconds."""


@dataclass(frozen=True, slots=True)
class SpanLink:
    """A link to another span of time; its query is None where there is none."""

    key: str
    label: str
    query: str | None


@share_answer
async def show_timeline(request: web.Request) -> web.Response:
    """The page; where its address asks for what can't be meant, it says so, and shows what it shows without a query."""
    experiment = find_rows(request)
    problem, query = "", TimelineQuery()
    try:
        query = read_query(request.query)
    except QueryError as error:
        problem = str(error)
    now = find_present(request)
    timeline = await asyncio.to_thread(trace_experiment, experiment, now)
    lanes = await asyncio.to_thread(draw_lanes, timeline, query) if timeline is not None else None
    return render_page(
        request,
        "timeline/page.html",
        status=(web.HTTPBadRequest if problem else web.HTTPOk).status_code,
        experiment=experiment,
        timeline=timeline,
        lanes=lanes,
        strip=await asyncio.to_thread(draw_activities, experiment, now),
        purposes=await asyncio.to_thread(draw_purposes, experiment),
        query=query,
        problem=problem,
        address=write_address(query),
        links=list_links(timeline, lanes, query) if timeline is not None and lanes is not None else (),
        groupings=[
            ("by trial", replace(query, by_node=False, page=1)),
            ("by node", replace(query, by_node=True, page=1)),
        ],
        pages=list_page_links(lanes, query) if lanes is not None else {},
        sizes=LANE_COUNTS,
        is_live=now is not None,
        write=write_address,
        resize=lambda size: write_address(replace(query, size=size, page=1)),
        field=write_moment,
        told=format_moment,
        activities=ACTIVITY_WORDS,
        marks=MARK_WORDS,
        unknown=Activity.UNKNOWN,
    )


async def find_states(request: web.Request, experiment: ExperimentRows) -> StackedPlot | None:
    """States over time, for the overview; None where nothing is on record."""
    return await asyncio.to_thread(draw_states, experiment, find_present(request))


async def send_timeline_chart(request: web.Request, experiment: ExperimentRows, key: str) -> web.Response:
    """One of the charts as a picture.

    Raises:
        NotThere: There is nothing to draw.
    """
    now = find_present(request)
    missing = NotThere(f"Experiment {experiment.view.name!r} has no chart {key!r}.")
    if key == "purposes":
        purposes = await asyncio.to_thread(draw_purposes, experiment)
        if purposes is None:
            raise missing
        return render_svg(request, "timeline/purposes.svg", "purposes.svg", plot=purposes, experiment=experiment)
    if key == "timeline":
        query = read_query(request.query)
        timeline = await asyncio.to_thread(trace_experiment, experiment, now)
        if timeline is None:
            raise missing
        lanes = await asyncio.to_thread(draw_lanes, timeline, query)
        facts = {"lanes": lanes, "activities": ACTIVITY_WORDS, "marks": MARK_WORDS, "told": format_moment}
        return render_svg(request, "timeline/lanes.svg", "timeline.svg", experiment=experiment, **facts)
    plot = await asyncio.to_thread(draw_states if key == "states" else draw_activities, experiment, now)
    if plot is None:
        raise missing
    name, has_counts = f"{key}.svg", key == "states"
    return render_svg(request, "timeline/areas.svg", name, experiment=experiment, plot=plot, has_counts=has_counts)


def read_query(query: MultiMapping[str]) -> TimelineQuery:
    """What an address asks for.

    Raises:
        QueryError: Some of it can't be meant.
    """
    begin, end = read_time(query, "from"), read_time(query, "to")
    if begin is not None and end is not None and not begin < end:
        raise QueryError(f"to is {query['to']!r}, and from is not before it; exchange them")
    return TimelineQuery(
        begin=begin,
        end=end,
        states=read_choices(query, "state", STATE_WORDS),
        by_node=read_choice(query, "by", ("trial", "node"), "trial") == "node",
        page=read_whole_number(query, "page", 1),
        size=int(read_choice(query, "size", map(str, LANE_COUNTS), str(DEFAULT_LANES))),
    )


def write_address(query: TimelineQuery, *, has_span: bool = True) -> str:
    """The query of an address that restores what is shown, without what is so anyway."""
    facts: list[tuple[str, str]] = []
    if has_span and query.begin is not None:
        facts.append(("from", write_moment(query.begin)))
    if has_span and query.end is not None:
        facts.append(("to", write_moment(query.end)))
    facts += [("by", "node")] if query.by_node else []
    facts += [("state", str(state)) for state in query.states]
    facts += [("size", str(query.size))] if query.size != DEFAULT_LANES else []
    facts += [("page", str(query.page))] if query.page > 1 else []
    return urlencode(facts, safe=":")


def list_links(timeline: Timeline, lanes: LanePage, query: TimelineQuery) -> Sequence[SpanLink]:
    """Other spans of time than that of the lanes: earlier, later, narrower, wider, all of it, and that of a page."""
    begin, end = lanes.begin, lanes.end
    length, middle = end - begin, (begin + end) / 2
    spans = {
        "earlier": ("Earlier", begin - length / 2, end - length / 2, begin > timeline.range.begin),
        "later": ("Later", begin + length / 2, end + length / 2, end < timeline.range.end),
        "in": ("Zoom in", middle - length / 4, middle + length / 4, length > 2 * _LEAST_SPAN),
        "out": ("Zoom out", middle - length, middle + length, length < timeline.range.seconds),
        "all": ("Whole run", timeline.range.begin, timeline.range.end, length < timeline.range.seconds),
    }
    links = [
        SpanLink(key, label, write_address(_move(timeline, query, low, high)) if is_possible else None)
        for key, (label, low, high, is_possible) in spans.items()
    ]
    is_given = query.begin is not None or query.end is not None
    fitted = write_address(replace(query, begin=None, end=None, page=1))
    return [*links, SpanLink("fit", "Fit to page", fitted)] if is_given else links


def list_page_links(lanes: LanePage, query: TimelineQuery) -> Mapping[str, str | None]:
    """Queries of the pages before and after; None where there is none."""
    before = write_address(replace(query, page=lanes.page - 1)) if lanes.page > 1 else None
    after = write_address(replace(query, page=lanes.page + 1)) if lanes.page < lanes.last_page else None
    return {"Previous": before, "Next": after}


def _move(timeline: Timeline, query: TimelineQuery, begin: float, end: float) -> TimelineQuery:
    """The same with another span of time, moved to where the experiment is."""
    length = min(end - begin, timeline.range.seconds)
    begin = min(max(begin, timeline.range.begin), timeline.range.end - length)
    return replace(query, begin=begin, end=begin + length, page=1)
