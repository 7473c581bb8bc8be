"""Which parameters matter, on the page of the search space and as a picture."""

from __future__ import annotations

import asyncio

from aiohttp import web

from podtune.dashboard.charts.importance import ImportanceChart, measure_importance
from podtune.dashboard.pages.context import NotThere
from podtune.dashboard.rendering import render_svg
from podtune.dashboard.trial_rows import ExperimentRows


async def find_importance(request: web.Request, experiment: ExperimentRows) -> ImportanceChart | None:
    """The bars for the objective that the address names, or else the first; None for an experiment without any.

    Raises:
        NotThere: The experiment has no such objective.
    """
    if not experiment.metrics:
        return None
    metric = request.query.get("importance", experiment.metrics[0])
    if metric not in experiment.metrics:
        raise NotThere(f"Experiment {experiment.view.name!r} has no objective {metric!r}.")
    return await asyncio.to_thread(measure_importance, experiment, experiment.metrics.index(metric))


async def send_importance(request: web.Request, experiment: ExperimentRows) -> web.Response:
    """The bars as a file of its own.

    Raises:
        NotThere: There are no bars to show.
    """
    chart = await find_importance(request, experiment)
    if chart is None or not chart.bars:
        reason = f": {chart.problem}" if chart is not None else "."
        raise NotThere(f"Experiment {experiment.view.name!r} has no chart 'importance'{reason}")
    return render_svg(request, "space/importance.svg", "importance.svg", chart=chart, experiment=experiment)
