"""What is on record of one trial, each fact with the moment from which on it was known."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from itertools import pairwise

from podtune.api.names import DecisionKind
from podtune.api.resources.trial import LedgerEntry
from podtune.cli.client.resources import TrialView
from podtune.dashboard.charts.replay.result_times import DatedResult, date_results
from podtune.dashboard.keeping import keep_by_trial
from podtune.dashboard.numbers import format_moment, read_finite
from podtune.dashboard.trial_rows import ShownState, TrialRow, read_moment

LONGEST_UNPAUSED = 3
"""Where decisions are missing, a trial that went without results for so many times the usual wait may have paused."""
_STATES: Mapping[str, ShownState] = {
    DecisionKind.CONTINUE: ShownState.RUNNING,
    DecisionKind.PAUSE: ShownState.PAUSED,
    DecisionKind.RETRY: ShownState.PENDING,
    DecisionKind.START: ShownState.RUNNING,
    DecisionKind.PROMOTE: ShownState.RUNNING,
    DecisionKind.EXPLOIT: ShownState.RUNNING,
    DecisionKind.RESTART: ShownState.RUNNING,
    DecisionKind.RESUME: ShownState.RUNNING,
    DecisionKind.EVALUATE: ShownState.RUNNING,
}
"""What a trial does after a decision; after the others, it does what it did. STOP and FAIL take effect at its end."""


class ProposalOrigin(StrEnum):
    """Where a configuration comes from."""

    SEARCHER = "searcher"
    INITIAL = "initial"
    PERSON = "person"
    UNKNOWN = "unknown"


@dataclass(frozen=True, slots=True)
class StateChange:
    """From a time on, a trial is in a state; None where it ran or was paused, and the record doesn't say which."""

    time: float
    row: TrialRow
    progress: ShownState | None


@dataclass(frozen=True, slots=True)
class NewBest:
    """From a time on, a trial's value is the best that is known."""

    time: float
    row: TrialRow
    value: float


@dataclass(frozen=True, slots=True)
class DatedDecision:
    """A decision on a trial."""

    time: float
    row: TrialRow
    entry: LedgerEntry

    @property
    def clock(self) -> str:
        """When it was taken, as a time of day."""
        return format_moment(self.time)


@dataclass(frozen=True, slots=True)
class Track:
    """What was known of a trial's objective, and when.

    Attributes:
        results: Times, iterations and values; without an iteration, it is the trial's best value.
    """

    row: TrialRow
    results: Sequence[tuple[float, int | None, float]]


@dataclass(frozen=True, slots=True)
class RecordSettings:
    """What an experiment's trials have in common.

    Attributes:
        sign: 1 where high values of the objective are good, otherwise -1.
        has_curves: Whether curves show the objective, and not what is trained for.
        may_jump: Whether trials clone each other.
        may_pause: Whether trials are paused.
    """

    sign: float
    has_curves: bool
    may_jump: bool
    may_pause: bool


@dataclass(frozen=True, slots=True)
class TrialRecord:
    """What is on record of a trial.

    Attributes:
        track: Its values; None where it has none.
        bests: Times at which a value was its best so far, and the values.
        changes: Its states.
    """

    track: Track | None
    bests: Sequence[tuple[float, float]]
    changes: Sequence[StateChange]


@keep_by_trial
def read_decisions(row: TrialRow) -> Sequence[DatedDecision]:
    """The decisions on a trial, oldest first."""
    dated = ((read_moment(entry.time), entry) for entry in row.view.status.ledger)
    return [DatedDecision(time, row, entry) for time, entry in dated if time is not None]


@keep_by_trial
def record_ended(row: TrialRow, settings: RecordSettings) -> TrialRecord | None:
    """What is on record of a trial that has ended, which no later moment changes; None for any other."""
    return record_trial(row, row.ended, settings) if row.ended is not None else None


def record_trial(row: TrialRow, end: float, settings: RecordSettings) -> TrialRecord:
    """What is on record of a trial.

    Args:
        row: The trial.
        end: When all of it was known.
        settings: What it has in common with others.
    """
    dated = date_results(row, end, may_jump=settings.may_jump) if settings.has_curves else []
    results: list[tuple[float, int | None, float]] = [
        (time, step, _limit(value, row.value, settings.sign))
        for time, step, value in dated
        if value == value  # noqa: PLR0124 - NaN
    ]
    if row.value is not None:
        results.append((_date_best(row, dated, end), None, row.value))
    results.sort(key=lambda each: each[0])
    changes = _list_changes(row, [time for time, _, _ in results], end, may_pause=settings.may_pause)
    return TrialRecord(Track(row, results) if results else None, _list_bests(results, settings.sign), changes)


def _list_bests(results: Iterable[tuple[float, int | None, float]], sign: float) -> Sequence[tuple[float, float]]:
    bests: list[tuple[float, float]] = []
    for time, _, value in results:
        if not bests or sign * value > sign * bests[-1][1]:
            bests.append((time, value))
    return bests


def _list_changes(row: TrialRow, results: Sequence[float], end: float, *, may_pause: bool) -> list[StateChange]:
    """The states of a trial: after a retry it runs from the first sign of life on."""
    events: list[tuple[float, ShownState | None]] = []
    created = read_moment(row.view.created)
    if created is not None and created <= (end if row.started is None else row.started):
        events.append((created, ShownState.PENDING))  # one that was imported is younger than its start
    if row.started is not None:
        events.append((row.started, ShownState.RUNNING))
    known = [decision for decision in read_decisions(row) if decision.time <= end]
    for place, decision in enumerate(known):
        before = known[place - 1] if place else None
        if may_pause and decision.entry.number > (before.entry.number if before else 0) + 1:
            events += _list_unclear(before.time if before else row.started, decision.time, results)
        if (progress := _STATES.get(decision.entry.action)) is not None:
            events.append((decision.time, progress))
        if decision.entry.action == DecisionKind.RETRY:
            events += [(time, ShownState.RUNNING) for time in results if decision.time < time < end][:1]
    changes: list[StateChange] = []
    for time, progress in sorted(events, key=lambda event: event[0]):
        if not changes or changes[-1].progress is not progress:
            changes.append(StateChange(time, row, progress))
    if not changes or changes[-1].progress is not row.progress:
        changes.append(StateChange(end, row, row.progress))
    return changes


def _list_unclear(
    since: float | None, until: float, results: Sequence[float]
) -> Iterable[tuple[float, ShownState | None]]:
    """Where a pause may be missing: nothing came for long, though results count from the end of what lies between."""
    if since is None:
        return ()
    between = [since, *(time for time in results if since < time < until), until]
    waits = sorted(after - before for before, after in pairwise(between[1:]))
    usual = waits[len(waits) // 2] if waits else 0.0
    if between[1] - since <= LONGEST_UNPAUSED * usual:
        return ()
    return (since, None), (until, ShownState.RUNNING)


def _limit(value: float, best: float | None, sign: float) -> float:
    """A value of a curve, which has five digits, is not better than the trial's best."""
    return best if best is not None and sign * value > sign * best else value


def _date_best(row: TrialRow, dated: Sequence[DatedResult], end: float) -> float:
    """When a trial's best value was known: by the first result of its curve at that iteration or beyond."""
    step = read_finite(row.view.status.best.get("training_iteration"))
    if step is not None:
        for place in range(len(dated) - 1, -1, -1):
            before = dated[place - 1][1] if place else -1
            if dated[place][1] >= step and (before < step or before > dated[place][1]):
                return dated[place][0]
    return end


def find_source(trial: TrialView) -> ProposalOrigin:
    """Where a proposal comes from."""
    if trial.proposer.startswith("search.initial"):
        return ProposalOrigin.INITIAL
    if trial.proposer.startswith("a person"):
        return ProposalOrigin.PERSON
    return ProposalOrigin.SEARCHER if trial.proposer else ProposalOrigin.UNKNOWN
