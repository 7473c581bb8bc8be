"""How `watch` shows an Experiment: a live table on a terminal, one line a change elsewhere."""

from __future__ import annotations

import re
from collections.abc import Callable, Collection, Iterable, Sequence
from dataclasses import dataclass
from datetime import datetime

from rich.console import Console, Group, JustifyMethod, RenderableType
from rich.live import Live
from rich.table import Table
from rich.text import Text

from podtune.api.names import ExperimentState, TrialReason, TrialState
from podtune.api.resources.experiment import BestTrial
from podtune.cli.client.resources import ExperimentView, TrialView
from podtune.cli.views.budgets import estimate_time_left
from podtune.cli.views.formats import format_age, format_best_holder, format_best_value
from podtune.cli.views.live.gpus import GpuDemand, format_gpus
from podtune.cli.views.live.rungs import count_stands, list_rung_rows
from podtune.cli.views.live.trial_columns import build_table
from podtune.cli.views.numbers import format_count, format_hours, format_number, read_finite
from podtune.cli.views.progress import Progress
from podtune.cli.views.troubles import explain_trial, find_experiment_troubles

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
_CELL_STYLES = {"DOING": "cyan", "CURVE": "cyan", "NODE": "dim"}
_COUNTS = re.compile(r"[0-9,]+( of [0-9,]+)? trials done, [0-9,]+ running")
BAR_WIDTH, _LEAST_BAR = 40, 8
_GAP = 2
"""Characters between two columns of a table."""
_NEW_LINE = "\n"
_MOST_BEST = 5
"""How many trials are shown when the experiment has ended."""
_LEAST_ROWS, _OTHER_LINES = 5, 14
"""Trials have the lines of a terminal that the rest leaves them; a few are shown in any case."""
TROUBLE_STYLE = "yellow"
MAX_TROUBLES = 8
"""How many trials that need attention are shown; the others are counted."""
MAX_FAILURES = 2
"""How many trials that have failed are shown, the latest; they often say the same."""


def show_live(states: Iterable[Progress], console: Console, now: Callable[[], datetime]) -> Progress | None:
    """Draws the table anew after each change, and leaves its last state standing; returns that state."""
    last: Progress | None = None

    def draw() -> RenderableType:
        # A thread of the table's own draws, while changes are taken in.
        shown = last.copy() if last is not None else None
        return render(shown, now(), console.width, console.height)

    with Live(console=console, refresh_per_second=4, get_renderable=draw) as live:
        for last in states:
            last.changed.clear()
        live.refresh()
    return last


def show_lines(
    states: Iterable[Progress], write: Callable[[str], None], now: Callable[[], datetime]
) -> Progress | None:
    """Writes a line whenever a trial's state, the experiment's numbers or what is wrong change; returns the end."""
    last: Progress | None = None
    writer = LineWriter(write, now)
    for last in states:
        writer.take(last)
    return last


class LineWriter:
    """Writes what has changed, a line each."""

    def __init__(self, write: Callable[[str], None], now: Callable[[], datetime]) -> None:
        """Has written nothing yet."""
        self._write = write
        self._now = now
        self._written: list[str] = []

    def take(self, progress: Progress) -> None:
        """Writes what is new of an experiment."""
        stamp = self._now().strftime("%H:%M:%S")
        for trial in progress.changed:
            self._write(f"{stamp} {render_trial(trial)}")
        progress.changed.clear()
        view = progress.experiment
        lines = (
            [render_summary(view), *(f"{view.name} {words}" for words in find_experiment_troubles(view))]
            if view
            else []
        )
        for line in lines:
            if line not in self._written:
                self._write(f"{stamp} {line}")
        self._written = lines


def render(progress: Progress | None, now: datetime, width: int, height: int | None = None) -> RenderableType:
    """The whole picture: how far it is, the best, GPUs, what is wrong, rungs, and a row for each running trial.

    Args:
        progress: What is known; None before anything is.
        now: The present time.
        width: Of the terminal.
        height: Of the terminal: no more trials are shown than have room; None for all.
    """
    experiment = progress.experiment if progress else None
    if progress is None or experiment is None:
        return Text("waiting for the experiment …", style="dim")
    trials = progress.trials.values()
    parts: list[RenderableType | None] = [
        _render_headline(experiment, now),
        _render_progress(experiment, now, width),
        _render_counts(experiment),
        _render_best(experiment, experiment.status.best, width) if experiment.status.best else None,
        _render_gpus(experiment, trials),
        *(Text(words, style=TROUBLE_STYLE) for words in find_experiment_troubles(experiment)),
    ]
    if rungs := _render_rungs(experiment, trials, width):
        parts += [Text(), rungs]
    most = len(progress.trials) if height is None else max(_LEAST_ROWS, height - _OTHER_LINES)
    shown = _choose_trials(progress, experiment, most)
    if shown.trials:
        parts += [Text(), *_render_trials(shown, trials, experiment, width)]
    if progress.troubled:
        parts += [Text(), _render_troubles(progress.troubled)]
    if failed := [trial for trial in progress.failed if trial.status.message]:
        parts += [Text(), _render_failures(failed)]
    return Group(*(part for part in parts if part is not None))


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
    line.append(f"  {format_age(since, until)}", style="dim")
    # While all goes its way, the message is what the counts below say.
    told = view.state == ExperimentState.RUNNING and _COUNTS.fullmatch(view.status.message)
    return line if told else line.append(f"  {view.status.message}", style="dim")


def _render_progress(view: ExperimentView, now: datetime, width: int) -> Text:
    """How far the experiment is: a bar where there is room and an end, the count, and the time left."""
    finished, limit = view.finished_trials, view.expected_trials
    if not isinstance(limit, int):
        return Text(f"{finished} trials done, {limit}")
    left = estimate_time_left(view, now.timestamp())
    words = f"{finished} of {limit} trials done"
    rest = f"  {left.text}" if left else ""
    room = min(BAR_WIDTH, width - len(words) - len(rest) - _GAP)
    line = Text()
    if room >= _LEAST_BAR:
        full = round(room * min(finished / max(limit, 1), 1.0))
        line.append("━" * full, style="green").append("━" * (room - full), style="grey37").append(" " * _GAP)
    return line.append(words).append(rest, style="dim")


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


def _render_best(view: ExperimentView, best: BestTrial, width: int) -> Text:
    """The best value and whose it is, and its parameters beside that or below."""
    found = best.parameters
    values = ", ".join(f"{name} {format_number(found[name])}" for name in view.parameters if name in found)
    line = Text.assemble(
        "best ", (f"{view.metric} {format_best_value(best)}", "bold green"), f" by {format_best_holder(best)}"
    )
    fits = len(line) + _GAP + len(values) <= width
    return line.append(f"{'' if fits else _NEW_LINE}{' ' * _GAP}{values}" if values else "", style="dim")


def _render_gpus(view: ExperimentView, trials: Collection[TrialView]) -> Text | None:
    """How many GPUs are in use, how many are waited for, and what they have added up to; None without GPUs."""
    demand = GpuDemand(view)
    holders = [trial for trial in trials if trial.is_running]
    waiters = [t for t in trials if t.state == TrialState.PENDING and t.status.reason == TrialReason.UNSCHEDULABLE]
    used, missing = (sum(map(demand.count, group)) for group in (holders, waiters))
    usage = view.status.usage
    if not used and not missing and not (usage and usage.gpu_hours):
        return None
    if view.status.completion_time and usage:
        return Text(f"{format_hours(usage.gpu_hours)} GPU-hours", style="dim")
    line = Text(f"GPUs {format_gpus(used)} in use")
    if missing:
        line.append(f"   {format_gpus(missing)} waited for", style="yellow")
    return line.append(f"   {format_hours(usage.gpu_hours)} GPU-hours so far" if usage else "", style="dim")


def _render_rungs(view: ExperimentView, trials: Collection[TrialView], width: int) -> RenderableType | None:
    stands = count_stands(trials)
    if not stands:
        return None
    rows = list_rung_rows(stands, view.time_attribute, width)
    table = Table.grid(padding=(0, 0, 0, _GAP))
    table.add_column(no_wrap=True)
    for _ in rows[0][1:]:
        table.add_column(justify="right", no_wrap=True)
    for place, row in enumerate(rows):
        style = "bold" if place == 0 else ""
        cells = (Text(cell, style="dim" if cell == "0" else style) for cell in row[1:])
        table.add_row(Text(row[0], style="dim"), *cells)
    return table


@dataclass(frozen=True, slots=True)
class _ShownTrials:
    """The trials of the table.

    Attributes:
        title: What they are, where they are not those that run.
        more: How many have no room.
    """

    title: str
    trials: Sequence[TrialView]
    more: int = 0


def _choose_trials(progress: Progress, view: ExperimentView, most: int) -> _ShownTrials:
    """The trials that run, or at the end of the experiment the best."""
    running = progress.running
    if running or not view.status.completion_time:
        return _ShownTrials("", running[:most], max(0, len(running) - most))
    sign = -1.0 if view.objectives.get(view.metric) == "max" else 1.0
    valued = [
        (sign * value, trial)
        for trial in progress.trials.values()
        if (value := read_finite(trial.status.best_value)) is not None
    ]
    ranked = sorted(valued, key=lambda pair: (pair[0], pair[1].index))
    return _ShownTrials("the best trials", [trial for _, trial in ranked[:_MOST_BEST]])


def _render_trials(
    shown: _ShownTrials, everyone: Collection[TrialView], view: ExperimentView, width: int
) -> list[RenderableType]:
    built = build_table(shown.trials, everyone, view, width)
    columns = built.fitted.columns
    table = Table(box=None, pad_edge=False, header_style="bold", padding=(0, _GAP, 0, 0))
    for column in columns:
        # What is too wide for the terminal even so is broken; nothing is cut.
        side: JustifyMethod = "right" if column.is_number else "left"
        table.add_column(Text(column.name), justify=side, overflow="fold")
    best = view.status.best.trial if view.status.best else ""
    for place, trial in enumerate(shown.trials):
        # As they are: what is in brackets would be read as markup.
        cells = [Text(column.cells[place], style=_CELL_STYLES.get(column.name, "")) for column in columns]
        table.add_row(*cells, style="bold" if trial.name == best else "")
    notes = [
        shown.title,
        f"in the names below, … stands for {built.prefix}" if built.prefix else "",
    ]
    last = [
        f"{format_count(shown.more, 'more trial')} running" if shown.more else "",
        built.fitted.note,
    ]
    return [
        *(Text(note, style="dim") for note in notes if note),
        table,
        *(Text(note, style="dim") for note in last if note),
    ]


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


def _render_failures(failed: Sequence[TrialView]) -> Table:
    """Why trials have failed."""
    table = Table(box=None, pad_edge=False, header_style="bold")
    table.add_column("FAILED", no_wrap=True)
    table.add_column("WHY", overflow="fold")
    for trial in failed[-MAX_FAILURES:]:
        table.add_row(Text(trial.name, style=STATE_STYLES["ERROR"]), Text(trial.status.message))
    if len(failed) > MAX_FAILURES:
        table.add_row(f"{len(failed) - MAX_FAILURES} more", Text("`podtune describe` shows all", style="dim"))
    return table
