"""The list of experiments, and the pages of one: how it goes, and where the search looks."""

from __future__ import annotations

import asyncio
import heapq
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import chain
from typing import Any

from aiohttp import web

from podtune.api.resources.trial import LedgerEntry
from podtune.api.tuning.search import SearchSpec
from podtune.cli.views.budgets import estimate_time_left, list_budgets
from podtune.cli.views.formats import format_best_holder
from podtune.cli.views.troubles import find_experiment_troubles, find_troubled_trials
from podtune.dashboard.charts.columns import write_columns
from podtune.dashboard.charts.failure_logs import list_log_endings
from podtune.dashboard.charts.failures import KIND_WORDS
from podtune.dashboard.charts.learning.curves import draw_curves
from podtune.dashboard.charts.learning.frame import CurveAxes
from podtune.dashboard.charts.learning.rungs import OUTCOME_WORDS, draw_rungs
from podtune.dashboard.charts.plots import Plot, draw_front, draw_progress, draw_slices, draw_sparkline, find_slice
from podtune.dashboard.charts.spending import draw_spending
from podtune.dashboard.keeping import keep_by_block, keep_by_trial
from podtune.dashboard.numbers import format_count
from podtune.dashboard.pages.context import EXPERIMENT_ROWS, GPU_PRICE, NotThere, find_present, find_rows, get_source
from podtune.dashboard.pages.contour import find_contour, find_failures, find_pair, send_contour, send_failures
from podtune.dashboard.pages.importance import asks_for_course, find_course, list_methods, send_course, send_importance
from podtune.dashboard.pages.learning import CHARTS, asks_by_time, make_learning_part, render_learning_chart
from podtune.dashboard.pages.sharing import share_answer
from podtune.dashboard.pages.timeline import TIMELINE_CHARTS, find_states, send_timeline_chart
from podtune.dashboard.pricing import GpuPrice
from podtune.dashboard.progress.waiting import describe_waiting
from podtune.dashboard.query_values import QueryError, read_choices
from podtune.dashboard.rendering import render_json, render_page, render_svg
from podtune.dashboard.table.experiments import SORTS, make_line, parse_experiment_query, select_experiments
from podtune.dashboard.trial_rows import ExperimentRows, TrialRow

NEWEST = 12
"""So many of the newest decisions are shown."""
MOST_TROUBLES = 8


@dataclass(frozen=True, slots=True)
class TrialDecision:
    """A decision, and the trial that it was taken on."""

    row: TrialRow
    entry: LedgerEntry


@share_answer
async def show_experiments(request: web.Request) -> web.Response:
    """All experiments, or those that the address asks for."""
    source = get_source(request)
    found = [request.app[EXPERIMENT_ROWS].get(view) for view in source.list_experiments()]
    query, now = parse_experiment_query(request.query), find_present(request)
    page = select_experiments([make_line(each, now) for each in found], query)
    return render_page(
        request,
        "experiments.html",
        page=page,
        query=query,
        sorts={name: title for name, (title, _) in SORTS.items()},
        lines={line.key: draw_sparkline(line.experiment) for line in page.lines},
    )


@share_answer
async def show_experiment(request: web.Request) -> web.Response:
    """How an experiment goes."""
    experiment = find_rows(request)
    now = find_present(request)
    by_time = asks_by_time(request)
    troubled = find_troubled_trials([row.view for row in experiment.unfinished])
    return render_page(
        request,
        "experiment.html",
        experiment=experiment,
        plot=draw_progress(experiment, by_time=by_time),
        by_time=by_time,
        elapsed=experiment.measure_time(now),
        budgets=list_budgets(experiment.view, experiment.tell_time(now)),
        left=estimate_time_left(experiment.view, experiment.tell_time(now)),
        waiting=describe_waiting(experiment),
        learning=make_learning_part(experiment, request),
        outcomes=OUTCOME_WORDS,
        front=draw_front(experiment, *choose_objectives(request, experiment)),
        spending=await asyncio.to_thread(draw_spending, experiment, request.app[GPU_PRICE]),
        currency=request.app[GPU_PRICE].currency,
        states=await find_states(request, experiment),
        decisions=list_newest_decisions(experiment, NEWEST),
        algorithm=_find_algorithm(experiment.view.spec),
        holder=format_best_holder(experiment.view.status.best) if experiment.view.status.best else "",
        troubles=find_experiment_troubles(experiment.view),
        troubled=troubled[:MOST_TROUBLES],
        left_out=max(0, len(troubled) - MOST_TROUBLES),
    )


@share_answer
async def show_parameters(request: web.Request) -> web.Response:
    """Where the search looks."""
    experiment = find_rows(request)
    importance, pair = await find_pair(request, experiment)
    return render_page(
        request,
        "space/parameters.html",
        experiment=experiment,
        slices=await asyncio.to_thread(draw_slices, experiment),
        importance=importance,
        methods=list_methods(),
        course=await find_course(request, experiment)
        if (with_course := asks_for_course(request, experiment))
        else None,
        with_course=with_course,
        pair=pair,
        contour=await find_contour(experiment, importance, pair) if importance is not None and pair else None,
        failures=await find_failures(experiment, pair),
        endings=list_log_endings(experiment),
        kinds=KIND_WORDS,
    )


@share_answer
async def send_columns(request: web.Request) -> web.Response:
    """All trials, for the charts that the browser draws."""
    return render_json(write_columns(find_rows(request), request.app[GPU_PRICE]))


@share_answer
async def send_chart(request: web.Request) -> web.Response:
    """A chart as a file of its own.

    Raises:
        NotThere: The experiment has no such chart.
    """
    experiment, key = find_rows(request), request.match_info["chart"]
    if key == "importance":
        return await send_importance(request, experiment)
    if key == "importance-course":
        return await send_course(request, experiment)
    if key == "contour":
        return await send_contour(request, experiment)
    if key == "failures":
        return await send_failures(request, experiment)
    if key in TIMELINE_CHARTS:
        return await send_timeline_chart(request, experiment, key)
    if key.partition(":")[0] in CHARTS:
        return render_learning_chart(experiment, key, request)
    if key == "front":
        plot = draw_front(experiment, *choose_objectives(request, experiment))
    else:
        plot = _draw(experiment, key, request.app[GPU_PRICE], by_time=asks_by_time(request))
    if plot is None:
        raise NotThere(f"Experiment {experiment.view.name!r} has no chart {key!r}.")
    return render_svg(request, "chart.svg", plot=plot, experiment=experiment)


def choose_objectives(request: web.Request, experiment: ExperimentRows) -> tuple[int, int]:
    """Which two objectives the address sets against each other; the first two where it names none.

    Raises:
        QueryError: There is no such objective, or it names one or many.
    """
    named = [experiment.metrics.index(name) for name in read_choices(request.query, "front", experiment.metrics)]
    if len(named) not in (0, 2):
        raise QueryError(f"front names {format_count(len(named), 'objective')}; name two different ones")
    return (named[0], named[1]) if named else (0, 1)


def draw_overview(experiment: ExperimentRows, price: GpuPrice) -> None:
    """Draws the charts of the overview before anybody asks for them."""
    draw_progress(experiment, by_time=False)
    draw_spending(experiment, price)
    draw_front(experiment, 0, 1)
    draw_rungs(experiment)
    if experiment.metrics:
        draw_curves(experiment, CurveAxes())


def list_newest_decisions(experiment: ExperimentRows, count: int) -> list[TrialDecision]:
    """The newest decisions on all trials, the newest first: at most `NEWEST`, as of older ones nothing is kept."""
    blocks = _list_decided.read_all(experiment)
    moments = sorted(chain.from_iterable(newest for newest, _ in blocks))
    since = moments[-count:][:1] or [""]  # at most so many trials have a newer one
    rows = (row for newest, rows in blocks if newest and newest[-1] >= since[0] for row in rows)
    decisions = (TrialDecision(row, entry) for row in rows for entry in row.view.status.ledger)
    return heapq.nlargest(count, decisions, key=_find_age)


@keep_by_trial
def _find_newest(row: TrialRow) -> tuple[str, TrialRow] | None:
    """The moment of the newest decision on a trial; None where there is none."""
    return (row.view.status.ledger[-1].time, row) if row.view.status.ledger else None


@keep_by_block(_find_newest)
def _list_decided(newest: Sequence[tuple[str, TrialRow] | None]) -> tuple[Sequence[str], Sequence[TrialRow]]:
    """The latest of these moments, one after the other, and the trials."""
    known = [each for each in newest if each is not None]
    moments = sorted(moment for moment, _ in known)[-NEWEST:]
    return moments, [row for moment, row in known if moment >= moments[0]]


def _find_algorithm(spec: Mapping[str, Any]) -> str:
    return str((spec.get("search") or {}).get("algorithm", SearchSpec.model_fields["algorithm"].default))


def _find_age(decided: TrialDecision) -> tuple[str, int, int]:
    return decided.entry.time, decided.row.view.index, decided.entry.number


def _draw(experiment: ExperimentRows, key: str, price: GpuPrice, *, by_time: bool) -> Plot | None:
    if key == "progress":
        return draw_progress(experiment, by_time=by_time)
    if key == "spending":
        spending = draw_spending(experiment, price)
        return spending.plot if spending is not None else None
    return find_slice(experiment, key)
