"""What an experiment may use, how much of it is used, and how long that will last at the pace so far."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from podtune.api.base import parse_duration
from podtune.api.names import ExperimentState
from podtune.cli.client.resources import ExperimentView
from podtune.cli.views.formats import format_duration, read_moment
from podtune.cli.views.numbers import format_hours, format_measure

LEAST_FINISHED = 3
"""From fewer trials, their pace can't be told."""
LEAST_USED = 0.02
"""Nor can that of another budget from a smaller part of it."""
_HOUR = 3600.0


@dataclass(frozen=True, slots=True)
class BudgetUse:
    """One limit.

    Attributes:
        name: What is limited.
        used: How much of it is used.
        limit: How much may be used.
        used_text: The same for people.
        seconds_left: How long it will last at the pace so far; None where that can't be told, or it ends nothing.
        is_exact: Whether nothing but the passing of time uses it.
    """

    name: str
    used: float
    limit: float
    used_text: str
    limit_text: str
    seconds_left: float | None = None
    is_exact: bool = False

    @property
    def share(self) -> float:
        """What part of it is used, from 0 to 1."""
        return min(self.used / self.limit, 1.0)


@dataclass(frozen=True, slots=True)
class TimeLeft:
    """When an experiment will end, as far as can be told.

    Attributes:
        seconds: From now on.
        budget: What will be used up then.
    """

    seconds: float
    budget: BudgetUse

    @property
    def text(self) -> str:
        """In a few words: about 2h10m left."""
        if self.seconds < 1:
            return "about to end"
        return f"{'' if self.budget.is_exact else 'about '}{_round_duration(self.seconds)} left"


def list_budgets(view: ExperimentView, now: float | None) -> Sequence[BudgetUse]:
    """The limits that the manifest sets on the whole experiment.

    Limits that end it only together with others are not among them, nor is a target: nobody knows the way to it.

    Args:
        view: Whose limits.
        now: The present time in seconds since 1970; None where it is not known.
    """
    elapsed = measure_active_time(view, now)
    usage, stop = view.status.usage, view.spec.get("stop") or {}
    budgets: list[BudgetUse] = []
    if isinstance(view.expected_trials, int) and view.expected_trials:
        budgets.append(_make_trial_budget(view, view.expected_trials, elapsed))
    rules = list(_list_rules(stop.get("experiment") or ()))
    written = [stop.get("totalTime"), *(rule.get("time") for rule in rules)]
    times = [seconds for text in written if (seconds := _read_duration(text))]
    if times and elapsed is not None:
        limit = min(times)
        left = max(0.0, limit - elapsed)
        budgets.append(
            BudgetUse("Time", elapsed, limit, format_duration(elapsed), format_duration(limit), left, is_exact=True)
        )
    gpu_hours, pod_hours = (usage.gpu_hours, usage.pod_hours) if usage is not None else (0.0, 0.0)
    if hours := [limit for rule in rules if (limit := _read_number(rule.get("gpuHours")))]:
        budgets.append(_make_budget("GPU-hours", gpu_hours, min(hours), format_hours, elapsed))
    for cost in (rule["cost"] for rule in rules if isinstance(rule.get("cost"), Mapping)):
        if limit := _read_number(cost.get("budget")):
            spent = gpu_hours * _read_number(cost.get("perGpuHour")) + pod_hours * _read_number(cost.get("perPodHour"))
            budgets.append(_make_budget("Money", spent, limit, format_measure, elapsed))
    for failures in (rule["failures"] for rule in rules if isinstance(rule.get("failures"), Mapping)):
        if limit := _read_number(failures.get("count")):
            failed = view.status.trials.error
            budgets.append(BudgetUse("Failed trials", failed, limit, f"{failed:,}", f"{limit:,.0f}"))
    return budgets


def estimate_time_left(view: ExperimentView, now: float | None) -> TimeLeft | None:
    """When the first of its limits will be reached; None where it doesn't run, or that can't be told."""
    if view.state != ExperimentState.RUNNING or view.status.suspended_since:
        return None
    known = [TimeLeft(left, each) for each in list_budgets(view, now) if (left := each.seconds_left) is not None]
    return min(known, key=lambda each: each.seconds, default=None)


def measure_active_time(view: ExperimentView, now: float | None) -> float | None:
    """For how long an experiment has run, as its budgets count it: suspensions don't count. None before its start."""
    status = view.status
    start, end = read_moment(status.start_time), read_moment(status.completion_time) or now
    if start is None or end is None:
        return None
    suspended = read_moment(status.suspended_since)
    return max(0.0, (end if suspended is None else min(end, suspended)) - start - status.suspended_seconds)


def _make_trial_budget(view: ExperimentView, expected: int, elapsed: float | None) -> BudgetUse:
    """Trials that run count as half done: some have just begun, and some are about to end."""
    counts, finished = view.status.trials, view.finished_trials
    done = finished + counts.running / 2
    left = elapsed * max(0.0, expected - done) / done if elapsed and finished >= LEAST_FINISHED else None
    return BudgetUse("Trials", finished, expected, f"{finished:,}", f"{expected:,}", left)


def _make_budget(
    name: str, used: float, limit: float, write: Callable[[float], str], elapsed: float | None
) -> BudgetUse:
    is_known = elapsed is not None and used >= LEAST_USED * limit
    left = (elapsed or 0.0) * max(0.0, limit - used) / used if is_known else None
    return BudgetUse(name, used, limit, write(used), write(limit), left)


def _list_rules(rules: Sequence[Mapping[str, Any]]) -> Iterator[Mapping[str, Any]]:
    """The rules that end the experiment by themselves; those of a newer operator may be of any form."""
    for rule in rules:
        if isinstance(rule, Mapping):
            yield rule
            yield from _list_rules(rule.get("any") or ())


def _read_duration(written: object) -> float:
    try:
        return parse_duration(written) if isinstance(written, str) else 0.0
    except ValueError:
        return 0.0


def _read_number(written: object) -> float:
    return float(written) if isinstance(written, int | float) and written > 0 else 0.0


def _round_duration(seconds: float) -> str:
    """One unit where two would pretend to more than is known: 3m, 2h10m."""
    if seconds < 60:
        return format_duration(seconds)
    step = 60 if seconds < 1200 else 300 if seconds < 4 * _HOUR else 1800
    return format_duration(max(step, round(seconds / step) * step))
