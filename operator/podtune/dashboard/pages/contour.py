"""Two parameters together, on the page of the search space and as pictures: the objective, and where trials fail."""

from __future__ import annotations

import asyncio

from aiohttp import web

from podtune.dashboard.charts.contour import Contour, draw_contour
from podtune.dashboard.charts.failures import KIND_WORDS, FailureMap, draw_failures
from podtune.dashboard.charts.importance.bars import ImportanceChart
from podtune.dashboard.pages.context import NotThere
from podtune.dashboard.pages.importance import find_importance
from podtune.dashboard.query_values import read_choice
from podtune.dashboard.rendering import render_svg
from podtune.dashboard.trial_rows import ExperimentRows

Pair = tuple[str, str]


def choose_pair(request: web.Request, experiment: ExperimentRows, importance: ImportanceChart) -> Pair | None:
    """The parameters that the address names, or else the two most important; None where there are not two.

    Raises:
        QueryError: The experiment has no such parameter, or it never changes.
    """
    names = [axis.name for axis in experiment.axes]
    if len(names) < 2:
        return None
    ranked = list(dict.fromkeys([*(bar.name for bar in importance.bars if bar.share is not None), *names]))
    x = read_choice(request.query, "x", names, ranked[0])
    return x, read_choice(request.query, "y", names, next(name for name in ranked if name != x))


async def find_pair(request: web.Request, experiment: ExperimentRows) -> tuple[ImportanceChart | None, Pair | None]:
    """The importance of the parameters, as the address asks for it, and the pair that `choose_pair` takes from it."""
    importance = await find_importance(request, experiment)
    return importance, choose_pair(request, experiment, importance) if importance is not None else None


async def find_contour(experiment: ExperimentRows, importance: ImportanceChart, pair: Pair) -> Contour | None:
    """The chart of two parameters; None where there is nothing to draw."""
    if pair[0] == pair[1]:
        return None
    return await asyncio.to_thread(draw_contour, experiment, experiment.metrics.index(importance.metric), *pair)


async def send_contour(request: web.Request, experiment: ExperimentRows) -> web.Response:
    """The chart as a file of its own.

    Raises:
        NotThere: There is nothing to draw.
    """
    importance, pair = await find_pair(request, experiment)
    contour = await find_contour(experiment, importance, pair) if importance is not None and pair is not None else None
    if contour is None:
        raise NotThere(f"Experiment {experiment.view.name!r} has no chart 'contour' of these parameters.")
    return render_svg(request, "space/contour.svg", "contour.svg", contour=contour, experiment=experiment)


async def find_failures(experiment: ExperimentRows, pair: Pair | None) -> FailureMap | None:
    """The failures over two parameters; None where there are not two, or nothing has failed."""
    if pair is None or pair[0] == pair[1]:
        return None
    return await asyncio.to_thread(draw_failures, experiment, *pair)


async def send_failures(request: web.Request, experiment: ExperimentRows) -> web.Response:
    """The failures as a file of its own.

    Raises:
        NotThere: There is nothing to draw.
    """
    _, pair = await find_pair(request, experiment)
    failures = await find_failures(experiment, pair)
    if failures is None:
        raise NotThere(f"Experiment {experiment.view.name!r} has no chart 'failures' of these parameters.")
    return render_svg(
        request, "space/failures.svg", "failures.svg", failures=failures, kinds=KIND_WORDS, experiment=experiment
    )
