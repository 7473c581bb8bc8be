"""How `watch` shows an Experiment: a live table on a terminal, one line a change elsewhere."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from datetime import datetime
from itertools import count

from rich.console import Console, Group, RenderableType
from rich.live import Live
from rich.progress_bar import ProgressBar
from rich.table import Table
from rich.text import Text

from podtune.api.resources.experiment import BestTrial
from podtune.api.resources.trial import TrialStatus
from podtune.cli.client.resources import ExperimentView, TrialView
from podtune.cli.views.formats import format_age, format_best_holder, format_best_value, format_curve, format_number
from podtune.cli.views.progress import Progress
from podtune.cli.views.troubles import explain_trial, find_experiment_troubles
from podtune.trial.layout import FILLED_IN, ITERATION

STATE_STYLES = {
    "PENDING": "yellow",
    "RUNNING": "cyan",
    "PAUSED": "magenta",
    "TERMINATED": "green",
    "ERROR": "red",
    "Complete": "green",
    "Running": "cyan",
    "Failed": "red",
    "Stalled": "red",
}
_MAX_METRICS = 3
"""Results besides the objective that a row shows."""
BAR_WIDTH = 40
_GAP = 2
"""Columns between two of the table."""
TROUBLE_STYLE = "yellow"
MAX_TROUBLES = 8
"""How many trials that need attention are shown; the others are counted."""


def show_live(states: Iterable[Progress], console: Console, now: Callable[[], datetime]) -> Progress | None:
    """Draws the table anew after each change, and leaves its last state standing; returns that state."""
    last: Progress | None = None
    with Live(console=console, refresh_per_second=4, get_renderable=lambda: render(last, now(), console.width)) as live:
        for last in states:
            last.changed.clear()
        live.refresh()
    return last


def show_lines(
    states: Iterable[Progress], write: Callable[[str], None], now: Callable[[], datetime]
) -> Progress | None:
    """Writes a line whenever a trial's state, the experiment's numbers or what is wrong change; returns the end."""
    last: Progress | None = None
    written: list[str] = []
    for last in states:
        stamp = now().strftime("%H:%M:%S")
        for trial in last.changed:
            write(f"{stamp} {render_trial(trial)}")
        last.changed.clear()
        view = last.experiment
        lines = (
            [render_summary(view), *(f"{view.name} {words}" for words in find_experiment_troubles(view))]
            if view
            else []
        )
        for line in lines:
            if line not in written:
                write(f"{stamp} {line}")
        written = lines
    return last


def render(progress: Progress | None, now: datetime, width: int) -> RenderableType:
    """The whole picture: headline, progress, counts, best, what is wrong, and a row for each running trial."""
    experiment = progress.experiment if progress else None
    if progress is None or experiment is None:
        return Text("waiting for the experiment …", style="dim")
    parts: list[RenderableType] = [
        _render_headline(experiment, now),
        _render_progress(experiment),
        _render_counts(experiment),
    ]
    if experiment.status.best:
        parts.append(_render_best(experiment, experiment.status.best))
    parts += [Text(words, style=TROUBLE_STYLE) for words in find_experiment_troubles(experiment)]
    if progress.running:
        parts += [Text(), _render_running(progress.running, experiment, width)]
    if progress.troubled:
        parts += [Text(), _render_troubles(progress.troubled)]
    return Group(*parts)


def render_summary(view: ExperimentView) -> str:
    """The experiment in one line."""
    counts, found = view.status.trials, view.status.best
    best = f"; best {view.metric} {format_best_value(found)} ({format_best_holder(found)})" if found else ""
    return (
        f"{view.name} {view.state or 'waiting for the operator'}: "
        f"{view.finished_trials}/{view.expected_trials} trials done, "
        f"{counts.running} running, {counts.pending} pending, {counts.paused} paused, "
        f"{counts.error} failed{best}"
    )


def render_trial(trial: TrialView) -> str:
    """A trial in one line."""
    message = explain_trial(trial)
    return f"{trial.title} {trial.state} {trial.status.reason}{': ' if message else ''}{message}".rstrip()


def _render_state(state: str) -> Text:
    return Text(state, style=STATE_STYLES.get(state, ""))


def _render_headline(view: ExperimentView, now: datetime) -> Text:
    line = Text.assemble((view.name, "bold"), "  ", _render_state(view.state or "waiting for the operator"))
    since = view.status.start_time or view.created
    until = datetime.fromisoformat(view.status.completion_time) if view.status.completion_time else now
    return line.append(f"  {format_age(since, until)}  {view.status.message}", style="dim")


def _render_progress(view: ExperimentView) -> Table:
    finished = view.finished_trials
    row = Table.grid(padding=(0, 2))
    limit = view.expected_trials
    if isinstance(limit, int):
        bar = ProgressBar(total=max(limit, 1), completed=finished, width=BAR_WIDTH)
        row.add_row(bar, f"{finished} of {limit} trials done")
    else:
        row.add_row(f"{finished} trials done, {limit}")
    return row


def _render_counts(view: ExperimentView) -> Text:
    counts = view.status.trials
    shown = (
        ("pending", counts.pending, "PENDING"),
        ("running", counts.running, "RUNNING"),
        ("paused", counts.paused, "PAUSED"),
        (f"done ({counts.stopped_early} stopped early)", counts.terminated, "TERMINATED"),
        ("failed", counts.error, "ERROR"),
    )
    return Text("   ").join(
        Text(f"{number} {name}", style=STATE_STYLES[state] if number else "dim") for name, number, state in shown
    )


def _render_best(view: ExperimentView, best: BestTrial) -> Text:
    found = best.parameters
    values = ", ".join(f"{name} {format_number(found[name])}" for name in view.parameters if name in found)
    return Text.assemble(
        "best ",
        (f"{view.metric} {format_best_value(best)}", "bold green"),
        f" by {format_best_holder(best)}  ",
        (values, "dim"),
    )


def _render_running(trials: list[TrialView], experiment: ExperimentView, width: int) -> Table:
    shown = _list_columns(trials, experiment)
    for column in sorted((c for c in shown if c.rank), key=lambda c: c.rank):
        if sum(c.width for c in shown) + _GAP * (len(shown) - 1) <= width:
            break
        shown.remove(column)
    table = Table(box=None, pad_edge=False, header_style="bold", padding=(0, _GAP, 0, 0))
    for index, column in enumerate(shown):
        # Where it is too narrow still, a trial keeps its name, and what is told of it is cut.
        least = None if index else max(map(len, column.cells))
        table.add_column(Text(column.name), overflow="ellipsis", no_wrap=True, min_width=least)
    for row in zip(*(column.cells for column in shown), strict=True):
        table.add_row(*map(Text, row))  # not as they are: what is in brackets would be read as markup
    return table


@dataclass(eq=False, slots=True)
class _Column:
    """A column of the table.

    Attributes:
        rank: Where a terminal is narrow, the columns with the lowest go first; 0 for one that stays.
    """

    name: str
    cells: list[str]
    rank: int = 0

    @property
    def width(self) -> int:
        """Characters of its widest cell, or of its header."""
        return max(len(self.name), *map(len, self.cells))


def _list_columns(trials: list[TrialView], experiment: ExperimentView) -> list[_Column]:
    """The columns from left to right; of those that may go, the node goes first, and what was reached stays."""
    parameters, others = experiment.parameters, _format_other_metrics(trials, experiment)
    ranks = count(len(parameters) + len(others) + 2, -1)
    tried = [_Column(n, [format_number(t.parameters.get(n, "")) for t in trials], next(ranks)) for n in parameters]
    names = {name: f"{name} (result)" if name in parameters else name for name in (*others, experiment.metric)}
    reached = [_Column(names[n], _format_results(trials, n), next(ranks)) for n in others]
    curves = [format_curve(trial.status.curve) for trial in trials]
    return [
        _Column("TRIAL", [trial.title for trial in trials]),
        _Column("DOING", [_describe_doing(trial.status) for trial in trials]),
        *tried,
        *reached,
        _Column(names[experiment.metric], _format_results(trials, experiment.metric)),
        _Column("BEST", [format_number(trial.status.best_value) for trial in trials]),
        *([_Column("CURVE", curves, next(ranks))] if any(curves) else []),
        _Column("NODE", [trial.node for trial in trials], next(ranks)),
    ]


def _describe_doing(status: TrialStatus) -> str:
    return f"{status.reason}, attempt {status.attempt}" if status.attempt > 1 else status.reason


def _format_results(trials: list[TrialView], metric: str) -> list[str]:
    return [format_number(trial.status.last_result.get(metric, "")) for trial in trials]


def _format_other_metrics(trials: list[TrialView], experiment: ExperimentView) -> list[str]:
    """A few metrics beside the objective's; where there is none, how far the trials are.

    What the agent fills in is none of them, but for the time that a scheduler goes by.
    """
    reported = dict.fromkeys(name for trial in trials for name in trial.status.last_result)
    passed_over = {experiment.metric, *(FILLED_IN - {experiment.time_attribute, *experiment.objectives}), ITERATION}
    own = [name for name in reported if name not in passed_over]
    return own[:_MAX_METRICS] or [name for name in reported if name == ITERATION]


def _render_troubles(troubled: Sequence[tuple[TrialView, str]]) -> Table:
    """What waits for somebody to correct it, by name."""
    table = Table(box=None, pad_edge=False, header_style="bold")
    table.add_column("LOOK AT", no_wrap=True)
    table.add_column("FOR", overflow="fold")
    for trial, words in troubled[:MAX_TROUBLES]:
        table.add_row(Text(trial.name, style=STATE_STYLES.get(trial.state, "")), Text(words))
    if len(troubled) > MAX_TROUBLES:
        table.add_row(f"{len(troubled) - MAX_TROUBLES} more", Text("`podtune describe` shows all", style="dim"))
    return table
