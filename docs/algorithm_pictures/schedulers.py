"""Pictures of schedulers: which trials go on, and when."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from functools import cache
from itertools import pairwise
from statistics import mean, median

from docs.algorithm_pictures.simulated import EPOCHS, AttemptBar, list_attempts, read_curve, simulate
from docs.algorithm_pictures.svg import Axes, Drawing
from podtune.api.names import DecisionKind
from podtune.runner.records import Trial
from podtune.simulation.trace import SimulationResult

RUNGS = (1, 3, 9, 27)
_BY_RUNG = {1: "plain", 3: "violet", 9: "green", 27: "blue"}
_RANDOM = {"algorithm": "random", "seed": 3}
_LOSSES = (3, 10, 30, 100)
_ROW = 8.0
_POPULATION = {"algorithm": "random", "maxTrials": 6, "seed": 4}


@cache
def run_asha_promotion() -> SimulationResult:
    """The experiment of its picture, and of its page's example."""
    return simulate({**_RANDOM, "maxTrials": 24}, {"ashaPromotion": {"maxTime": EPOCHS, "reductionFactor": 3}})


@cache
def run_hyperband() -> SimulationResult:
    """The same for HyperBand."""
    return simulate({**_RANDOM, "maxTrials": 49}, {"hyperband": {"maxTime": EPOCHS, "reductionFactor": 3}}, slots=8)


@cache
def run_pb2() -> SimulationResult:
    """The same for PB2."""
    return simulate(_POPULATION, {"pb2": {"interval": 3, "quantile": 0.3, "synchronous": True}}, slots=6)


def draw_asha() -> Drawing:
    """Trials that are stopped at rungs."""
    outcome = simulate({**_RANDOM, "maxTrials": 27}, {"asha": {"maxTime": EPOCHS, "reductionFactor": 3}})
    drawing = Drawing(
        720,
        360,
        "ASHA stops trials at rungs",
        "Learning curves of 27 trials. Most end at the lowest rungs, and few reach the end.",
    )
    axes = _make_curve_axes(drawing, logs="xy")
    axes.draw_x_ticks(RUNGS, lines=True)
    _draw_curves(axes, outcome)
    count = sum(_is_full(trial) for trial in outcome.trials)
    drawing.add_legend((60, 24), [("blue", f"trained to epoch 27: {count}"), ("orange", f"stopped: {27 - count}")])
    return drawing


def draw_median() -> Drawing:
    """Trials that are stopped below the median."""
    outcome = simulate({**_RANDOM, "maxTrials": 24}, {"median": {"gracePeriod": 3, "minSamples": 4}}, slots=8)
    drawing = Drawing(
        720,
        360,
        "The median rule stops trials whose best result is worse than the median of means",
        "Learning curves of 24 trials, and the median that they were compared with at each epoch.",
    )
    axes = _make_curve_axes(drawing, logs="y")
    axes.draw_x_ticks((1, 3, 6, 9, 12, 15, 18, 21, 24, 27))
    _draw_curves(axes, outcome)
    drawing.add_line(axes.trace(_list_medians(outcome, 3)), "ink", wide=2, dashed=True)
    full = sum(_is_full(trial) for trial in outcome.trials)
    drawing.add_legend(
        (60, 24),
        [
            ("blue", f"trained to the end: {full}"),
            ("orange", f"stopped: {24 - full}"),
            ("ink", "the median of the means, at the end"),
        ],
    )
    return drawing


def draw_asha_promotion() -> Drawing:
    """Trials that are paused at each rung, and resumed."""
    return _draw_timeline(
        run_asha_promotion(),
        "ASHA by promotion pauses each trial at each rung",
        "When each of 24 trials had a pod, on four slots, and how far it came: most ran for one epoch, few for 27.",
        labels=[],
    )


def draw_hyperband() -> Drawing:
    """Brackets whose trials wait for each other."""
    outcome = run_hyperband()
    bars = list(list_attempts(outcome))
    first = {bar.trial: bar.reached for bar in reversed(bars)}
    brackets = sorted({reached: min(t for t in first if first[t] == reached) for reached in first.values()}.items())
    labels = [(trial, f"first halving at epoch {reached}") for reached, trial in brackets if reached < EPOCHS]
    labels += [(trial, "no halving") for reached, trial in brackets if reached == EPOCHS]
    return _draw_timeline(
        outcome,
        "HyperBand runs brackets one after the other",
        "When each of 49 trials had a pod, on eight slots. All trials of a bracket reach a rung before some go on.",
        labels=labels,
        row=6.0,
    )


def draw_pbt() -> Drawing:
    """A population that changes its configurations."""
    outcome = simulate(
        _POPULATION, {"pbt": {"interval": 3, "quantile": 0.3, "resampleProbability": 0.1, "synchronous": True}}, slots=6
    )
    return _draw_population(
        outcome,
        "Population-based training replaces the worst by clones of the best",
        "Loss and learning rate of six trials over 27 epochs; rings mark clones.",
    )


def draw_pb2() -> Drawing:
    """The same, with a model that chooses."""
    return _draw_population(
        run_pb2(),
        "PB2 chooses the configuration of a clone by a model",
        "Loss and learning rate of six trials over 27 epochs; rings mark clones.",
    )


def _make_curve_axes(drawing: Drawing, logs: str) -> Axes:
    axes = Axes(drawing, (50, 60, 700, 315), (1, EPOCHS), (1.5, 250), logs=logs)
    axes.draw_y_ticks(_LOSSES)
    axes.draw_frame("epoch", "loss")
    return axes


def _is_full(trial: Trial) -> bool:
    return read_curve(trial)[-1][0] == EPOCHS


def _draw_curves(axes: Axes, outcome: SimulationResult) -> None:
    """Those that were stopped first, with a cross at their end."""
    for trial in sorted(outcome.trials, key=_is_full):
        points = axes.trace(read_curve(trial))
        if _is_full(trial):
            axes.drawing.add_line(points, "blue", wide=1.8)
        else:
            axes.drawing.add_line(points, "orange", wide=1)
            axes.drawing.add_cross(points[-1], "orange")


def _list_medians(outcome: SimulationResult, grace: int) -> Iterator[tuple[int, float]]:
    """What the rule compares with when all has been reported: the median of the trials' means up to an epoch."""
    curves = [dict(read_curve(trial)) for trial in outcome.trials]
    for epoch in range(grace, EPOCHS + 1):
        means = [mean([curve[e] for e in range(grace, epoch + 1)]) for curve in curves if epoch in curve]
        yield epoch, median(means)


def _draw_timeline(
    outcome: SimulationResult, title: str, description: str, *, labels: Sequence[tuple[int, str]], row: float = _ROW
) -> Drawing:
    """A row for each trial, with a bar for each time that it had a pod."""
    bars = list(list_attempts(outcome))
    count, end = len(outcome.trials), max(bar.end for bar in bars)
    height = round(60 + row * count + 45)
    drawing = Drawing(720, height, title, description)
    axes = Axes(drawing, (50, 45, 700, 45 + row * count), (0, end), (count, 0))
    step = 20 if end > 60 else 5
    axes.draw_x_ticks(range(0, int(end) + 1, step), lines=True)
    axes.draw_frame("minutes; an epoch takes one", "")
    for trial, text in labels:
        at = axes.y.place(trial)
        drawing.add_line([(axes.left, at), (axes.right, at)], "soft", wide=1, dashed=True)
        side = "end" if _find_begin(bars, trial) < end / 2 else "start"
        drawing.add_text((axes.right if side == "end" else axes.left + 8, at + 13), text, colour="soft", anchor=side)
    for bar in bars:
        left, top = axes.place(bar.start, bar.trial)
        colour = _BY_RUNG[min(rung for rung in RUNGS if rung >= min(bar.reached, EPOCHS))]
        drawing.add_bar((left + 0.5, top + 1, axes.x.place(bar.end) - left - 1, row - 2), colour)
    drawing.add_text((axes.left - 8, axes.top + 8), "trials", colour="soft", anchor="end")
    drawing.add_legend((60, 24), [(colour, f"to epoch {rung}") for rung, colour in _BY_RUNG.items()])
    return drawing


def _find_begin(bars: Sequence[AttemptBar], trial: int) -> float:
    """When a trial's first pod started."""
    return min(bar.start for bar in bars if bar.trial == trial)


def _draw_population(outcome: SimulationResult, title: str, description: str) -> Drawing:
    drawing = Drawing(720, 330, title, description)
    loss = Axes(drawing, (50, 60, 345, 285), (1, EPOCHS), (3, 250), logs="y")
    rate = Axes(drawing, (415, 60, 700, 285), (1, EPOCHS), (0.0001, 0.1), logs="y")
    loss.draw_y_ticks(_LOSSES)
    rate.draw_y_ticks((0.0001, 0.001, 0.01, 0.1))
    for axes, label in ((loss, "loss"), (rate, "learning rate")):
        axes.draw_x_ticks((1, 9, 18, 27))
        axes.draw_frame("epoch", label)
    winner = min(outcome.trials, key=lambda trial: read_curve(trial)[-1][1])
    for trial in sorted(outcome.trials, key=lambda trial: trial is winner):
        colour, wide = ("blue", 2.2) if trial is winner else ("plain", 1.2)
        for part in _split(read_curve(trial)):
            drawing.add_line(loss.trace(part), colour, wide=wide)
        steps = list(_list_rates(outcome, trial))
        drawing.add_line(rate.trace(_make_stairs(steps)), colour, wide=wide)
        for epoch, value in steps[1:]:
            drawing.add_dot(rate.place(epoch, value), colour, 3.5, hollow=True)
        for before, part in _pair(_split(read_curve(trial))):
            drawing.add_line(loss.trace([before[-1], part[0]]), colour, wide=1, dashed=True)
            drawing.add_dot(loss.place(*part[0]), colour, 3.5, hollow=True)
    drawing.add_legend((60, 24), [("blue", "the best trial at the end"), ("plain", "the others")])
    return drawing


def _split(curve: Sequence[tuple[int, float]]) -> list[list[tuple[int, float]]]:
    """A curve where the trial went on from another one's checkpoint: its epochs fall, or its loss jumps down."""
    parts: list[list[tuple[int, float]]] = [[]]
    for point in curve:
        last = parts[-1][-1] if parts[-1] else None
        if last is not None and (point[0] <= last[0] or point[1] < 0.6 * last[1]):
            parts.append([])
        parts[-1].append(point)
    return parts


def _pair(
    parts: Sequence[list[tuple[int, float]]],
) -> Iterator[tuple[list[tuple[int, float]], list[tuple[int, float]]]]:
    yield from pairwise(parts)


def _list_rates(outcome: SimulationResult, trial: Trial) -> Iterator[tuple[int, float]]:
    """From which epoch on a trial has had which learning rate."""
    yield 1, float(trial.spec.parameters["lr"])
    for decided in outcome.decisions:
        entry = decided.entry
        if decided.trial == trial.name and entry.action == DecisionKind.EXPLOIT and "lr" in entry.inputs:
            yield entry.step or 1, float(str(entry.inputs["lr"]).split("→")[-1])


def _make_stairs(steps: Sequence[tuple[int, float]]) -> list[tuple[float, float]]:
    ends = [epoch for epoch, _ in steps[1:]] + [EPOCHS]
    return [point for (start, value), end in zip(steps, ends, strict=True) for point in ((start, value), (end, value))]
