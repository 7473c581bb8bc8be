"""The columns of the live table: those that tell something, and as many of them as a terminal has room for."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from itertools import count

from podtune.api.names import TrialReason
from podtune.cli.client.resources import ExperimentView, TrialView
from podtune.cli.views.columns import FittedColumns, RankedColumn, fit_columns
from podtune.cli.views.formats import format_curve
from podtune.cli.views.numbers import choose_decimals, format_number, read_finite
from podtune.trial.layout import FILLED_IN, ITERATION

GAP = 2
"""Characters between two columns."""
_MAX_METRICS = 3
"""Results besides the objective that a row shows."""
_LARGE_SHARE = 4
"""Where names take more than one character in so many, what they have in common is left out."""
_LEFT_OUT = "…"
_LAST_RANK = 2
"""Columns up to this rank, which tell where trials run, have room after all others."""

_EXPECTED = (TrialReason.TRAINING, TrialReason.COMPLETED)
"""What trials do, and why they have ended, where nothing is special about them."""


@dataclass(frozen=True, slots=True)
class LiveTable:
    """What fits.

    Attributes:
        fitted: The columns.
        prefix: What all names of trials begin with, where that is left out.
    """

    fitted: FittedColumns
    prefix: str = ""


def build_table(
    shown: Sequence[TrialView], everyone: Iterable[TrialView], experiment: ExperimentView, width: int
) -> LiveTable:
    """Chooses the columns of a table of trials.

    A column is there if it tells trials from each other, and it is there as a whole or not at all.

    Args:
        shown: The trials of the table.
        everyone: All trials of the experiment: what they have in common is no column.
        experiment: The experiment.
        width: Of the terminal.
    """
    columns = [column for column in list_live_columns(shown, list(everyone), experiment) if not column.is_empty]
    names, prefix = columns[0], ""
    if len(names.name) < names.width > width // _LARGE_SHARE and _has_common_prefix(shown, experiment):
        prefix = experiment.name
        columns[0] = RankedColumn(names.name, [f"{_LEFT_OUT}{name.removeprefix(prefix)}" for name in names.cells])
    return LiveTable(fit_columns(columns, width, GAP, _LAST_RANK), prefix)


def _has_common_prefix(trials: Sequence[TrialView], experiment: ExperimentView) -> bool:
    return len(experiment.name) > len(_LEFT_OUT) and all(t.name.startswith(f"{experiment.name}-") for t in trials)


def list_live_columns(
    trials: Sequence[TrialView], everyone: Sequence[TrialView], experiment: ExperimentView
) -> list[RankedColumn]:
    """All columns from left to right; of those that may go, the node goes first, and the curve last."""
    tried = [name for name in experiment.parameters if _differs(trial.parameters.get(name) for trial in everyone)]
    time = find_time_metric(trials, experiment)
    others = _list_other_metrics(trials, everyone, experiment, time)
    ranks = count(len(tried) + len(others) + 4 + 1 + _LAST_RANK, -1)
    curve, progress, doing, best = (next(ranks) for _ in range(4))
    titles = {name: f"{name} (result)" if name in experiment.parameters else name for name in others}
    metric = experiment.metric
    own = f"{metric} (result)" if metric in experiment.parameters else metric
    over_time = [
        RankedColumn("CURVE", [format_curve(trial.status.curve) for trial in trials], curve),
        RankedColumn(time, _format_progress(trials, time, experiment), progress, is_number=True),
    ]
    bests = [RankedColumn("BEST", _align([trial.status.best_value for trial in trials]), best, is_number=True)]
    go_on = any(_has_reported_twice(trial, metric) for trial in everyone)
    return [
        RankedColumn("TRIAL", [trial.name for trial in trials]),
        RankedColumn("DOING", _list_doings(trials), doing),
        *(over_time if go_on or time != ITERATION else []),
        RankedColumn(own, _align(_list_results(trials, metric)), is_number=True),
        *(bests if go_on else []),
        *(_make_parameter(name, trials, next(ranks)) for name in tried),
        *(
            RankedColumn(
                titles[n], _align([t.status.last_result.get(n, "") for t in trials]), next(ranks), is_number=True
            )
            for n in others
        ),
        RankedColumn("ATTEMPT", _list_attempts(trials), next(ranks), is_number=True),
        RankedColumn("NAME", [trial.display_name for trial in trials], next(ranks)),
        RankedColumn("NODE", _list_nodes(trials, everyone), next(ranks)),
    ]


def _has_reported_twice(trial: TrialView, metric: str) -> bool:
    """Whether a trial has more than one result; of a single one there is no curve, and it is the best."""
    status = trial.status
    steps = read_finite(status.last_result.get(ITERATION))
    return (
        (steps is not None and steps > 1)
        or (status.curve is not None and status.curve.count > 1)
        or (status.best_value or None) != status.last_result.get(metric)
    )


def find_time_metric(trials: Sequence[TrialView], experiment: ExperimentView) -> str:
    """What counts how far trials are: what the scheduler goes by, or a metric that is the iteration, or that itself."""
    if experiment.time_attribute:
        return experiment.time_attribute
    results = [trial.status.last_result for trial in trials if trial.status.last_result]
    named = (name for name in (results[0] if results else {}) if name not in (ITERATION, *experiment.objectives))
    return next((name for name in named if _is_iteration(name, trials)), ITERATION)


def _is_iteration(name: str, trials: Iterable[TrialView]) -> bool:
    """Whether a metric says the same as the iteration, wherever it is reported."""
    pairs = [
        (read_finite(found[name]), read_finite(found.get(ITERATION)))
        for trial in trials
        if name in (found := trial.status.last_result)
    ]
    return bool(pairs) and all(value is not None and value == step for value, step in pairs)


def _list_other_metrics(
    trials: Sequence[TrialView], everyone: Sequence[TrialView], experiment: ExperimentView, time: str
) -> list[str]:
    """A few metrics beside the objective's that tell trials from each other.

    What the agent fills in is none of them, but for objectives; nor is what only counts iterations.
    """
    reported = dict.fromkeys(name for trial in trials for name in trial.status.last_result)
    passed_over = {experiment.metric, time, *(FILLED_IN - experiment.objectives.keys())}
    found = (name for name in reported if name not in passed_over and not _is_iteration(name, trials))
    telling = [name for name in found if _differs(trial.status.last_result.get(name) for trial in everyone)]
    return telling[:_MAX_METRICS]


def _differs(values: Iterable[str | None]) -> bool:
    """Whether there are two values that are not the same; of one alone, nobody knows."""
    known = [value for value in values if value is not None]
    return len(known) == 1 or any(value != known[0] for value in known)


def _list_results(trials: Sequence[TrialView], metric: str) -> list[str]:
    return [trial.status.last_result.get(metric, "") for trial in trials]


def _list_doings(trials: Sequence[TrialView]) -> list[str]:
    """What trials do, where that is not what one expects of all."""
    doings = [trial.status.reason for trial in trials]
    return [""] * len(doings) if any({*doings} == {expected} for expected in _EXPECTED) else doings


def _list_attempts(trials: Sequence[TrialView]) -> list[str]:
    """The numbers of attempts, where one is not the first."""
    attempts = [trial.status.attempt for trial in trials]
    return [str(attempt) if attempt > 1 else "" for attempt in attempts]


def _list_nodes(trials: Sequence[TrialView], everyone: Iterable[TrialView]) -> list[str]:
    nodes = {trial.node for trial in everyone if trial.node}
    return [trial.node if len(nodes) > 1 else "" for trial in trials]


def _format_progress(trials: Sequence[TrialView], time: str, experiment: ExperimentView) -> list[str]:
    """How far trials are, of what is the most for them where the manifest says that."""
    limit = find_time_limit(experiment, time)
    end = f"/{format_number(str(limit))}" if limit is not None else ""
    written = (trial.status.last_result.get(time, "") for trial in trials)
    return [f"{format_number(text)}{end}" if text else "" for text in written]


def find_time_limit(experiment: ExperimentView, time: str) -> float | None:
    """What a trial's time is at its end, as the scheduler or the stopping rules have it."""
    settings = [given for given in (experiment.spec.get("scheduler") or {}).values() if isinstance(given, dict)]
    named = [given.get("maxTime") for given in settings if given.get("timeAttribute", ITERATION) == time]
    metrics = (experiment.spec.get("stop") or {}).get("metrics") or {}
    known = [value for value in (*named, metrics.get(time)) if isinstance(value, int | float)]
    return min(known, default=None)


def _make_parameter(name: str, trials: Sequence[TrialView], rank: int) -> RankedColumn:
    texts = [trial.parameters.get(name, "") for trial in trials]
    is_number = all(read_finite(text) is not None for text in texts if text)
    return RankedColumn(name, [format_number(text) for text in texts], rank, is_number)


def _align(texts: Sequence[str]) -> list[str]:
    """Numbers of one column with as many decimals each."""
    values = [read_finite(text) for text in texts]
    decimals = choose_decimals(value for value in values if value is not None)
    return [
        format_number(text) if value is None or decimals is None else f"{value:.{decimals}f}"
        for text, value in zip(texts, values, strict=True)
    ]
