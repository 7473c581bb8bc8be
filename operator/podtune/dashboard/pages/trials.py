"""The table of trials, and the page of one."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from aiohttp import web

from podtune.api.resources.trial import LedgerEntry
from podtune.cli.views.explain import explain_origin, locate_decision
from podtune.cli.views.troubles import find_trial_trouble
from podtune.dashboard.charts.learning.trial_curve import draw_trial_curve
from podtune.dashboard.numbers import format_text, read_finite, round_in_text
from podtune.dashboard.pages.context import find_present, find_rows, pick_row
from podtune.dashboard.pages.sharing import share_answer
from podtune.dashboard.pages.stored import offers_store
from podtune.dashboard.pages.trial_texts import find_log_places, has_manifest
from podtune.dashboard.progress.attempts import list_attempts
from podtune.dashboard.query_values import QueryError
from podtune.dashboard.rendering import render_download, render_page
from podtune.dashboard.table.columns import TableColumn, list_columns, select_columns
from podtune.dashboard.table.downloads import write_csv, write_json
from podtune.dashboard.table.query import PAGE_SIZES, TableQuery, parse_query
from podtune.dashboard.table.selection import cut_page, select_rows
from podtune.dashboard.trial_rows import ExperimentRows, TrialRow


@dataclass(frozen=True, slots=True)
class ParameterLine:
    """One parameter of a trial beside the best one's.

    Attributes:
        value: As the trial has it; empty where it does without.
        best: The same of the best trial.
        change: What is different, in a word or a factor; empty where nothing is.
    """

    name: str
    value: str
    exact: str
    best: str
    change: str
    sentence: str


@share_answer
async def show_trials(request: web.Request) -> web.Response:
    """The table; where its address asks for what there is not, the table says so and is empty."""
    experiment = find_rows(request)
    columns = list_columns(experiment)
    problem, query = "", TableQuery()
    try:
        query = parse_query(request.query, columns)
        page = cut_page(select_rows(experiment.rows, query, columns), query)
    except QueryError as error:
        problem, query = str(error), TableQuery(text=request.query.get("q", ""))
        page = cut_page((), query)
    shown = select_columns(list_columns(experiment, page.rows), query.columns)
    return render_page(
        request,
        "trials.html",
        status=(web.HTTPBadRequest if problem else web.HTTPOk).status_code,
        experiment=experiment,
        query=query,
        page=page,
        shown=shown,
        columns=columns,
        problem=problem,
        sizes=PAGE_SIZES,
    )


async def send_csv(request: web.Request) -> web.Response:
    """The table for spreadsheets."""
    experiment, _, shown, rows = _select(request)
    return render_download(write_csv(shown, rows), "text/csv", f"{experiment.view.name}-trials.csv")


async def send_json(request: web.Request) -> web.Response:
    """The table for programs."""
    experiment, query, shown, rows = _select(request)
    facts = {"experiment": experiment.view.name, "namespace": experiment.view.namespace, "filter": query.text}
    return render_download(write_json(shown, rows, facts), "application/json", f"{experiment.view.name}-trials.json")


@share_answer
async def show_trial(request: web.Request) -> web.Response:
    """One trial.

    Raises:
        NotThere: The experiment has no such trial.
    """
    experiment = find_rows(request)
    row = pick_row(experiment, request.match_info["trial"])
    place = next((place for place, each in enumerate(experiment.ranked, start=1) if each is row), None)
    at = experiment.rows.index(row)
    ledger = row.view.status.ledger
    return render_page(
        request,
        "trial.html",
        experiment=experiment,
        row=row,
        rank=place,
        elapsed=row.measure_time(find_present(request)),
        lines=compare_parameters(experiment, row),
        origin=explain_origin(row.view),
        trouble=find_trial_trouble(row.view),
        decisions=[(entry, locate_decision(entry), list_untold_inputs(entry)) for entry in reversed(ledger)],
        older=ledger[0].number - 1 if ledger else 0,
        attempts=list_attempts(row),
        places=find_log_places(request, experiment, row),
        has_manifest=has_manifest(request),
        has_store=offers_store(request, experiment),
        curve=draw_trial_curve(experiment, row),
        before=experiment.rows[at - 1] if at else None,
        after=experiment.rows[at + 1] if at + 1 < len(experiment.rows) else None,
    )


def compare_parameters(experiment: ExperimentRows, row: TrialRow) -> list[ParameterLine]:
    """A trial's parameters beside those of the best trial, in the manifest's order."""
    best = experiment.best
    others: Mapping[str, str] = best.view.parameters if best is not None and best is not row else {}
    own = row.view.parameters
    sentences = {axis.name: axis.sentence for axis in experiment.axes}
    names = dict.fromkeys([*experiment.view.parameters, *own])
    return [
        ParameterLine(
            name=name,
            value=format_text(own.get(name, "")),
            exact=own.get(name, ""),
            best=format_text(others.get(name, "")),
            change=_describe_change(own.get(name), others.get(name)) if others else "",
            sentence=sentences.get(name, ""),
        )
        for name in names
        if name in own or name in others
    ]


def list_untold_inputs(entry: LedgerEntry) -> list[tuple[str, str]]:
    """The numbers behind a decision that its sentence does not hold, with the digits that matter."""
    return [
        (name, round_in_text(format_text(text)))
        for name, text in entry.inputs.items()
        if not _is_told(text, entry.message)
    ]


def _is_told(text: str, message: str) -> bool:
    number = read_finite(text)
    return text in message or (number is not None and f"{number:g}" in message)


def _describe_change(own: str | None, best: str | None) -> str:
    """How a value differs from the best trial's."""
    if own == best:
        return ""
    if own is None or best is None:
        return "only the best has it" if own is None else "the best does without"
    value, other = read_finite(own), read_finite(best)
    if value is None or other is None:
        return "another value"
    if value == other:
        return ""
    if value > 0 and other > 0 and not 0.5 <= value / other <= 2:
        return f"× {format_text(str(value / other))}"
    return f"{'+' if value > other else '−'}{format_text(str(abs(value - other)))}"


def _select(request: web.Request) -> tuple[ExperimentRows, TableQuery, list[TableColumn], list[TrialRow]]:
    experiment = find_rows(request)
    columns = list_columns(experiment)
    query = parse_query(request.query, columns)
    return experiment, query, select_columns(columns, query.columns), select_rows(experiment.rows, query, columns)
