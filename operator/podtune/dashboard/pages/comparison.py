"""The page that compares a few trials, and the files behind it. Its address names them."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from urllib.parse import parse_qsl, urlencode

from aiohttp import web

from podtune.dashboard.charts.learning.compared import (
    ComparedPlot,
    LineStyle,
    draw_compared,
    style_line,
    write_compared_points,
)
from podtune.dashboard.pages.context import NotThere, find_rows
from podtune.dashboard.pages.learning import list_axis_choices, read_axes, write_query
from podtune.dashboard.rendering import render_download, render_json, render_page, render_svg
from podtune.dashboard.table.comparison import FEWEST, MOST, compare_trials, list_compared_columns
from podtune.dashboard.table.downloads import write_csv, write_json
from podtune.dashboard.trial_rows import ExperimentRows, TrialRow


@dataclass(frozen=True, slots=True)
class ComparedTrials:
    """The trials that an address names, each once, in its order."""

    experiment: ExperimentRows
    names: Sequence[str]

    @property
    def rows(self) -> list[TrialRow]:
        """Those that the experiment has."""
        return [self.experiment.by_name[name] for name in self.names if name in self.experiment.by_name]

    @property
    def missing(self) -> list[str]:
        """The names of the others."""
        return [name for name in self.names if name not in self.experiment.by_name]

    @property
    def styles(self) -> Mapping[str, LineStyle]:
        """The line of each; it stays the same when another trial is deleted."""
        return {name: style_line(place) for place, name in enumerate(self.names)}

    @property
    def problem(self) -> str:
        """Why these can't be compared, and what to do; empty where they can."""
        if len(self.names) > MOST:
            return f"{len(self.names)} trials are too many to tell apart in one chart. Choose at most {MOST}."
        if len(self.rows) >= FEWEST:
            return ""
        if self.missing:
            return "Too few of the chosen trials are left to compare. Choose at least two that are there."
        if self.rows:
            return f"Only {self.rows[0].name} is chosen. Choose at least one more."
        return "No trial is chosen. Choose at least two."


@dataclass(frozen=True, slots=True)
class RosterEntry:
    """A compared trial with its line, and the query that leaves it out; empty where too few would be left."""

    row: TrialRow
    style: LineStyle
    rank: int | None
    without: str


async def show_comparison(request: web.Request) -> web.Response:
    """Trials side by side; where its address names too few or too many, the page says so."""
    compared = read_compared(request)
    experiment, rows = compared.experiment, compared.rows
    if compared.problem:
        is_gone = compared.missing and len(compared.names) <= MOST
        status = (web.HTTPNotFound if is_gone else web.HTTPBadRequest).status_code
        facts = {"experiment": experiment, "compared": compared, "fewest": FEWEST, "most": MOST}
        return render_page(request, "comparison/problem.html", status=status, **facts)
    axes, comparison = read_axes(experiment, request), compare_trials(experiment, rows)
    named = name_trials(rows)
    return render_page(
        request,
        "comparison/page.html",
        experiment=experiment,
        compared=compared,
        comparison=comparison,
        roster=[
            RosterEntry(
                row=row,
                style=compared.styles[row.name],
                rank=comparison.ranks.get(row.name),
                without=write_query(experiment, axes, name_trials(each for each in rows if each is not row))
                if len(rows) > FEWEST
                else "",
            )
            for row in rows
        ],
        plot=draw_compared(experiment, rows, compared.styles, axes),
        has_curves=any(row.view.status.curve is not None for row in rows),
        choices=list_axis_choices(experiment, axes, named),
        query=write_query(experiment, axes, named),
        downloads=urlencode(named),
        # Live pages leave fields as they are, so these name the same trials after one is deleted.
        fields=[*(("trial", name) for name in compared.names), *parse_qsl(write_query(experiment, axes))],
        proposed=[row.name for row in experiment.ranked[: 2 * MOST] if row not in rows][:MOST],
        has_room=len(compared.names) < MOST,
    )


async def send_comparison_csv(request: web.Request) -> web.Response:
    """The compared trials for spreadsheets, one in each row."""
    compared = _read_comparable(request)
    text = write_csv(list_compared_columns(compared.experiment, compared.rows), compared.rows)
    return render_download(text, "text/csv", f"{compared.experiment.view.name}-comparison.csv")


async def send_comparison_json(request: web.Request) -> web.Response:
    """The compared trials for programs."""
    compared = _read_comparable(request)
    view = compared.experiment.view
    facts = {"experiment": view.name, "namespace": view.namespace, "missing": compared.missing}
    text = write_json(list_compared_columns(compared.experiment, compared.rows), compared.rows, facts)
    return render_download(text, "application/json", f"{view.name}-comparison.json")


async def send_comparison_chart(request: web.Request) -> web.Response:
    """The curves as a picture of their own.

    Raises:
        NotThere: No compared trial has a curve.
    """
    compared, plot = _draw(request)
    if plot is None:
        raise NotThere("None of these trials has a curve that can be drawn.")
    facts = {"plot": plot, "experiment": compared.experiment}
    return render_svg(request, "comparison/curves.svg", "comparison.svg", **facts)


async def send_comparison_points(request: web.Request) -> web.Response:
    """What a pointer can find in the chart."""
    _, plot = _draw(request)
    return render_json(write_compared_points(plot))


def read_compared(request: web.Request) -> ComparedTrials:
    """The trials that an address names."""
    names = dict.fromkeys(name for text in request.query.getall("trial", []) if (name := text.strip()))
    return ComparedTrials(find_rows(request), list(names))


def name_trials(rows: Iterable[TrialRow]) -> list[tuple[str, str]]:
    """What an address has to name trials."""
    return [("trial", row.name) for row in rows]


def _read_comparable(request: web.Request) -> ComparedTrials:
    compared = read_compared(request)
    if compared.problem:
        raise web.HTTPBadRequest(text=f"{compared.problem}\n")
    return compared


def _draw(request: web.Request) -> tuple[ComparedTrials, ComparedPlot | None]:
    compared = _read_comparable(request)
    axes = read_axes(compared.experiment, request)
    return compared, draw_compared(compared.experiment, compared.rows, compared.styles, axes)
