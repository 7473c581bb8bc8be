"""Cohorts: trials that go through the rungs of successive halving together.

A cohort's state follows from what is noted of its trials, so it can be made again from that: each note holds how far
the cohort was when the note was made, and where it had drawn its lines. What a note of one trial doesn't say of the
others follows from the notes of these.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, field
from enum import Enum, auto
from fractions import Fraction


@dataclass(frozen=True, slots=True)
class Round:
    """One of a cohort's runs.

    Attributes:
        size: With how many trials it is begun at most.
        milestone: The value of the time attribute that they run to.
    """

    size: int
    milestone: int


@dataclass(frozen=True, slots=True)
class Line:
    """The last trial that went on to the next round.

    Attributes:
        reward: Its reward.
        trial: The trial.
        cohort: How many trials it was compared with, itself included.
    """

    reward: float
    trial: int
    cohort: int

    @property
    def key(self) -> tuple[bool, float, int]:
        """By which it is compared."""
        return _key(self.reward, self.trial)


class Fate(Enum):
    """What becomes of a trial that has come in."""

    WAITS = auto()
    """The others have not."""
    GOES_ON = auto()
    """It is among the best, and all have come in."""
    IS_AHEAD = auto()
    """It is among the best, and beyond the next milestone already: there it waits for the others."""
    LOSES = auto()
    """It is not among the best."""
    FINISHES = auto()
    """That was the last round, and all have come in."""


@dataclass(frozen=True, slots=True)
class Arrival:
    """A trial's coming in, and what came of it.

    Attributes:
        fate: What becomes of the trial.
        round: The round that it came in to, from 0.
        rank: Its place among those that have come in, the best being 1; None while others are waited for.
        cohort: How many have come in.
        awaited: Of how many.
    """

    fate: Fate
    round: int
    rank: int | None
    cohort: int
    awaited: int


@dataclass(slots=True)
class Seat:
    """What a cohort knows of one trial.

    Attributes:
        trial: The trial.
        rewards: Its rewards by the rounds that it has come in to; more is better, NaN is the worst.
        arrived: The time of the last of these results; it may be beyond the milestone.
        time: How far it has come.
        ended: Whether it will never run again.
        round: The cohort's round when the trial was last noted.
        lines: The lines of the rounds before that.
    """

    trial: int
    rewards: dict[int, float] = field(default_factory=dict)
    arrived: float = -math.inf
    time: float = 0.0
    ended: bool = False
    round: int = 0
    lines: tuple[Line, ...] = ()

    @property
    def last(self) -> int:
        """The latest round that it has come in to; 0 before the first."""
        return max(self.rewards, default=0)

    @property
    def reward(self) -> float:
        """What it came in with there."""
        return self.rewards.get(self.last, math.nan)

    @property
    def key(self) -> tuple[bool, float, int]:
        """By which it is compared; of trials with equal rewards the later one is the better."""
        return _key(self.reward, self.trial)


class Cohort:
    """Successive halving of up to a number of trials, as Ray's `_Bracket` does it.

    An event costs a look at the trial alone, but for the one that ends a round, which sorts the cohort.
    """

    def __init__(self, rounds: Sequence[Round], work: int) -> None:
        """Makes an empty cohort.

        Args:
            rounds: Its rounds.
            work: How much time its trials spend together if all goes well.
        """
        self.rounds = tuple(rounds)
        self.round = 0
        self.closed = False
        """Whether no trial will be added any more, for reasons of its owner."""
        self.seats: dict[int, Seat] = {}
        self.lost: dict[int, int] = {}
        """Trials that will not go on but have not been stopped yet, with the round that was their last."""
        self.lines: list[Line] = []
        """By the round that they end."""
        self._work = work
        self._progress = Fraction(0)
        self._live: dict[int, None] = {}
        self.held: set[int] = set()
        """Trials that nobody waits for, since their users have paused them."""
        self.to_run: dict[int, None] = {}
        """Those of the present round that have not come in, the first made first."""

    def __contains__(self, trial: int) -> bool:
        return trial in self.seats

    @property
    def accepts(self) -> bool:
        """Whether there is room for another trial: not after the first round."""
        return not self.closed and self.round == 0 and len(self._live) < self.rounds[0].size

    @property
    def completion(self) -> float:
        """How much of its work is done, from 0 to 1, as Ray reckons it; only of interest while trials are to run."""
        return min(float(self._progress) / self._work, 1.0)

    @property
    def is_done(self) -> bool:
        """Whether all its trials have ended, and there will be no others."""
        return not self._live and not self.lost and not self.accepts

    def is_live(self, trial: int) -> bool:
        """Whether a trial has neither lost nor ended."""
        return trial in self._live

    def may_run(self, trial: int) -> bool:
        """Whether a trial has to run for the present round: it neither has come in yet nor lost nor ended."""
        return trial in self.to_run

    def add(self, trial: int) -> None:
        """Takes in a new trial; there must be room."""
        self.seats[trial] = Seat(trial)
        self._live[trial] = self.to_run[trial] = None

    def advance(self, trial: int, time: float) -> None:
        """Learns how far a trial has come."""
        seat = self.seats[trial]
        self._progress += Fraction(time) - Fraction(seat.time)
        seat.time = time

    def reaches(self, trial: int, time: float) -> bool:
        """Whether a trial that runs comes in at that time."""
        return self.may_run(trial) and time >= self.rounds[self.round].milestone

    def come_in(self, trial: int, time: float, reward: float) -> Arrival:
        """A trial that runs has reached the round's milestone; if it is the last one, the round ends."""
        seat = self.seats[trial]
        seat.rewards[self.round], seat.arrived = reward, time
        del self.to_run[trial]
        arrival = self._end_round(seat) if self._is_over else self._wait()
        seat.ended = arrival.fate in (Fate.LOSES, Fate.FINISHES)
        self.note(trial)
        self.proceed()
        return arrival

    def end(self, trial: int) -> None:
        """A trial will never run again; if it was the last one that the round waited for, the round ends."""
        if not self.seats[trial].ended:
            self.withdraw(trial)
            self.proceed()
            self.note(trial)

    def withdraw(self, trial: int) -> None:
        """A trial will never run again; whether the round ends is looked at later."""
        self.to_run.pop(trial, None)
        self._live.pop(trial, None)
        self.lost.pop(trial, None)
        self.held.discard(trial)
        self.seats[trial].ended = True

    def proceed(self) -> None:
        """Ends rounds that are over: where trials went beyond a milestone, more than one may be."""
        while self._is_over:
            self._end_round()

    def note(self, trial: int) -> bool:
        """Notes with a trial how far the cohort is; whether that is news."""
        seat = self.seats[trial]
        if seat.round == self.round:
            return False
        seat.round, seat.lines = self.round, tuple(self.lines)
        return True

    def rebuild(self) -> None:
        """Makes the cohort anew from what is noted with its trials."""
        seats = [self.seats[trial] for trial in sorted(self.seats)]
        self.seats = {seat.trial: seat for seat in seats}
        self.held &= self.seats.keys()
        latest = max(seats, key=lambda seat: seat.round, default=Seat(0))
        self.round, self.lines = latest.round, list(latest.lines)
        self._progress = sum((Fraction(seat.time) for seat in seats), Fraction(0))
        fates = {seat.trial: self._lost_in(seat) for seat in seats if not seat.ended}
        self._live = {trial: None for trial, lost in fates.items() if lost is None}
        self.lost = {trial: lost for trial, lost in fates.items() if lost is not None}
        self._find_those_to_run()

    def _lost_in(self, seat: Seat) -> int | None:
        """The round after which a trial did not go on, None where it has not lost."""
        for round_ in range(seat.round, self.round):
            if seat.arrived < self.rounds[round_].milestone:
                # Its coming in was not recorded in time: it runs on, if there is something to run for.
                return None if self.round < len(self.rounds) else round_
            if round_ == len(self.rounds) - 1 or seat.key < self.lines[round_].key:
                return round_
        return None

    @property
    def _is_over(self) -> bool:
        """Whether the present round has only to be ended: all have come in but for those that nobody waits for."""
        late = len(self.held & self.to_run.keys())
        return len(self.to_run) == late < len(self._live) and not self.accepts

    def _wait(self) -> Arrival:
        awaited = self.rounds[0].size if self.accepts else len(self._live)
        return Arrival(Fate.WAITS, self.round, None, len(self._live) - len(self.to_run), awaited)

    def _end_round(self, current: Seat | None = None) -> Arrival:
        """Ends a round; `current` is the trial that has just come in and still runs, if it was that that ended it."""
        ended = self.round
        late = list(self.to_run)
        arrived = [trial for trial in self._live if trial not in self.to_run]
        cohort = len(arrived)
        ranking = sorted(arrived, key=lambda trial: self.seats[trial].key, reverse=True)
        self.round += 1
        kept = ranking[: self.rounds[self.round].size] if self.round < len(self.rounds) else []
        if kept:
            last = self.seats[kept[-1]]
            self.lines.append(Line(last.reward, last.trial, cohort))
        self.lost.update(dict.fromkeys(ranking[len(kept) :], ended))
        if self.round == len(self.rounds):
            self.lost.update(dict.fromkeys(late, ended))
            late = []
        self._live = dict.fromkeys(sorted([*kept, *late]))  # who is late goes on from where it is
        self._find_those_to_run()
        if current is None:
            return Arrival(Fate.FINISHES, ended, None, cohort, cohort)
        fate = self._fate(current)
        if fate in (Fate.LOSES, Fate.FINISHES):
            self._live.pop(current.trial, None)
            self.lost.pop(current.trial, None)
        return Arrival(fate, ended, ranking.index(current.trial) + 1, cohort, cohort)

    def _fate(self, current: Seat) -> Fate:
        """What becomes of the trial that has ended a round."""
        last = len(self.rounds) - 1
        if self.round > last:
            return Fate.FINISHES
        if current.trial not in self._live:
            return Fate.LOSES
        if self.may_run(current.trial):
            return Fate.GOES_ON
        return Fate.FINISHES if self.round == last and not self.to_run else Fate.IS_AHEAD

    def _find_those_to_run(self) -> None:
        milestone = self.rounds[self.round].milestone if self._live else 0
        self.to_run = {trial: None for trial in self._live if self.seats[trial].arrived < milestone}


def _key(reward: float, trial: int) -> tuple[bool, float, int]:
    return (False, 0.0, trial) if math.isnan(reward) else (True, reward, trial)
