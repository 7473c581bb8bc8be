"""Pages of what a trial has in its store, read on request alone: all results, sizes of checkpoints, and logs."""

from __future__ import annotations

import asyncio
import csv
import io
import math
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TypeVar

from aiohttp import web

from podtune.cli.client.store_access import OpenedStore
from podtune.cli.errors import CliError, explain_error
from podtune.dashboard.access.reviews import TooManyQuestions
from podtune.dashboard.access.visit import may_read_logs
from podtune.dashboard.charts.learning.frame import CurveAxes, Point, list_metrics
from podtune.dashboard.charts.learning.history import list_history_points
from podtune.dashboard.charts.learning.trial_curve import draw_given_curve, write_given_points
from podtune.dashboard.live.event_stream import STAYS
from podtune.dashboard.live.object_reader import Busy
from podtune.dashboard.numbers import format_clock
from podtune.dashboard.pages.context import (
    CLOCK,
    HISTORIES,
    STORE_ACCESS,
    STORE_THREADS,
    NotThere,
    find_rows,
    pick_row,
)
from podtune.dashboard.pages.learning import list_axis_choices, read_axes, write_query
from podtune.dashboard.pages.meanwhile import announce
from podtune.dashboard.rendering import render_download, render_json, render_page, render_svg
from podtune.dashboard.stores.access import StoreAccess
from podtune.dashboard.stores.checkpoints import StoredCheckpoint, read_sizes
from podtune.dashboard.stores.former import list_readable_folders
from podtune.dashboard.stores.history import StoredHistory, read_stored_history
from podtune.dashboard.stores.limits import LimitedStore, ReadLimits
from podtune.dashboard.stores.logs import StoredLogs, read_log_ends
from podtune.dashboard.table.downloads import disarm
from podtune.dashboard.trial_rows import ExperimentRows, TrialRow
from podtune.kube.errors import ApiError
from podtune.storage.errors import StoreError
from podtune.trial.layout import TIME_TOTAL

MOST_STORE_READERS = 3
"""So many pages read stores at a time: what is read is held in memory, and takes its time to be understood."""
LONGEST_STORE_WAIT = 20.0
"""Seconds that a page waits for a store. A store that is silent may hold its thread for two minutes longer."""
LIMITS = ReadLimits()
MOST_RESULT_ROWS = 100
"""So many results are in a page's table: the latest."""
_Answer = TypeVar("_Answer")


@dataclass(frozen=True, slots=True)
class _Stored:
    """A trial, and who opens its store."""

    request: web.Request
    experiment: ExperimentRows
    row: TrialRow
    access: StoreAccess

    @contextmanager
    def open(self) -> Iterator[OpenedStore]:
        """Opens the store within limits, for the viewer who asks."""
        with self.access.open(self.request, self.experiment.view) as opened:
            yield OpenedStore(LimitedStore(opened.store, LIMITS, time.monotonic), opened.address)

    def read_history(self) -> StoredHistory:
        """All results, as they are now or were a moment ago."""
        view, metrics = self.experiment.view, tuple(name for name, _ in list_metrics(self.experiment))
        with self.open() as opened:  # also where they are at hand: it is refused to who may not read the store
            prefix = opened.address.experiment_prefix(view.uid)
            now = self.request.app[CLOCK]()

            def read() -> StoredHistory:
                former = list_readable_folders(opened, view)
                return read_stored_history(opened.store, prefix, self.row.name, metrics, former=former, now=now)

            return self.request.app[HISTORIES].find((view.namespace, view.uid, self.row.name, metrics), read)

    def read_sizes(self) -> list[StoredCheckpoint]:
        """The checkpoints with their sizes."""
        with self.open() as opened:
            kept = self.row.view.status.checkpoints
            view, address = self.experiment.view, opened.address
            former = [folder.prefix for folder in list_readable_folders(opened, view)]
            return read_sizes(opened.store, address, [*former, address.experiment_prefix(view.uid)], kept)

    def read_logs(self) -> StoredLogs:
        """The end of the log of each attempt."""
        with self.open() as opened:
            view = self.experiment.view
            former = list_readable_folders(opened, view)
            return read_log_ends(opened.store, opened.address.experiment_prefix(view.uid), self.row.name, former)

    async def ask(self, read: Callable[[], _Answer]) -> tuple[_Answer | None, str]:
        """What is read in a thread, or why it is not.

        Raises:
            Busy: Too many are reading.
        """
        answer = asyncio.wrap_future(self.request.app[STORE_THREADS].submit(read))
        try:
            return await asyncio.wait_for(answer, LONGEST_STORE_WAIT), ""
        except TimeoutError:
            return None, f"The store has not answered within {LONGEST_STORE_WAIT:g} seconds."
        except StoreError as error:
            return None, str(error)
        except (ApiError, CliError) as error:
            return None, explain_error(error)


def offers_store(request: web.Request, experiment: ExperimentRows) -> bool:
    """Whether these pages are there for an experiment."""
    access = request.app[STORE_ACCESS]
    return access is not None and not access.find_obstacle(experiment.view)


async def show_results(request: web.Request) -> web.Response:
    """The learning curve of all results.

    Raises:
        NotThere: There is no such trial, or nothing to read its store with.
        Busy: Too many are reading.
    """
    stored = _find_page(request, "trial/results.html")
    experiment, row = stored.experiment, stored.row
    axes = read_axes(experiment, request)
    found, problem = await stored.ask(lambda: _read_points(stored, axes))
    history, points = found or (None, ())
    return render_page(
        request,
        "trial/results.html",
        experiment=experiment,
        row=row,
        history=history,
        plot=draw_given_curve(experiment, row, points, axes) if points else None,
        drawn=len(points),
        choices=list_axis_choices(experiment, axes, ()),
        query=write_query(experiment, axes),
        latest=_list_latest(history) if history is not None else (),
        read=format_clock(history.read) if history is not None else "",
        problem=problem,
    )


async def send_results_chart(request: web.Request) -> web.Response:
    """The same curve as a picture of its own.

    Raises:
        NotThere: There is no such trial, or it can't be drawn.
        Busy: Too many are reading.
    """
    stored = _find(request)
    axes = read_axes(stored.experiment, request)
    plot = draw_given_curve(stored.experiment, stored.row, await _find_points(stored, axes), axes)
    return render_svg(request, "learning/trial.svg", f"{stored.row.name}-results.svg", plot=plot)


async def send_results_points(request: web.Request) -> web.Response:
    """What a pointer can find in that curve.

    Raises:
        NotThere: There is no such trial, or its results can't be read.
        Busy: Too many are reading.
    """
    stored = _find(request)
    axes = read_axes(stored.experiment, request)
    points = await _find_points(stored, axes)
    return render_json(write_given_points(draw_given_curve(stored.experiment, stored.row, points, axes), points, axes))


async def send_results_csv(request: web.Request) -> web.Response:
    """All results that the page stands for, for spreadsheets.

    Raises:
        NotThere: There is no such trial, or its results can't be read.
        Busy: Too many are reading.
    """
    stored = _find(request)
    text, problem = await stored.ask(lambda: _write_csv(stored.read_history()))
    if text is None:
        raise NotThere(problem)
    return render_download(text, "text/csv", f"{stored.row.name}-results.csv")


async def show_checkpoints(request: web.Request) -> web.Response:
    """The checkpoints of a trial with their sizes.

    Raises:
        NotThere: There is no such trial, or nothing to read its store with.
        Busy: Too many are reading.
    """
    stored = _find_page(request, "trial/checkpoints.html")
    found, problem = await stored.ask(stored.read_sizes)
    return render_page(
        request,
        "trial/checkpoints.html",
        experiment=stored.experiment,
        row=stored.row,
        checkpoints=found or (),
        problem=problem,
    )


async def show_logs(request: web.Request) -> web.Response:
    """What is kept of the logs of all attempts: the end of each.

    Raises:
        NotThere: There is no such trial, or nothing to read its store with.
        Busy: Too many are reading.
    """
    stored = _find_page(request, "trial/stored_logs.html")
    found, problem = await _ask_for_logs(stored)
    return render_page(
        request,
        "trial/stored_logs.html",
        experiment=stored.experiment,
        row=stored.row,
        found=found or StoredLogs(()),
        problem=problem,
    )


async def _ask_for_logs(stored: _Stored) -> tuple[StoredLogs | None, str]:
    """The logs, for who may read those of pods; a store has them for the same eyes."""
    try:
        if await may_read_logs(stored.request):
            return await stored.ask(stored.read_logs)
    except TooManyQuestions as error:
        raise Busy("the API server") from error
    except (ApiError, CliError) as error:
        return None, explain_error(error)
    namespace = stored.experiment.view.namespace
    return None, f"you need the right to get pods/log in namespace {namespace}, as for kubectl logs"


def _find_page(request: web.Request, template: str) -> _Stored:
    """What a page shows, which says that it reads the store where that takes long."""
    request[STAYS] = True
    stored = _find(request)
    asked = f"Reading the store of {stored.experiment.view.name}"
    announce(request, template, asked, LONGEST_STORE_WAIT, experiment=stored.experiment, row=stored.row)
    return stored


def _find(request: web.Request) -> _Stored:
    experiment = find_rows(request)
    row, access = pick_row(experiment, request.match_info["trial"]), request.app[STORE_ACCESS]
    obstacle = access.find_obstacle(experiment.view) if access is not None else "this dashboard reads no stores"
    if access is None or obstacle:
        raise NotThere(f"{obstacle[0].upper()}{obstacle[1:]}. {_suggest_command(experiment, row)}.")
    return _Stored(request, experiment, row, access)


def _suggest_command(experiment: ExperimentRows, row: TrialRow) -> str:
    return f"What it has stored is printed by kubectl podtune results {row.name} -n {experiment.view.namespace}"


def _read_points(stored: _Stored, axes: CurveAxes) -> tuple[StoredHistory, Sequence[Point]]:
    history = stored.read_history()
    return history, list_history_points(history, axes)


async def _find_points(stored: _Stored, axes: CurveAxes) -> Sequence[Point]:
    found, problem = await stored.ask(lambda: _read_points(stored, axes))
    if found is None:
        raise NotThere(problem)
    if not found[1]:
        raise NotThere(f"{stored.row.name} has stored nothing that these axes can show.")
    return found[1]


def _list_latest(history: StoredHistory) -> list[tuple[float | None, ...]]:
    """The latest results, the last first: attempt, iteration, training time and values."""
    columns: list[Sequence[float]] = [history.attempts, history.steps, history.seconds, *history.values]
    latest = zip(*(column[-MOST_RESULT_ROWS:] for column in columns), strict=True)
    return [tuple(None if math.isnan(cell) else cell for cell in row) for row in reversed(list(latest))]


def _write_csv(history: StoredHistory) -> str:
    out = io.StringIO()
    writer = csv.writer(out)
    writer.writerow(["attempt", "iteration", TIME_TOTAL, *(disarm(metric) for metric in history.metrics)])
    columns = (history.seconds, *history.values)
    for attempt, step, *cells in zip(history.attempts, history.steps, *columns, strict=True):
        writer.writerow([attempt, int(step), *("" if math.isnan(cell) else repr(cell) for cell in cells)])
    return out.getvalue()
