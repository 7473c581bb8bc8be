"""What `podtune simulate` prints."""

from __future__ import annotations

import sys
from collections import Counter
from collections.abc import Sequence
from typing import Any

from rich.console import Console, Group, RenderableType
from rich.table import Table
from rich.text import Text

from podtune.api.conditions import find_condition
from podtune.api.names import ConditionType
from podtune.api.resources.experiment import ExperimentSpec, ExperimentStatus
from podtune.api.resources.trial import TrialStatus
from podtune.cli.views.formats import format_duration
from podtune.cli.views.numbers import format_hours_column, format_number
from podtune.simulation.trace import Improvement, SimulationResult

ROWS = 12
"""Improvements that are shown to people."""
WIDTH = 120
"""Columns where the output is no terminal."""


def print_picture(picture: RenderableType) -> None:
    """Prints a picture, as wide as the terminal is."""
    Console(width=None if sys.stdout.isatty() else WIDTH, highlight=False, markup=False, emoji=False).print(picture)


def make_plain_table(*columns: str) -> Table:
    """A table without lines; its columns are for numbers, but for the first."""
    table = Table(box=None, pad_edge=False, header_style="bold")
    for place, column in enumerate(columns):
        table.add_column(column, justify="right" if place else "left", no_wrap=True)
    return table


def collect_outcome(outcome: SimulationResult) -> dict[str, Any]:
    """The outcome for programs; times in seconds."""
    status = outcome.status
    best = status.best
    return {
        "state": str(status.state),
        "message": status.message,
        "seconds": outcome.seconds,
        "gpuHours": outcome.gpu_hours,
        "results": outcome.results,
        "trials": status.trials.model_dump(by_alias=True),
        "lostCheckpoints": status.lost_checkpoints,
        "reasons": dict(sorted(Counter(trial.status.reason for trial in outcome.trials).items())),
        "best": best and {"trial": best.trial, "value": float(best.value), "parameters": best.parameters},
        "optimum": outcome.optimum,
        "regret": outcome.compute_regret(outcome.best) if outcome.best else None,
        "improvements": [_collect_improvement(outcome, improvement) for improvement in outcome.improvements],
        "decisions": [
            {
                "seconds": decided.seconds,
                "trial": decided.trial,
                "step": decided.entry.step,
                "action": decided.entry.action,
                "message": decided.entry.message,
                "inputs": decided.entry.inputs,
            }
            for decided in outcome.decisions
        ],
        "fingerprint": outcome.fingerprint,
    }


def render_outcome(name: str, spec: ExperimentSpec, outcome: SimulationResult, gpus: float | None) -> RenderableType:
    """The outcome for people."""
    status = outcome.status
    asked = f"{spec.search.algorithm}, {spec.scheduler.name}, {spec.max_concurrent_trials} at once"
    lines = Table.grid(padding=(0, 3))
    lines.add_row("Experiment", Text.assemble((name, "bold"), f"  {asked}, seed {spec.search.seed}"))
    lines.add_row("Ended", f"{status.state} after {format_duration(outcome.seconds)}: {status.message}")
    lines.add_row("Trials", _describe_trials([trial.status for trial in outcome.trials]))
    if losses := _describe_losses(status):
        lines.add_row("Lost", losses)
    lines.add_row("GPU time", _format_gpu_time(outcome, gpus))
    if status.best is not None:
        values = ", ".join(f"{name} {format_number(value)}" for name, value in status.best.parameters.items())
        headline = f"{spec.objective.metric} {format_number(status.best.value)}"
        lines.add_row("Best", Text.assemble((headline, "bold green"), f" by {status.best.trial}: {values}"))
    if outcome.best is not None and outcome.optimum is not None:
        regret = outcome.compute_regret(outcome.best) or 0.0
        lines.add_row("Regret", f"{regret:.6g}; the best possible value is {outcome.optimum:.6g}")
    return Group(lines, Text(), _render_improvements(spec.objective.metric, outcome))


def _collect_improvement(outcome: SimulationResult, improvement: Improvement) -> dict[str, Any]:
    return {
        "seconds": improvement.seconds,
        "gpuHours": improvement.gpu_hours,
        "value": improvement.value,
        "regret": outcome.compute_regret(improvement),
        "trial": improvement.trial,
        "iteration": improvement.iteration,
    }


def _describe_trials(statuses: Sequence[TrialStatus]) -> str:
    reasons = Counter((str(status.state), status.reason) for status in statuses)
    shown = (f"{count} {state} ({reason})" for (state, reason), count in reasons.most_common())
    return f"{len(statuses)}: {', '.join(shown)}"


def _describe_losses(status: ExperimentStatus) -> str:
    """What the operator says of checkpoints that were not stored in time; empty where all were."""
    stored = find_condition(status.conditions, ConditionType.CHECKPOINTS_STORED)
    return "" if stored is None else stored.message


def _format_gpu_time(outcome: SimulationResult, gpus: float | None) -> str:
    hours = f"{outcome.gpu_hours:.4g} GPU-hours"
    if gpus is None or not outcome.seconds:
        return hours
    return f"{hours} on {gpus:g} GPUs, {outcome.gpu_hours * 3600 / outcome.seconds / gpus:.0%} of their time"


def _render_improvements(metric: str, outcome: SimulationResult) -> Table:
    table = make_plain_table("AFTER", "GPU-HOURS", metric.upper(), "REGRET", "TRIAL", "ITERATION")
    shown = _select_some(outcome.improvements)
    hours = format_hours_column([improvement.gpu_hours for improvement in shown])
    for improvement, used in zip(shown, hours, strict=True):
        regret = outcome.compute_regret(improvement)
        table.add_row(
            format_duration(improvement.seconds),
            used,
            f"{improvement.value:.6g}",
            "-" if regret is None else f"{regret:.4g}",
            improvement.trial,
            str(improvement.iteration),
        )
    return table


def _select_some(improvements: Sequence[Improvement]) -> list[Improvement]:
    """A few of many, the first and the last among them."""
    last = len(improvements) - 1
    if last < ROWS:
        return list(improvements)
    return [improvements[round(place * last / (ROWS - 1))] for place in range(ROWS)]
