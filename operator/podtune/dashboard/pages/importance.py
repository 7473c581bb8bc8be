"""Which parameters matter, on the page of the search space and as a picture."""

from __future__ import annotations

import asyncio

from aiohttp import web

from podtune.dashboard.charts.importance.bars import (
    METHOD_WORDS,
    ImportanceChart,
    ImportanceMethod,
    has_forests,
    measure_importance,
)
from podtune.dashboard.charts.importance.course import ImportanceCourse, draw_importance_course
from podtune.dashboard.pages.context import NotThere
from podtune.dashboard.query_values import read_choice
from podtune.dashboard.rendering import render_svg
from podtune.dashboard.trial_rows import ExperimentRows

MOST_AT_ONCE = 2000
"""With more trials, a page first shows what takes less time."""


async def find_importance(request: web.Request, experiment: ExperimentRows) -> ImportanceChart | None:
    """The bars for the objective that the address names, or else the first; None for an experiment without any.

    Raises:
        QueryError: There is no such objective, or importance can't be computed in such a way here.
    """
    if not experiment.metrics:
        return None
    method = read_choice(request.query, "by", list_methods(), ImportanceMethod.PED_ANOVA)
    return await asyncio.to_thread(measure_importance, experiment, _read_objective(request, experiment), method)


def list_methods() -> dict[ImportanceMethod, str]:
    """How importance can be computed here, with names for people; the first unless the address names another."""
    return {
        method: word for method, word in METHOD_WORDS.items() if method is not ImportanceMethod.FANOVA or has_forests()
    }


def asks_for_course(request: web.Request, experiment: ExperimentRows) -> bool:
    """Whether the page has importance as the search went on; of very many trials on request, as it would come late."""
    return len(experiment.rows) <= MOST_AT_ONCE or "course" in request.query


async def find_course(request: web.Request, experiment: ExperimentRows) -> ImportanceCourse | None:
    """The importance as the search went on; None where it can't be told.

    Raises:
        QueryError: The experiment has no such objective.
    """
    if not experiment.metrics:
        return None
    return await asyncio.to_thread(draw_importance_course, experiment, _read_objective(request, experiment))


async def send_course(request: web.Request, experiment: ExperimentRows) -> web.Response:
    """The same as a file of its own.

    Raises:
        NotThere: There is nothing to draw.
    """
    course = await find_course(request, experiment)
    if course is None:
        raise NotThere(f"Experiment {experiment.view.name!r} has no chart 'importance-course' yet.")
    return render_svg(request, "space/course.svg", "importance-course.svg", course=course, experiment=experiment)


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


def _read_objective(request: web.Request, experiment: ExperimentRows) -> int:
    metrics = experiment.metrics
    return metrics.index(read_choice(request.query, "importance", metrics, metrics[0]))
