"""Which parameters matter, for a terminal and for programs."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from podtune.cli.client.resources import ExperimentView, TrialView
from podtune.cli.errors import CliError
from podtune.cli.views.columns import align_columns, wrap_line
from podtune.dashboard.charts.importance.bars import ImportanceBar, ImportanceChart, measure_importance
from podtune.dashboard.trial_rows import collect_rows

_WIDTH = 24
"""Of the longest bar, in characters."""


def measure_views(view: ExperimentView, trials: Sequence[TrialView], objective: str | None) -> ImportanceChart:
    """What matters for an objective, or for the first one.

    Raises:
        CliError: There is no such objective, or nothing can be said yet.
    """
    experiment = collect_rows(view, trials)
    if objective is not None and objective not in experiment.metrics:
        known = ", ".join(experiment.metrics) or "none"
        raise CliError(f"--objective {objective}: experiment {view.name!r} has no such objective; it has {known}")
    if not experiment.metrics or not experiment.axes:
        raise CliError(f"experiment {view.name!r} has no objective, or no parameter that changes between trials")
    chart = measure_importance(experiment, experiment.metrics.index(objective) if objective is not None else 0)
    if not chart.bars:
        raise CliError(chart.problem)
    return chart


def render_importance(chart: ImportanceChart, width: int | None = None) -> list[str]:
    """The lines for a terminal; without a `width` they have no end."""
    lines = _render_table(chart, _WIDTH)
    if width is not None and (excess := max(map(len, lines)) - width) > 0:
        lines = _render_table(chart, max(1, _WIDTH - excess))
    notes = [
        f"From {chart.trials:,} trials that have ended: what sets {chart.best_text} apart in {chart.metric}.",
        *(["That is few: take the order as a hint."] if chart.is_hint else []),
        f"± is the standard error ({chart.resamples} resamples, seed {chart.seed}).",
        *(["TIME is the rank correlation with the training time of each result."] if chart.has_times else []),
    ]
    return [*lines, "", *(line for note in notes for line in wrap_line(note, width))]


def _render_table(chart: ImportanceChart, longest: int) -> list[str]:
    header = ["PARAMETER", "IMPORTANCE", "", *(["TIME"] if chart.has_times else [])]
    return align_columns(header, [_render_bar(chart, bar, longest) for bar in chart.bars])


def collect_importance(chart: ImportanceChart) -> dict[str, Any]:
    """The same for programs."""
    return {
        "objective": chart.metric,
        "trials": chart.trials,
        "bestTrials": chart.best,
        "resamples": chart.resamples,
        "seed": chart.seed,
        "parameters": [
            {"name": bar.name, "importance": bar.share, "standardError": bar.error, "timeCorrelation": bar.time}
            for bar in chart.bars
        ],
    }


def _render_bar(chart: ImportanceChart, bar: ImportanceBar, longest: int) -> list[str]:
    if bar.share is None:
        share, length = "-", 0
    else:
        error = f" ± {chart.format_error(bar.error)}" if bar.error is not None else ""
        share = f"{chart.format_share(bar.share):>{3 + 2 * chart.decimals}} %{error}"
        length = round(longest * bar.share / (chart.bars[0].share or 1.0))  # the first is the longest
    return [bar.name, share, "█" * length or " ", *([f"{bar.time_text:>5}"] if chart.has_times else [])]
