"""Pictures of searchers: which configurations are proposed, and why there."""

from __future__ import annotations

import math
from collections.abc import Sequence
from functools import cache
from typing import Any

import numpy as np
from numpy.typing import NDArray

from docs.algorithm_pictures.simulated import BOX, read_curve, read_point, read_value, simulate
from docs.algorithm_pictures.svg import Axes, Drawing, Point
from podtune.runner.records import Trial
from podtune.simulation.curves.functions import CURVE_FUNCTIONS
from podtune.simulation.trace import SimulationResult
from podtune.tuning.searchers.models.expected_improvement import ExpectedImprovement
from podtune.tuning.searchers.models.gaussian_process import GaussianProcess, fit_map

_UNIT = (0.0, 1.0)
_CELLS = 20
_BEST_SHARE = 0.12
"""The share of the space that is shaded as good."""
_LINE = BOX[:1]
_SLICE = "styblinski-tang"


@cache
def run_bohb() -> SimulationResult:
    """The experiment of its picture, and of its page's example."""
    search = {"algorithm": "bohb", "maxTrials": 280, "seed": 1}
    return simulate(search, {"bohb": {"maxTime": 27, "reductionFactor": 3}}, parameters=BOX, function="sphere")


def draw_even_searches() -> Drawing:
    """How evenly searches fill a space that don't learn."""
    drawing = Drawing(
        720,
        215,
        "Searches that don't learn fill the space more or less evenly",
        "64 configurations of two parameters by random search, a grid, and the sequences of Sobol and Halton.",
    )
    searches: dict[str, dict[str, Any]] = {
        "random": {"algorithm": "random"},
        "grid": {"algorithm": "grid", "grid": {"points": 8}},
        "qmc, sobol": {"algorithm": "qmc", "qmc": {"sequence": "sobol"}},
        "qmc, halton": {"algorithm": "qmc", "qmc": {"sequence": "halton"}},
    }
    for index, (title, search) in enumerate(searches.items()):
        outcome = simulate({**search, "maxTrials": 64, "seed": 1}, parameters=BOX, epochs=1, slots=8)
        axes = _make_panel(drawing, index, 4, title)
        for trial in outcome.trials:
            drawing.add_dot(axes.place(*read_point(trial)), "blue", 2.6)
    return drawing


def draw_tpe() -> Drawing:
    """Which trials count as good, and where it goes on."""
    search = {"algorithm": "tpe", "maxTrials": 60, "seed": 4, "tpe": {"startupTrials": 10}}
    trials = simulate(search, parameters=BOX, epochs=1).trials
    drawing = Drawing(
        720,
        320,
        "TPE proposes where good trials are dense and bad ones are not",
        "Left: forty trials, the best tenth marked. Right: the next twenty proposals. The best regions are shaded.",
    )
    left, right = _make_panel(drawing, 0, 2, "after 40 trials"), _make_panel(drawing, 1, 2, "the next 20 proposals")
    known = trials[:40]
    good = sorted(known, key=read_value)[: math.ceil(0.1 * len(known))]
    for axes in (left, right):
        _shade(axes, "branin")
        for trial in known:
            colour = "green" if trial in good else "plain"
            drawing.add_dot(axes.place(*read_point(trial)), colour, 4 if trial in good else 2.4)
    for trial in trials[40:]:
        drawing.add_dot(right.place(*read_point(trial)), "blue", 3)
    _explain(drawing, [("green", "good: the best tenth"), ("plain", "bad: all others"), ("blue", "proposed")])
    return drawing


def draw_bohb() -> Drawing:
    """Where it searches, the more it knows."""
    outcome = run_bohb()
    drawing = Drawing(
        720,
        320,
        "BOHB draws at random at first, and by a model of the highest rung later",
        "Three times forty of 280 configurations, as they were proposed; larger dots have trained longer.",
    )
    for index, first in enumerate((0, 120, 240)):
        axes = _make_panel(drawing, index, 3, f"trials {first + 1} to {first + 40}")
        _shade(axes, "sphere")
        for trial in outcome.trials[first : first + 40]:
            epoch = read_curve(trial)[-1][0]
            colour = "blue" if epoch >= 27 else "violet" if epoch >= 9 else "plain"
            drawing.add_dot(axes.place(*read_point(trial)), colour, 2.2 + 0.9 * math.log(epoch, 3))
    _explain(drawing, [("plain", "to epoch 1 or 3"), ("violet", "to epoch 9"), ("blue", "to epoch 27")])
    return drawing


def draw_cmaes() -> Drawing:
    """How the distribution moves and stretches."""
    size, shown = 12, (1, 3, 5, 8)
    most = 2 * size * shown[-1]  # with as many slots, a generation is proposed twice before it is over
    search = {"algorithm": "cmaes", "maxTrials": most, "seed": 2, "cmaes": {"populationSize": size}}
    trials = simulate(search, parameters=BOX, function="rosenbrock", epochs=1, slots=size).trials
    drawing = Drawing(
        720,
        245,
        "CMA-ES moves and stretches a normal distribution",
        "Generations 1, 3, 5 and 8 in a curved valley, each with an ellipse of two standard deviations.",
    )
    for index, generation in enumerate(shown):
        axes = _make_panel(drawing, index, 4, f"generation {generation}")
        _shade(axes, "rosenbrock")
        points = [read_point(trial) for trial in trials if _read_generation(trial) == generation - 1]
        drawing.add_line(axes.trace(_trace_ellipse(points)), "violet", wide=1.6)
        for point in points:
            drawing.add_dot(axes.place(*point), "blue", 2.8)
    _explain(drawing, [("blue", "a trial"), ("violet", "two standard deviations of the generation")])
    return drawing


def draw_nsga() -> Drawing:
    """How generations approach the front."""
    search = {"algorithm": "nsga2", "maxTrials": 400, "seed": 5, "nsga2": {"populationSize": 20}}
    objective = {"metric": "loss", "mode": "min", "others": [{"metric": "latency", "mode": "min"}]}
    parameters = [{"name": f"p{index}", "float": {"min": 0, "max": 1}} for index in range(6)]
    outcome = simulate(search, parameters=parameters, function="sphere", epochs=1, slots=1, objective=objective)
    drawing = Drawing(
        720,
        360,
        "NSGA-II breeds each generation from trials that no other one beats",
        "Loss and latency of the first, sixth and twentieth generation, and the Pareto front at the end.",
    )
    axes = Axes(drawing, (60, 60, 700, 315), (0, 100), (0, 100))
    axes.draw_y_ticks((0, 25, 50, 75, 100))
    axes.draw_x_ticks((0, 25, 50, 75, 100))
    axes.draw_frame("loss", "latency")
    colours = {0: "plain", 5: "violet", 19: "blue"}
    for generation, colour in colours.items():
        for trial in outcome.trials:
            values = _read_values(trial)
            if _read_generation(trial) == generation and max(values) <= 100:
                drawing.add_dot(axes.place(*values), colour, 3.2)
    names = {best.trial for best in outcome.status.pareto_front}
    front = sorted(_read_values(trial) for trial in outcome.trials if trial.name in names)
    drawing.add_line(axes.trace(front), "green", wide=1.8)
    entries = [(colour, f"generation {generation + 1}") for generation, colour in colours.items()]
    drawing.add_legend((60, 24), [*entries, ("green", "the front at the end")])
    return drawing


def draw_gp() -> Drawing:
    """What the model believes, and where improvement is expected."""
    search = {"algorithm": "gp", "maxTrials": 10, "seed": 2, "gp": {"startupTrials": 4}}
    trials = simulate(search, parameters=_LINE, function=_SLICE, epochs=1, slots=1).trials
    drawing = Drawing(
        720,
        400,
        "A Gaussian process says where improvement is expected",
        "One parameter, after four and after seven trials: the unknown loss, the model's mean and two standard "
        "deviations, and below them the expected improvement. The next trial goes to its highest point.",
    )
    for index, count in enumerate((4, 7)):
        _draw_model(drawing, index, trials[:count], trials[count])
    drawing.add_legend(
        (60, 24),
        [("plain", "the loss, unknown"), ("blue", "the model"), ("green", "expected improvement"), ("orange", "next")],
    )
    return drawing


def _draw_model(drawing: Drawing, index: int, known: Sequence[Trial], following: Trial) -> None:
    """A column: the model above, and the expected improvement below."""
    left = 60 + 345 * index
    above = Axes(drawing, (left, 65, left + 290, 275), _UNIT, (-70, 150))
    below = Axes(drawing, (left, 300, left + 290, 355), _UNIT, _UNIT)
    above.draw_y_ticks((-50, 0, 50, 100, 150))
    above.draw_frame("", "loss" if not index else "", f"after {len(known)} trials")
    below.draw_x_ticks((0, 0.5, 1))
    below.draw_frame("x")
    grid = np.linspace(0, 1, 121)
    points = np.array([[float(trial.spec.parameters["x"])] for trial in known])
    values = np.array([-read_value(trial) for trial in known])
    mean, spread = float(values.mean()), float(values.std())
    process = fit_map(points, (values - mean) / spread, np.array([False]))
    expected, deviation = process.predict(grid.reshape(-1, 1))
    losses, band = -(expected * spread + mean), 2 * deviation * spread
    area = [*zip(grid, losses + band, strict=True), *reversed(list(zip(grid, losses - band, strict=True)))]
    drawing.add_area(above.trace(area), "blue")
    drawing.add_line(
        above.trace_within(zip(grid, map(_evaluate_slice, grid), strict=True)), "plain", wide=1.4, dashed=True
    )
    drawing.add_line(above.trace_within(zip(grid, losses, strict=True)), "blue", wide=1.8)
    for trial in known:
        drawing.add_dot(above.place(float(trial.spec.parameters["x"]), read_value(trial)), "ink", 4)
    improvement = _compute_improvement(process, grid)
    drawing.add_area(below.trace([(0, 0), *zip(grid, improvement, strict=True), (1, 0)]), "green", 0.45)
    at = float(following.spec.parameters["x"])
    drawing.add_line([(above.x.place(at), 65), (above.x.place(at), 355)], "orange", wide=1.6, dashed=True)


def _compute_improvement(process: GaussianProcess, grid: NDArray[np.float64]) -> list[float]:
    """The expected improvement, as a share of its highest."""
    logs = ExpectedImprovement(process).evaluate(grid.reshape(-1, 1))
    return [float(share) for share in np.exp(logs - logs.max())]


def _evaluate_slice(x: float) -> float:
    return CURVE_FUNCTIONS[_SLICE].evaluate([x])


def _make_panel(drawing: Drawing, index: int, count: int, title: str) -> Axes:
    """One of several squares beside each other."""
    gap = 22
    side = min((drawing.width - 60 - gap * (count - 1)) / count, drawing.height - (60 if count == 4 else 95))
    left = (drawing.width - count * side - gap * (count - 1)) / 2 + index * (side + gap)
    axes = Axes(drawing, (left, 40, left + side, 40 + side), _UNIT, _UNIT)
    axes.draw_frame(title=title)
    drawing.add_text((axes.right, axes.bottom + 14), "x", colour="soft", anchor="end")
    drawing.add_text((axes.left - 5, axes.top + 8), "y", colour="soft", anchor="end")
    return axes


def _explain(drawing: Drawing, entries: Sequence[tuple[str, str]]) -> None:
    drawing.add_legend((24, drawing.height - 12), entries)


def _shade(axes: Axes, function: str) -> None:
    """Shades the cells of the space where the function is least."""
    evaluate = CURVE_FUNCTIONS[function].evaluate
    centres = [(index + 0.5) / _CELLS for index in range(_CELLS)]
    values = {(column, row): evaluate([x, y]) for column, x in enumerate(centres) for row, y in enumerate(centres)}
    limit = sorted(values.values())[round(_BEST_SHARE * len(values))]
    wide, high = (axes.right - axes.left) / _CELLS, (axes.bottom - axes.top) / _CELLS
    for (column, row), value in values.items():
        if value < limit:
            axes.drawing.add_bar((axes.left + column * wide, axes.bottom - (row + 1) * high, wide, high), "green", 0.16)


def _read_generation(trial: Trial) -> int:
    assert trial.spec.proposal is not None  # the searcher has made all of them
    return int(trial.spec.proposal.attributes["generation"])


def _read_values(trial: Trial) -> Point:
    curve = trial.status.curve
    assert curve is not None  # each has reported
    *_, last = curve.list_points()
    return last[2], last[3]


def _trace_ellipse(points: Sequence[Point]) -> list[Point]:
    """Two standard deviations around the mean of some points."""
    array = np.array(points)
    values, vectors = np.linalg.eigh(np.cov(array.T))
    angles = np.linspace(0, 2 * math.pi, 49)
    circle = np.stack([np.cos(angles), np.sin(angles)])
    ellipse = array.mean(axis=0)[:, None] + vectors @ (2 * np.sqrt(np.maximum(values, 0))[:, None] * circle)
    return [(float(x), float(y)) for x, y in ellipse.T]
