"""The parts of pages that show how trials learn, and the files behind them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from urllib.parse import urlencode

from aiohttp import web

from podtune.dashboard.charts.learning.curves import FIRST, MOST_LISTED, CurvePlot, draw_curves, write_curve_points
from podtune.dashboard.charts.learning.frame import CurveAxes, list_metrics
from podtune.dashboard.charts.learning.rungs import OUTCOME_WORDS, RungPlot, draw_rungs, write_rung_points
from podtune.dashboard.charts.learning.trial_curve import TrialCurvePlot, draw_trial_curve, write_trial_points
from podtune.dashboard.numbers import read_finite
from podtune.dashboard.pages.context import NotThere, find_rows
from podtune.dashboard.pages.sharing import share_answer
from podtune.dashboard.query_values import read_choice
from podtune.dashboard.rendering import render_json, render_svg
from podtune.dashboard.trial_rows import ExperimentRows

CHARTS = ("curves", "rungs", "trial")
"""The first words of their keys; a trial's name comes after it."""


@dataclass(frozen=True, slots=True)
class Choice:
    """A link to the same page with other axes."""

    label: str
    query: str
    is_chosen: bool


@dataclass(frozen=True, slots=True)
class LearningPart:
    """What an experiment's page shows of how its trials learn.

    Attributes:
        plot: The curves; None where there is none.
        has_curves: Whether any trial has a curve, though perhaps none that these axes can show.
        query: What restores these axes.
        choices: Links to others, by group.
    """

    plot: CurvePlot | None
    has_curves: bool
    has_results: bool
    rungs: RungPlot | None
    query: str
    choices: Sequence[tuple[str, Sequence[Choice]]]
    progress_choices: Sequence[Choice]
    listed: int = MOST_LISTED
    first: int = FIRST


def make_learning_part(experiment: ExperimentRows, request: web.Request) -> LearningPart:
    """What the overview shows for the axes in its address."""
    axes = read_axes(experiment, request)
    by_time = asks_by_time(request)
    others = [("x", "time")] if by_time else []
    return LearningPart(
        plot=draw_curves(experiment, axes),
        has_curves=any(row.view.status.curve is not None for row in experiment.rows),
        has_results=bool(experiment.ranked),
        rungs=draw_rungs(experiment),
        query=write_query(experiment, axes),
        choices=list_axis_choices(experiment, axes, others),
        progress_choices=[
            Choice("by trial", write_query(experiment, axes), not by_time),
            Choice("by time", write_query(experiment, axes, [("x", "time")]), by_time),
        ],
    )


def list_axis_choices(
    experiment: ExperimentRows, axes: CurveAxes, others: Sequence[tuple[str, str]]
) -> list[tuple[str, Sequence[Choice]]]:
    """Links to the same curves on other axes, by group.

    Args:
        experiment: Whose curves they are.
        axes: Those that are shown.
        others: What else the address asks for.
    """
    metrics = [name for name, _ in list_metrics(experiment)]
    groups: list[tuple[str, list[tuple[str, CurveAxes]]]] = [
        ("Objective", [(name, replace(axes, objective=place)) for place, name in enumerate(metrics)]),
        (
            "What lies along the x axis",
            [("by iteration", replace(axes, by_time=False)), ("by time", replace(axes, by_time=True))],
        ),
        ("Scale of the x axis", [("x linear", replace(axes, is_log_x=False)), ("x log", replace(axes, is_log_x=True))]),
        ("Scale of the y axis", [("y linear", replace(axes, is_log_y=False)), ("y log", replace(axes, is_log_y=True))]),
    ]
    return [
        (label, [Choice(word, write_query(experiment, wanted, others), wanted == axes) for word, wanted in choices])
        for label, choices in groups
        if len(choices) > 1
    ]


def read_axes(experiment: ExperimentRows, request: web.Request) -> CurveAxes:
    """The axes that an address names.

    Raises:
        QueryError: There is no such objective, or no such axis.
    """
    query, names = request.query, [name for name, _ in list_metrics(experiment)]
    objective, log = read_choice(query, "objective", names, ""), read_choice(query, "log", ("x", "y", "xy"), "")
    return CurveAxes(
        objective=names.index(objective) if objective else 0,
        by_time=read_choice(query, "curves", ("iteration", "time"), "iteration") == "time",
        is_log_x="x" in log,
        is_log_y="y" in log,
    )


def asks_by_time(request: web.Request) -> bool:
    """Whether the best value so far is drawn over time, and not over the trials.

    Raises:
        QueryError: The address names another axis.
    """
    return read_choice(request.query, "x", ("trials", "time"), "trials") == "time"


def render_learning_chart(experiment: ExperimentRows, key: str, request: web.Request) -> web.Response:
    """Learning curves or rungs as a picture of their own.

    Raises:
        NotThere: The experiment has none.
    """
    kind, _, name = key.partition(":")
    plot: CurvePlot | RungPlot | TrialCurvePlot | None = None
    if key == "curves":
        plot = draw_curves(experiment, read_axes(experiment, request))
    elif key == "rungs":
        plot = draw_rungs(experiment)
    elif name in experiment.by_name:
        plot = draw_trial_curve(experiment, experiment.by_name[name])
    if plot is None:
        raise NotThere(f"Experiment {experiment.view.name!r} has no chart {key!r}.")
    return render_svg(request, f"learning/{kind}.svg", plot=plot, experiment=experiment, outcomes=OUTCOME_WORDS)


@share_answer
async def send_points(request: web.Request) -> web.Response:
    """What a pointer can find in a chart.

    Raises:
        NotThere: There is no such chart, or no such trial.
    """
    experiment, (kind, _, name) = find_rows(request), request.match_info["chart"].partition(":")
    if kind == "curves":
        text = write_curve_points(experiment, read_axes(experiment, request))
    elif kind == "rung" and (rung := read_finite(name)) is not None:
        text = write_rung_points(experiment, rung)
    elif kind == "trial" and name in experiment.by_name:
        text = write_trial_points(experiment, experiment.by_name[name])
    else:
        raise NotThere(f"Experiment {experiment.view.name!r} has no chart {request.match_info['chart']!r}.")
    return render_json(text)


def write_query(experiment: ExperimentRows, axes: CurveAxes, others: Sequence[tuple[str, str]] = ()) -> str:
    """The query of an address that restores axes, without what is so anyway."""
    log = f"{'x' if axes.is_log_x else ''}{'y' if axes.is_log_y else ''}"
    objective = list_metrics(experiment)[axes.objective][0] if axes.objective else ""
    facts = [("objective", objective), ("curves", "time" if axes.by_time else ""), ("log", log)]
    return urlencode([*others, *((name, text) for name, text in facts if text)])
