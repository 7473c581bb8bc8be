"""What was known at one moment: looked up in the record, of which nothing later is read."""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from podtune.cli.views.formats import format_duration
from podtune.dashboard.charts.replay.record import DatedDecision, NewBest, Track
from podtune.dashboard.charts.replay.tape import STATE_CODES, Tape
from podtune.dashboard.numbers import format_count, format_measure, format_moment
from podtune.dashboard.trial_rows import STATE_WORDS, ShownState, TrialRow

NAMED_PROPOSALS = 10
"""So many proposals are named."""
BEFORE = 5
"""So many decisions before the latest are shown, and so many at most that were taken with it."""
MOST_RUNNING = 64
"""So many running trials are drawn and listed."""


@dataclass(frozen=True, slots=True)
class TrialThen:
    """A running trial as it was known.

    Attributes:
        started: When it was made.
        track: What is on record of its objective, also later: only up to `known`.
        known: How many results were known.
    """

    row: TrialRow
    started: float
    track: Track | None
    known: int

    @property
    def step(self) -> int | None:
        """Iteration of its latest result on the curve."""
        results = self.track.results[: self.known] if self.track else ()
        return next((step for _, step, _ in reversed(results) if step is not None), None)

    @property
    def value(self) -> float | None:
        """Its value there."""
        results = self.track.results[: self.known] if self.track else ()
        return next((value for _, step, value in reversed(results) if step is not None), None)


@dataclass(frozen=True, slots=True)
class Moment:
    """What was known.

    Attributes:
        second: The moment, in seconds since the start.
        counts: How many trials were in which state.
        unclear: How many ran or were paused, where the record doesn't say which.
        running: Those that ran, the latest first.
        gains: Trials that were the best, the latest last.
        decisions: The latest ones, the newest first.
        newest: The latest proposals, the newest first.
        made: How many trials there were.
        taken: How many decisions had been taken.
        jumps: Where the moment goes from here, in seconds since the start; None where there is no such moment.
    """

    tape: Tape
    second: int
    counts: Mapping[ShownState, int]
    unclear: int
    running: Sequence[TrialThen]
    gains: Sequence[NewBest]
    decisions: Sequence[DatedDecision]
    newest: Sequence[TrialRow]
    made: int
    taken: int
    jumps: Mapping[str, int | None]

    @property
    def is_end(self) -> bool:
        """Whether nothing is on record that is later."""
        return self.second >= self.tape.length

    @property
    def time(self) -> float:
        """It, in seconds since 1970."""
        return self.tape.begin + self.second

    @property
    def share(self) -> float:
        """How much of the record lies before it, from 0 to 1."""
        return self.second / self.tape.length

    @property
    def gain(self) -> NewBest | None:
        """What was the best."""
        return self.gains[-1] if self.gains else None

    @property
    def clock(self) -> str:
        """It as a time of day."""
        return format_moment(self.time)

    @property
    def decided_now(self) -> Sequence[DatedDecision]:
        """The latest decisions, which were taken at one time."""
        return [each for each in self.decisions if each.time == self.decisions[0].time][: BEFORE + 1]

    @property
    def decided_before(self) -> Sequence[DatedDecision]:
        """Those just before."""
        return [each for each in self.decisions if each.time != self.decisions[0].time][:BEFORE]

    @property
    def words(self) -> str:
        """All of it in a sentence, for those who don't see the charts."""
        best = f"; best {self.tape.experiment.metrics[0]} {format_measure(self.gain.value)}" if self.gain else ""
        states = ", ".join(
            f"{self.counts[state]} {word.lower()}" for state, word in STATE_WORDS.items() if self.counts.get(state)
        )
        states += f"{', ' if states else ''}{self.unclear} running or paused" if self.unclear else ""
        since = f"{format_duration(self.second)} after the start"
        trials, decisions = format_count(self.made, "trial"), format_count(self.taken, "decision")
        return f"{since}: {trials}{', ' if states else ''}{states}{best}; {decisions}"


def find_moment(tape: Tape, second: int) -> Moment:
    """What was known at a moment; beyond the record, what was known at its end."""
    second = min(max(second, 0), tape.length)
    time = tape.begin + second
    made = bisect_right(tape.made, time, key=lambda pair: pair[0])
    taken = bisect_right(tape.decisions, time, key=lambda each: each.time)
    gains = tape.gains[: bisect_right(tape.gains, time, key=lambda gain: gain.time)]
    states = tape.find_states(time)
    running = [_find_trial(tape, *tape.made[place], time) for place in _list_running(states)]
    return Moment(
        tape=tape,
        second=second,
        counts={state: states.count(STATE_CODES.index(state)) for state in STATE_WORDS},
        unclear=states.count(STATE_CODES.index(None)),
        running=running,
        gains=gains,
        decisions=_list_latest(tape.decisions[:taken]),
        newest=[row for _, row in reversed(tape.made[max(made - NAMED_PROPOSALS, 0) : made])],
        made=made,
        taken=taken,
        jumps=_find_jumps(tape, second),
    )


def _list_running(states: bytes) -> list[int]:
    """Places of trials that run, the latest first."""
    found: list[int] = []
    code, place = STATE_CODES.index(ShownState.RUNNING), len(states)
    while len(found) < MOST_RUNNING and (place := states.rfind(code, 0, place)) >= 0:
        found.append(place)
    return found


def _find_trial(tape: Tape, started: float, row: TrialRow, time: float) -> TrialThen:
    track = tape.by_name.get(row.name)
    known = bisect_right(track.results, time, key=lambda each: each[0]) if track is not None else 0
    return TrialThen(row, started, track, known)


def _list_latest(decisions: Sequence[DatedDecision]) -> Sequence[DatedDecision]:
    """The latest moment's decisions, and some before; the newest first."""
    if not decisions:
        return []
    first = bisect_left(decisions, decisions[-1].time, key=lambda each: each.time)
    return [*reversed(decisions[first:]), *reversed(decisions[max(first - BEFORE, 0) : first])]


def _find_jumps(tape: Tape, second: int) -> Mapping[str, int | None]:
    steps = tape.stops["step"]
    earlier = bisect_left(steps, second)
    found: dict[str, int | None] = {"previous": steps[earlier - 1] if earlier else None}
    for kind, moments in tape.stops.items():
        later = bisect_right(moments, second)
        found["next" if kind == "step" else kind] = moments[later] if later < len(moments) else None
    return found
