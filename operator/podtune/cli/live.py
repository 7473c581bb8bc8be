"""How `watch` shows an Experiment: a live table on a terminal, one line a change elsewhere."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from datetime import datetime

from rich.console import Console, Group, RenderableType
from rich.live import Live
from rich.progress_bar import ProgressBar
from rich.table import Table
from rich.text import Text

from podtune.cli.progress import Progress
from podtune.cli.resources import ExperimentView, TrialView, age, short
from podtune.trial.layout import ITERATION

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
MAX_METRICS = 3
"""Results besides the objective that a row shows."""
BAR_WIDTH = 40


def show_live(states: Iterable[Progress], console: Console, now: Callable[[], datetime]) -> Progress | None:
    """Draws the table anew after each change, and leaves its last state standing; returns that state."""
    last: Progress | None = None
    with Live(console=console, refresh_per_second=4, get_renderable=lambda: render(last, now())) as live:
        for last in states:
            last.changed.clear()
        live.refresh()
    return last


def show_lines(
    states: Iterable[Progress], write: Callable[[str], None], now: Callable[[], datetime]
) -> Progress | None:
    """Writes a line whenever a trial's state or the experiment's numbers change; returns the last state."""
    last: Progress | None = None
    written = ""
    for last in states:
        stamp = now().strftime("%H:%M:%S")
        for trial in last.changed:
            write(f"{stamp} {trial_line(trial)}")
        last.changed.clear()
        line = summary_line(last.experiment) if last.experiment else ""
        if line and line != written:
            write(f"{stamp} {line}")
            written = line
    return last


def render(progress: Progress | None, now: datetime) -> RenderableType:
    """The whole picture: headline, progress, counts, best, and a row for each running trial."""
    experiment = progress.experiment if progress else None
    if progress is None or experiment is None:
        return Text("waiting for the experiment …", style="dim")
    parts: list[RenderableType] = [_headline(experiment, now), _progress(experiment), _counts(experiment)]
    if experiment.best:
        parts.append(_best(experiment))
    if progress.running:
        parts += [Text(), _running(progress.running, experiment)]
    return Group(*parts)


def summary_line(view: ExperimentView) -> str:
    """The experiment in one line."""
    counts = view.counts
    best = f"; best {view.metric} {view.best.whole_value} ({view.best.holder})" if view.best else ""
    return (
        f"{view.name} {view.state or 'waiting for the operator'}: {counts.finished}/{view.max_trials} trials, "
        f"{counts.running} running, {counts.pending} pending, {counts.paused} paused, "
        f"{counts.failed} failed{best}"
    )


def trial_line(trial: TrialView) -> str:
    """A trial in one line."""
    return f"{trial.name} {trial.state} {trial.reason}{': ' if trial.message else ''}{trial.message}".rstrip()


def _styled(state: str) -> Text:
    return Text(state, style=STATE_STYLES.get(state, ""))


def _headline(view: ExperimentView, now: datetime) -> Text:
    line = Text.assemble((view.name, "bold"), "  ", _styled(view.state or "waiting for the operator"))
    since = view.start_time or view.created
    until = datetime.fromisoformat(view.completion_time) if view.completion_time else now
    return line.append(f"  {age(since, until)}  {view.message}", style="dim")


def _progress(view: ExperimentView) -> Table:
    finished = view.counts.finished
    row = Table.grid(padding=(0, 2))
    limit = view.max_trials
    if isinstance(limit, int):
        bar = ProgressBar(total=max(limit, 1), completed=finished, width=BAR_WIDTH)
        row.add_row(bar, f"{finished} of {limit} trials")
    else:
        row.add_row(f"{finished} trials, {limit}")
    return row


def _counts(view: ExperimentView) -> Text:
    counts = view.counts
    shown = (
        ("pending", counts.pending, "PENDING"),
        ("running", counts.running, "RUNNING"),
        ("paused", counts.paused, "PAUSED"),
        (f"done ({counts.stopped_early} stopped early)", counts.done, "TERMINATED"),
        ("failed", counts.failed, "ERROR"),
    )
    return Text("   ").join(
        Text(f"{number} {name}", style=STATE_STYLES[state] if number else "dim") for name, number, state in shown
    )


def _best(view: ExperimentView) -> Text:
    assert view.best is not None  # render asks first
    found = view.best.parameters
    values = ", ".join(f"{name} {short(found[name])}" for name in view.parameters if name in found)
    return Text.assemble(
        "best ", (f"{view.metric} {view.best.whole_value}", "bold green"), f" by {view.best.holder}  ", (values, "dim")
    )


def _running(trials: list[TrialView], experiment: ExperimentView) -> Table:
    parameters, metric = experiment.parameters, experiment.metric
    reported = dict.fromkeys(name for trial in trials for name in trial.last_result)
    own = [name for name in reported if name not in (metric, ITERATION)]
    metrics = own[:MAX_METRICS] or [name for name in reported if name == ITERATION]
    table = Table(box=None, pad_edge=False, header_style="bold")
    # Where it gets narrow, a trial keeps its name, and what is told of it is cut.
    table.add_column("TRIAL", no_wrap=True, min_width=max((len(trial.name) for trial in trials), default=0))
    for name in ("DOING", *parameters, *metrics, metric, "BEST", "NODE"):
        table.add_column(name, overflow="ellipsis", no_wrap=True)
    for trial in trials:
        cells = [trial.parameters.get(name, "") for name in parameters]
        cells += [trial.last_result.get(name, "") for name in (*metrics, metric)]
        doing = f"{trial.reason}, attempt {trial.attempt}" if trial.attempt > 1 else trial.reason
        table.add_row(trial.name, doing, *map(short, cells), short(trial.best_value), trial.node)
    return table
