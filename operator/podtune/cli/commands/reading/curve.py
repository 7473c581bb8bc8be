"""`podtune curve`: learning curves in the terminal."""

from __future__ import annotations

import math
import shutil
import sys
from collections.abc import Sequence
from enum import StrEnum
from typing import Annotated, Any

import typer

from podtune.cli.client.named_api import open_all_named
from podtune.cli.client.resources import TrialView, get_experiment, get_trial
from podtune.cli.errors import CliError
from podtune.cli.options import Context, ForPrograms, Kubeconfig, Namespace, TrialNames
from podtune.cli.output import CommandAnswer, print_answer
from podtune.cli.views.columns import wrap_line
from podtune.cli.views.formats import format_duration
from podtune.cli.views.numbers import format_number
from podtune.cli.views.plot import LETTERS, PlotLine, PlottedCurve, plot_curves

_COLOURS = (
    "cyan",
    "magenta",
    "yellow",
    "green",
    "blue",
    "red",
    "white",
    "bright_cyan",
    "bright_magenta",
    "bright_yellow",
    "bright_green",
    "bright_blue",
)
_USUAL_WIDTH, _LEAST_WIDTH, _MOST_WIDTH = 80, 40, 120
_LEAST_HEIGHT, _MOST_HEIGHT = 8, 20


class Across(StrEnum):
    """What stands on the axis below."""

    ITERATION = "iteration"
    TIME = "time"


def print_curves(
    trials: TrialNames,
    *,
    metric: Annotated[
        str, typer.Option("--metric", metavar="METRIC", help="Which objective; the first if not given.")
    ] = "",
    over: Annotated[
        Across, typer.Option("--over", help="What stands below: iterations, or training time in seconds.")
    ] = (Across.ITERATION),
    output: ForPrograms = None,
    namespace: Namespace = None,
    context: Context = None,
    kubeconfig: Kubeconfig = None,
) -> None:
    """Draw the learning curves of Trials, in one picture; `results` has all that they have reported."""
    names = list(dict.fromkeys(trials))
    if len(names) > len(LETTERS):
        raise CliError(f"{len(names)} Trials are named; name at most {len(LETTERS)}")
    api, chosen, names = open_all_named(names, kubeconfig, context, namespace)
    views = [get_trial(api, chosen, name) for name in names]
    others = [view for view in views if view.experiment != views[0].experiment]
    if others:
        raise CliError(
            f"{others[0].name} is a Trial of {others[0].experiment}, and {views[0].name} one of {views[0].experiment}; "
            "name Trials of one Experiment"
        )
    known = get_experiment(api, chosen, views[0].experiment).curve_metrics
    wanted = metric or known[0]
    if wanted not in known:
        raise CliError(f"--metric {wanted}: curves are kept of {', '.join(known)}; `podtune results` has the others")
    place = known.index(wanted)
    answer = CommandAnswer(
        lines=lambda width: draw_in_plain_text(views, wanted, place, over, width or _USUAL_WIDTH),
        facts=lambda: {"metric": wanted, "items": [_collect_curve(view, place) for view in views]},
    )
    if output is None and sys.stdout.isatty():
        _print_in_colour(views, wanted, place, over)
    else:
        print_answer(answer, output)


def _read_points(view: TrialView, place: int) -> list[tuple[float, float, float]]:
    curve = view.status.curve
    return [(step, seconds, values[place]) for step, seconds, *values in curve.list_points()] if curve else []


def _collect_curve(view: TrialView, place: int) -> dict[str, Any]:
    points = _read_points(view, place)
    return {
        "trial": view.name,
        "steps": [int(step) for step, _, _ in points],
        "seconds": [seconds for _, seconds, _ in points],
        "values": [value for _, _, value in points],
    }


def _draw(
    views: Sequence[TrialView], metric: str, place: int, over: Across, width: int
) -> tuple[list[PlotLine], list[str]]:
    """The picture, and a line for each trial below it.

    Raises:
        CliError: None of them has a value yet.
    """
    points = [_read_points(view, place) for view in views]
    curves = [
        PlottedCurve([p[1] if over is Across.TIME else p[0] for p in each], [p[2] for p in each]) for each in points
    ]
    if not any(any(curve.list_points()) for curve in curves):
        raise CliError(f"{', '.join(view.name for view in views)}: no finite value of {metric} is reported yet")
    height = min(max(shutil.get_terminal_size().lines - 6 - len(views), _LEAST_HEIGHT), _MOST_HEIGHT)
    lines = plot_curves(curves, min(max(width, _LEAST_WIDTH), _MOST_WIDTH), height)
    return lines, [_describe(view, metric, each) for view, each in zip(views, points, strict=True)]


def _describe(view: TrialView, metric: str, points: Sequence[tuple[float, float, float]]) -> str:
    finite = [point for point in points if math.isfinite(point[2])]
    if not finite:
        return f"{view.name}  no value yet"
    step, seconds, value = finite[-1]
    time = f", {format_duration(seconds)} of training" if math.isfinite(seconds) else ""
    return f"{view.name}  {metric} {format_number(str(value))} at iteration {step:.0f}{time}"


def draw_in_plain_text(views: Sequence[TrialView], metric: str, place: int, over: Across, width: int) -> list[str]:
    """The picture without colours: letters say which curve ends where."""
    lines, legend = _draw(views, metric, place, over, width)
    drawn = [f"{line.label}{line.text} {LETTERS[line.end] if line.end is not None else ''}".rstrip() for line in lines]
    return [
        f"{metric} over {_name_axis(over)}",
        *drawn,
        "",
        *(part for line in _letter(legend) for part in wrap_line(line, width)),
    ]


def _name_axis(over: Across) -> str:
    return "seconds of training" if over is Across.TIME else "iterations"


def _letter(legend: Sequence[str]) -> list[str]:
    if len(legend) == 1:
        return list(legend)
    return [f"{letter}  {line}" for letter, line in zip(LETTERS, legend, strict=False)]


def _print_in_colour(views: Sequence[TrialView], metric: str, place: int, over: Across) -> None:
    # Other commands do without these, and start faster.
    from rich.console import Console  # noqa: PLC0415
    from rich.text import Text  # noqa: PLC0415

    console = Console()
    lines, legend = _draw(views, metric, place, over, console.width)
    console.print(Text(f"{metric} over {_name_axis(over)}", style="bold"))
    for line in lines:
        row = Text(line.label, style="dim")
        for character, owner in zip(line.text, line.owners, strict=True):
            row.append(character, style=_COLOURS[owner] if owner is not None else "dim")
        if line.end is not None:
            row.append(f" {LETTERS[line.end]}", style=_COLOURS[line.end])
        console.print(row, no_wrap=True, overflow="ignore", crop=False)
    console.print()
    for owner, text in enumerate(_letter(legend)):
        console.print(Text(text, style=_COLOURS[owner]))
