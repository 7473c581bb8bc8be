"""A bracket of HyperBand: trials that go through the rungs of successive halving together.

A bracket's state follows from the entries of its trials, so it can be made again from them: each entry holds which
round the bracket was in when the entry was written, and the cutoffs until then. What the entry of one trial doesn't
say of the others follows from theirs.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, field
from enum import Enum, auto
from fractions import Fraction


@dataclass(frozen=True, slots=True)
class Round:
    """One round of a bracket.

    Attributes:
        size: With how many trials it is begun at most.
        milestone: The value of the time attribute that they run to.
    """

    size: int
    milestone: int


@dataclass(frozen=True, slots=True)
class Cutoff:
    """The last trial that was promoted to the next round.

    Attributes:
        ranked: How many trials it was compared with, itself included.
    """

    reward: float
    trial: int
    ranked: int

    @property
    def key(self) -> tuple[bool, float, int]:
        """By which it is compared."""
        return _build_key(self.reward, self.trial)


class RungOutcome(Enum):
    """What becomes of a trial that has reached the milestone of its round."""

    WAITING = auto()
    """The others have not reached it."""
    PROMOTED = auto()
    """It is among the best, and all have reached it."""
    AHEAD = auto()
    """It is among the best, and beyond the next milestone already: there it waits for the others."""
    ELIMINATED = auto()
    """It is not among the best."""
    FINISHED = auto()
    """That was the last round, and all have reached it."""


@dataclass(frozen=True, slots=True)
class RungResult:
    """What came of it that a trial reached the milestone of its round.

    Attributes:
        outcome: What becomes of the trial.
        round: The round, from 0.
        rank: Its rank among those that have reached the milestone, the best being 1; None while others are awaited.
        arrived: How many have reached it.
        awaited: Of how many.
    """

    outcome: RungOutcome
    round: int
    rank: int | None
    arrived: int
    awaited: int


@dataclass(slots=True)
class BracketEntry:
    """What a bracket knows of one trial.

    Attributes:
        trial: The trial.
        rewards: Its rewards by the rounds whose milestone it has reached; more is better, NaN is the worst.
        arrived: The time of the last of these results; it may be beyond the milestone.
        time: How far it has come.
        ended: Whether it will never run again.
        round: The bracket's round when the entry was last written.
        cutoffs: The cutoffs of the rounds before that.
    """

    trial: int
    rewards: dict[int, float] = field(default_factory=dict)
    arrived: float = -math.inf
    time: float = 0.0
    ended: bool = False
    round: int = 0
    cutoffs: tuple[Cutoff, ...] = ()

    @property
    def last(self) -> int:
        """The latest round whose milestone it has reached; 0 before the first."""
        return max(self.rewards, default=0)

    @property
    def reward(self) -> float:
        """Its reward there."""
        return self.rewards.get(self.last, math.nan)

    @property
    def key(self) -> tuple[bool, float, int]:
        """By which it is compared; of trials with equal rewards the later one is the better."""
        return _build_key(self.reward, self.trial)


class HalvingBracket:
    """Successive halving of up to a number of trials, as Ray's `_Bracket` does it.

    An event costs a look at the trial alone, but for the one that ends a round, which sorts the trials.
    """

    def __init__(self, rounds: Sequence[Round], work: int) -> None:
        """Makes an empty bracket; `work` is the time that its trials spend together if all goes well."""
        self.rounds = tuple(rounds)
        self.round = 0
        self.closed = False
        """Whether no trial will be added any more, for reasons of its owner."""
        self.entries: dict[int, BracketEntry] = {}
        self.eliminated: dict[int, int] = {}
        """Trials that were not promoted but have not been stopped yet, with the round that was their last."""
        self.cutoffs: list[Cutoff] = []
        """By the round that they end."""
        self._work = work
        self._progress = Fraction(0)
        self._live: dict[int, None] = {}
        self.held: set[int] = set()
        """Trials that nobody waits for, since their users have paused them."""
        self.to_run: dict[int, None] = {}
        """Those of the present round that have not reached its milestone, the first made first."""

    def __contains__(self, trial: int) -> bool:
        return trial in self.entries

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
        return not self._live and not self.eliminated and not self.accepts

    def is_live(self, trial: int) -> bool:
        """Whether a trial has been neither eliminated nor ended."""
        return trial in self._live

    def may_run(self, trial: int) -> bool:
        """Whether a trial has to run for the present round: it is live and has not reached the milestone."""
        return trial in self.to_run

    def add(self, trial: int) -> None:
        """Takes in a new trial; there must be room."""
        is_late = next(reversed(self.to_run), trial) > trial
        self.entries[trial] = BracketEntry(trial)
        self._live[trial] = self.to_run[trial] = None
        if is_late:  # a person's trial, with its high number, has come before: a rebuilt bracket goes by the numbers
            self._live, self.to_run = dict(sorted(self._live.items())), dict(sorted(self.to_run.items()))

    def advance(self, trial: int, time: float) -> None:
        """Learns how far a trial has come."""
        entry = self.entries[trial]
        self._progress += Fraction(time) - Fraction(entry.time)
        entry.time = time

    def reaches(self, trial: int, time: float) -> bool:
        """Whether a trial that runs reaches the milestone of its round at that time."""
        return self.may_run(trial) and time >= self.rounds[self.round].milestone

    def record_result(self, trial: int, time: float, reward: float) -> RungResult:
        """A trial that runs has reached the round's milestone; if it is the last one, the round ends."""
        entry = self.entries[trial]
        entry.rewards[self.round], entry.arrived = reward, time
        del self.to_run[trial]
        result = self._end_round(entry) if self._is_over else self._wait()
        entry.ended = result.outcome in (RungOutcome.ELIMINATED, RungOutcome.FINISHED)
        self.snapshot_round(trial)
        self.end_finished_rounds()
        return result

    def end(self, trial: int) -> None:
        """A trial will never run again; if it was the last one that the round waited for, the round ends."""
        if not self.entries[trial].ended:
            self.withdraw(trial)
            self.end_finished_rounds()
            self.snapshot_round(trial)

    def withdraw(self, trial: int) -> None:
        """A trial will never run again; whether the round ends is looked at later."""
        self.to_run.pop(trial, None)
        self._live.pop(trial, None)
        self.eliminated.pop(trial, None)
        self.held.discard(trial)
        self.entries[trial].ended = True

    def end_finished_rounds(self) -> None:
        """Ends rounds that are over: where trials went beyond a milestone, more than one may be."""
        while self._is_over:
            self._end_round()

    def snapshot_round(self, trial: int) -> bool:
        """Writes the bracket's round and cutoffs into a trial's entry; whether that is news."""
        entry = self.entries[trial]
        if entry.round == self.round:
            return False
        entry.round, entry.cutoffs = self.round, tuple(self.cutoffs)
        return True

    def rebuild(self) -> None:
        """Makes the bracket anew from the entries of its trials."""
        entries = [self.entries[trial] for trial in sorted(self.entries)]
        self.entries = {entry.trial: entry for entry in entries}
        self.held &= self.entries.keys()
        latest = max(entries, key=lambda entry: entry.round, default=BracketEntry(0))
        self.round, self.cutoffs = latest.round, list(latest.cutoffs)
        self._progress = sum((Fraction(entry.time) for entry in entries), Fraction(0))
        eliminated_in = {entry.trial: self._find_elimination(entry) for entry in entries if not entry.ended}
        self._live = {trial: None for trial, eliminated in eliminated_in.items() if eliminated is None}
        self.eliminated = {trial: eliminated for trial, eliminated in eliminated_in.items() if eliminated is not None}
        self._find_trials_to_run()

    def _find_elimination(self, entry: BracketEntry) -> int | None:
        """The round after which a trial was not promoted, None where it was not eliminated."""
        for round_ in range(entry.round, self.round):
            if entry.arrived < self.rounds[round_].milestone:
                # Its reaching the milestone was not recorded in time: it runs on, if there is something to run for.
                return None if self.round < len(self.rounds) else round_
            if round_ == len(self.rounds) - 1 or entry.key < self.cutoffs[round_].key:
                return round_
        return None

    @property
    def _is_over(self) -> bool:
        """Whether the present round has only to be ended: all are there but for those that nobody waits for."""
        late = len(self.held & self.to_run.keys())
        return len(self.to_run) == late < len(self._live) and not self.accepts

    def _wait(self) -> RungResult:
        awaited = self.rounds[0].size if self.accepts else len(self._live)
        return RungResult(RungOutcome.WAITING, self.round, None, len(self._live) - len(self.to_run), awaited)

    def _end_round(self, current: BracketEntry | None = None) -> RungResult:
        """Ends a round; `current` is the trial, still running, whose result ended it, if one did."""
        ended = self.round
        late = list(self.to_run)
        arrived = [trial for trial in self._live if trial not in self.to_run]
        ranked = len(arrived)
        ranking = sorted(arrived, key=lambda trial: self.entries[trial].key, reverse=True)
        self.round += 1
        kept = ranking[: self.rounds[self.round].size] if self.round < len(self.rounds) else []
        if kept:
            last = self.entries[kept[-1]]
            self.cutoffs.append(Cutoff(last.reward, last.trial, ranked))
        self.eliminated.update(dict.fromkeys(ranking[len(kept) :], ended))
        if self.round == len(self.rounds):
            self.eliminated.update(dict.fromkeys(late, ended))
            late = []
        self._live = dict.fromkeys(sorted([*kept, *late]))  # who is late goes on from where it is
        self._find_trials_to_run()
        if current is None:
            return RungResult(RungOutcome.FINISHED, ended, None, ranked, ranked)
        outcome = self._build_outcome(current)
        if outcome in (RungOutcome.ELIMINATED, RungOutcome.FINISHED):
            self._live.pop(current.trial, None)
            self.eliminated.pop(current.trial, None)
        return RungResult(outcome, ended, ranking.index(current.trial) + 1, ranked, ranked)

    def _build_outcome(self, current: BracketEntry) -> RungOutcome:
        """What becomes of the trial that has ended a round."""
        last = len(self.rounds) - 1
        if self.round > last:
            return RungOutcome.FINISHED
        if current.trial not in self._live:
            return RungOutcome.ELIMINATED
        if self.may_run(current.trial):
            return RungOutcome.PROMOTED
        return RungOutcome.FINISHED if self.round == last and not self.to_run else RungOutcome.AHEAD

    def _find_trials_to_run(self) -> None:
        milestone = self.rounds[self.round].milestone if self._live else 0
        self.to_run = {trial: None for trial in self._live if self.entries[trial].arrived < milestone}


def _build_key(reward: float, trial: int) -> tuple[bool, float, int]:
    return (False, 0.0, trial) if math.isnan(reward) else (True, reward, trial)
