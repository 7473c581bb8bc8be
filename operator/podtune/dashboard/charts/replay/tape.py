"""An experiment as a record in time: each fact with the moment from which on it was known."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from math import ceil
from operator import itemgetter

from podtune.api.names import DecisionKind
from podtune.dashboard.charts.learning.frame import list_metrics
from podtune.dashboard.charts.replay.record import (
    DatedDecision,
    NewBest,
    ProposalOrigin,
    RecordSettings,
    StateChange,
    Track,
    TrialRecord,
    find_source,
    read_decisions,
    record_ended,
    record_trial,
)
from podtune.dashboard.decisions import JUMPS, is_failure
from podtune.dashboard.keeping import keep_by_trial, keep_chart
from podtune.dashboard.trial_rows import STATE_WORDS, ExperimentRows, ShownState, TrialRow, read_moment

STATE_CODES: tuple[ShownState | None, ...] = (*STATE_WORDS, None)
UNMADE = 255
_STRIDE = 512
_PAUSES = frozenset({DecisionKind.PAUSE, DecisionKind.PROMOTE})
"""In an experiment without any such decision, trials don't pause."""


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
    gains: Sequence[NewBest]
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
            "stop": [each for each in self.decisions if each.entry.action == DecisionKind.STOP],
            "exploit": [each for each in self.decisions if each.entry.action == DecisionKind.EXPLOIT],
            "failure": [each for each in self.decisions if is_failure(each.entry)],
            "best": self.gains,
        }
        return {kind: sorted({ceil(each.time - self.begin) for each in facts}) for kind, facts in found.items()}

    @cached_property
    def sources(self) -> frozenset[ProposalOrigin]:
        """Where the trials' configurations come from."""
        return frozenset(find_source(row.view) for _, row in self.made)

    def find_states(self, time: float) -> bytes:
        """States of the trials in the order in which they were made: places in `STATE_CODES`, or `UNMADE`."""
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
            states[self._places[change.row.name]] = STATE_CODES.index(change.progress)


@keep_chart
def record_tape(experiment: ExperimentRows) -> Tape | None:
    """The record of an experiment; None before its first trial has started."""
    starts = [row.started for row in experiment.rows if row.started is not None]
    if not starts:
        return None
    given = read_moment(experiment.view.status.start_time)
    decisions = [decision for own in read_decisions.read_all(experiment) for decision in own]
    actions = frozenset().union(*_read_actions.read_all(experiment))
    settings = RecordSettings(
        sign=experiment.signs[0],
        has_curves=[name for name, _ in list_metrics(experiment)] == list(experiment.metrics),
        may_jump=not actions.isdisjoint(JUMPS),
        may_pause=not actions.isdisjoint(_PAUSES),
    )
    end = _find_end(experiment, decisions, may_jump=settings.may_jump)
    records = [
        record if record is not None else record_trial(row, end, settings)
        for row, record in zip(experiment.rows, record_ended.read_all(experiment, settings), strict=True)
    ]
    changes = sorted((change for record in records for change in record.changes), key=lambda change: change.time)
    made = {change.row.name: (change.time, change.row) for change in reversed(changes)}
    return Tape(
        experiment=experiment,
        begin=min(starts) if given is None else min(given, *starts),
        end=end,
        made=sorted(made.values(), key=lambda pair: (pair[0], pair[1].view.index)),
        changes=changes,
        gains=_find_gains(experiment.rows, records, settings.sign),
        decisions=sorted(decisions, key=lambda each: (each.time, each.row.view.index, each.entry.number)),
        tracks=[record.track for record in records if record.track is not None],
        missing=sum(own[-1].entry.number - len(own) for own in read_decisions.read_all(experiment) if own),
    )


@keep_by_trial
def _read_actions(row: TrialRow) -> frozenset[str]:
    return frozenset(entry.action for entry in row.view.status.ledger)


@keep_by_trial
def _find_trained(row: TrialRow) -> float:
    """Until when a trial that goes on has trained at least; 0 for any other."""
    curve = row.view.status.curve
    if row.ended is not None or row.started is None or curve is None:
        return 0.0
    return row.started + max((point[1] for point in curve.list_points() if point[1] > 0), default=0.0)


def _find_end(experiment: ExperimentRows, decisions: Iterable[DatedDecision], *, may_jump: bool) -> float:
    """The latest moment on record; a trial that goes on has trained at least as long as its results say."""
    times = [experiment.last_moment or 0.0, *(decision.time for decision in decisions)]
    times.append(read_moment(experiment.view.status.completion_time) or 0.0)
    times += [read_moment(row.view.created) or 0.0 for row in experiment.rows if row.started is None]
    return max([*times, *(() if may_jump else _find_trained.read_all(experiment))])


def _find_gains(rows: Sequence[TrialRow], records: Sequence[TrialRecord], sign: float) -> list[NewBest]:
    values = [
        (time, row.view.index, value, row)
        for row, record in zip(rows, records, strict=True)
        for time, value in record.bests
    ]
    values.sort(key=itemgetter(0, 1))
    gains: list[NewBest] = []
    for time, _, value, row in values:
        if not gains or sign * value > sign * gains[-1].value:
            gains.append(NewBest(time, row, value))
    return gains
