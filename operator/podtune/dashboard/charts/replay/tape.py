"""An experiment as a record in time: each fact with the moment from which on it was known."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from enum import StrEnum
from functools import cached_property, lru_cache
from itertools import groupby, pairwise
from math import ceil
from operator import itemgetter

from podtune.api.resources.trial import LedgerEntry
from podtune.cli.client.resources import TrialView
from podtune.dashboard.charts.learning.frame import list_metrics
from podtune.dashboard.charts.replay.result_times import JUMPS, DatedResult, date_results
from podtune.dashboard.numbers import read_finite
from podtune.dashboard.trial_rows import STATE_WORDS, ExperimentRows, ShownState, TrialRow, read_moment

STATES: tuple[ShownState | None, ...] = (*STATE_WORDS, None)
UNMADE = 255
LONGEST_SILENCE = 3
"""Where decisions are missing, a trial that went without results for so many times the usual wait may have paused."""
_STRIDE = 512
_KEPT = 3
_STATES = {
    "CONTINUE": ShownState.RUNNING,
    "PAUSE": ShownState.PAUSED,
    "RETRY": ShownState.PENDING,
    "START": ShownState.RUNNING,
    "PROMOTE": ShownState.RUNNING,
    "EXPLOIT": ShownState.RUNNING,
    "RESTART": ShownState.RUNNING,
    "RESUME": ShownState.RUNNING,
    "EVALUATE": ShownState.RUNNING,
}
"""What a trial does after a decision; after the others, it does what it did. STOP and FAIL take effect at its end."""
_PAUSES = frozenset({"PAUSE", "PROMOTE"})
"""In an experiment without any such decision, trials don't pause."""


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
class Gain:
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
        return format_clock(self.time)

    @property
    def is_failure(self) -> bool:
        """Whether something failed; a retry that somebody asked for has no numbers."""
        return self.entry.action == "FAIL" or (self.entry.action == "RETRY" and bool(self.entry.inputs))


@dataclass(frozen=True, slots=True)
class Track:
    """What was known of a trial's objective, and when.

    Attributes:
        results: Times, iterations and values; without an iteration, it is the trial's best value.
    """

    row: TrialRow
    results: Sequence[tuple[float, int | None, float]]


@dataclass(frozen=True, eq=False)
class Tape:
    """The record, each part of it in the order of its times.

    Attributes:
        begin: When the experiment began, in seconds since 1970.
        end: The latest moment on record.
        made: Trials by the time from which on they were there.
        missing: How many decisions are in the bucket alone.
    """

    experiment: ExperimentRows
    begin: float
    end: float
    made: Sequence[tuple[float, TrialRow]]
    changes: Sequence[StateChange]
    gains: Sequence[Gain]
    decisions: Sequence[DatedDecision]
    tracks: Sequence[Track]
    missing: int

    @property
    def length(self) -> int:
        """How long it is, in whole seconds."""
        return max(1, ceil(self.end - self.begin))

    @cached_property
    def by_name(self) -> Mapping[str, Track]:
        """What was known of each trial."""
        return {track.row.name: track for track in self.tracks}

    @cached_property
    def stops(self) -> Mapping[str, Sequence[int]]:
        """Moments to go to, by what happens there, in seconds since the start.

        A step is a decision; in an experiment without any, it is a trial's start or end.
        """
        found = {
            "step": self.decisions or self.changes,
            "stop": [each for each in self.decisions if each.entry.action == "STOP"],
            "exploit": [each for each in self.decisions if each.entry.action == "EXPLOIT"],
            "failure": [each for each in self.decisions if each.is_failure],
            "best": self.gains,
        }
        return {kind: sorted({ceil(each.time - self.begin) for each in facts}) for kind, facts in found.items()}

    @cached_property
    def sources(self) -> frozenset[ProposalOrigin]:
        """Where the trials' configurations come from."""
        return frozenset(find_source(row.view) for _, row in self.made)

    def find_states(self, time: float) -> bytes:
        """States of the trials in the order in which they were made: places in `STATES`, or `UNMADE`."""
        count = bisect_right(self.changes, time, key=lambda change: change.time)
        states = bytearray(self._marks[count // _STRIDE])
        self._apply(states, self.changes[count - count % _STRIDE : count])
        return bytes(states)

    @cached_property
    def _places(self) -> Mapping[str, int]:
        return {row.name: place for place, (_, row) in enumerate(self.made)}

    @cached_property
    def _marks(self) -> Sequence[bytes]:
        """States after each so many changes, from where others are found in a few steps."""
        states = bytearray([UNMADE]) * len(self.made)
        marks = [bytes(states)]
        for first in range(0, len(self.changes), _STRIDE):
            self._apply(states, self.changes[first : first + _STRIDE])
            marks.append(bytes(states))
        return marks

    def _apply(self, states: bytearray, changes: Iterable[StateChange]) -> None:
        for change in changes:
            states[self._places[change.row.name]] = STATES.index(change.progress)


def find_source(trial: TrialView) -> ProposalOrigin:
    """Where a proposal comes from."""
    if trial.proposer.startswith("search.initial"):
        return ProposalOrigin.INITIAL
    if trial.proposer.startswith("a person"):
        return ProposalOrigin.PERSON
    return ProposalOrigin.SEARCHER if trial.proposer else ProposalOrigin.UNKNOWN


def format_clock(time: float) -> str:
    """A time to the second, without its year: 21 Nov 05:09:12."""
    return f"{datetime.fromtimestamp(time, UTC):%-d %b %H:%M:%S}"


@lru_cache(maxsize=_KEPT)
def record_tape(experiment: ExperimentRows) -> Tape | None:
    """The record of an experiment; None before its first trial has started."""
    starts = [row.started for row in experiment.rows if row.started is not None]
    if not starts:
        return None
    given = read_moment(experiment.view.status.start_time)
    begin = min(starts) if given is None else min(given, *starts)
    decisions = _list_decisions(experiment.rows)
    may_jump = any(decision.entry.action in JUMPS for decision in decisions)
    may_pause = any(decision.entry.action in _PAUSES for decision in decisions)
    end = _find_end(experiment, decisions, may_jump=may_jump)
    by_trial = {name: list(own) for name, own in groupby(decisions, key=lambda each: each.row.name)}
    tracks = _record_tracks(experiment, end, may_jump=may_jump)
    results = {track.row.name: [time for time, _, _ in track.results] for track in tracks}
    changes = [
        change
        for row in experiment.rows
        for change in _list_changes(
            row, by_trial.get(row.name, ()), results.get(row.name, ()), end, may_pause=may_pause
        )
    ]
    changes.sort(key=lambda change: change.time)
    made = {change.row.name: (change.time, change.row) for change in reversed(changes)}
    return Tape(
        experiment=experiment,
        begin=begin,
        end=end,
        made=sorted(made.values(), key=lambda pair: (pair[0], pair[1].view.index)),
        changes=changes,
        gains=_find_gains(tracks, experiment.signs[0]),
        decisions=sorted(decisions, key=lambda each: (each.time, each.row.view.index, each.entry.number)),
        tracks=tracks,
        missing=sum(own[-1].entry.number - len(own) for own in by_trial.values()),
    )


def _list_decisions(rows: Iterable[TrialRow]) -> list[DatedDecision]:
    return [
        DatedDecision(time, row, entry)
        for row in rows
        for entry in row.view.status.ledger
        if (time := read_moment(entry.time)) is not None
    ]


def _find_end(experiment: ExperimentRows, decisions: Iterable[DatedDecision], *, may_jump: bool) -> float:
    """The latest moment on record; a trial that goes on has trained at least as long as its results say."""
    times = [experiment.last_moment or 0.0, *(decision.time for decision in decisions)]
    times.append(read_moment(experiment.view.status.completion_time) or 0.0)
    for row in experiment.rows:
        curve = row.view.status.curve
        if row.ended is None and row.started is not None and curve is not None and not may_jump:
            trained = max((seconds for _, seconds, *_ in curve.list_points() if seconds == seconds), default=0.0)  # noqa: PLR0124 - NaN
            times.append(row.started + trained)
    return max(times)


def _list_changes(
    row: TrialRow, decisions: Sequence[DatedDecision], results: Sequence[float], end: float, *, may_pause: bool
) -> list[StateChange]:
    """The states of a trial: after a retry it runs from the first sign of life on."""
    last = row.ended if row.ended is not None else end
    events: list[tuple[float, ShownState | None]] = []
    if row.started is not None:
        events.append((row.started, ShownState.RUNNING))
    known = [decision for decision in decisions if decision.time <= last]
    for place, decision in enumerate(known):
        before = known[place - 1] if place else None
        if may_pause and decision.entry.number > (before.entry.number if before else 0) + 1:
            events += _list_unclear(before.time if before else row.started, decision.time, results)
        if (progress := _STATES.get(decision.entry.action)) is not None:
            events.append((decision.time, progress))
        if decision.entry.action == "RETRY":
            events += [(time, ShownState.RUNNING) for time in results if decision.time < time < last][:1]
    changes: list[StateChange] = []
    for time, progress in sorted(events, key=lambda event: event[0]):
        if not changes or changes[-1].progress is not progress:
            changes.append(StateChange(time, row, progress))
    if not changes or changes[-1].progress is not row.progress:
        changes.append(StateChange(last, row, row.progress))
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
    if between[1] - since <= LONGEST_SILENCE * usual:
        return ()
    return (since, None), (until, ShownState.RUNNING)


def _record_tracks(experiment: ExperimentRows, end: float, *, may_jump: bool) -> list[Track]:
    """What was known of each trial: its curve, and its best value, which curves leave out or round."""
    is_shown = [name for name, _ in list_metrics(experiment)] == list(experiment.metrics)
    tracks = []
    for row in experiment.rows:
        dated = date_results(row, end, may_jump=may_jump) if is_shown else []
        results: list[tuple[float, int | None, float]] = [
            (time, step, _limit(value, row.value, experiment.signs[0]))
            for time, step, value in dated
            if value == value  # noqa: PLR0124 - NaN
        ]
        if row.value is not None:
            results.append((_date_best(row, dated, end), None, row.value))
        if results:
            tracks.append(Track(row, sorted(results, key=lambda each: each[0])))
    return tracks


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
    return row.ended if row.ended is not None else end


def _find_gains(tracks: Iterable[Track], sign: float) -> list[Gain]:
    values = [(time, track.row.view.index, value, track.row) for track in tracks for time, _, value in track.results]
    values.sort(key=itemgetter(0, 1))
    gains: list[Gain] = []
    for time, _, value, row in values:
        if not gains or sign * value > sign * gains[-1].value:
            gains.append(Gain(time, row, value))
    return gains
