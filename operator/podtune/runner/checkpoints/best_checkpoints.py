"""The trials that have ended and keep their best checkpoint, since they are among the best of the experiment."""

from __future__ import annotations

from bisect import bisect_left, insort
from collections import defaultdict

from typing_extensions import override

from podtune.api.resources.trial_numbers import count_repeats, find_first_index, find_number
from podtune.api.tuning.objective import Objective
from podtune.runner.search.observation_log import compute_mean
from podtune.runner.trial import results
from podtune.runner.trial.machine import TrialMachine
from podtune.runner.trials import TrialIndex

Rank = tuple[float, int]
"""What trials are sorted by, the best first: the value, negated where more is better, and the index."""


class BestCheckpoints(TrialIndex):
    """Ranks trials that have ended as the Experiment's status does: by the best value that each has recorded.

    A configuration that runs several times is ranked by the mean of its repeats once all of them have ended, and the
    best of them that has a checkpoint stands for it; until then all of them are among the best. What has no checkpoint
    has no rank.

    All follows from what the Trials record, so a restarted operator has the same ranks.
    """

    def __init__(self, objective: Objective, repeats: int, count: int) -> None:
        """Ranks none yet.

        Args:
            objective: What the best ones are the best by.
            repeats: How often each configuration runs.
            count: How many are among the best.
        """
        self._objective = objective
        self._repeats = repeats
        self.count = count
        self._ended: defaultdict[int, dict[int, TrialMachine]] = defaultdict(dict)
        """By configuration and index."""
        self._ranks: dict[int, Rank] = {}
        self._sorted: list[Rank] = []
        self._to_look_at: dict[str, None] = {}

    @override
    def update(self, trial: TrialMachine, now: float = 0.0) -> None:
        """Takes in what a trial has recorded."""
        number, state = find_number(trial.index, self._repeats), trial.saved.state
        if state is not None and state.is_finished:
            self._ended[number][trial.index] = trial
        elif self._ended[number].pop(trial.index, None) is None:
            return
        self._rank_anew(number)

    def is_among_best(self, trial: TrialMachine) -> bool:
        """Whether a trial keeps its best checkpoint in any case; of one whose end is not recorded, whether it would."""
        number = find_number(trial.index, self._repeats)
        repeats = count_repeats(trial.index, self._repeats)
        if len(self._ended[number].keys() | {trial.index}) < repeats:
            return True
        if trial.index in self._ended[number]:
            rank = self._ranks.get(number)
            return rank is not None and rank[1] == trial.index and self._find_place(rank) < self.count
        value = results.find_best_value(trial.status, self._objective.metric)
        return repeats > 1 or (value is not None and self._find_place(self._rank(value, trial)) < self.count)

    def take_displaced(self) -> list[str]:
        """The trials that may not be among the best any more, since the last time."""
        displaced, self._to_look_at = self._to_look_at, {}
        return list(displaced)

    def _rank_anew(self, number: int) -> None:
        before, after = self._ranks.pop(number, None), self._compute_rank(number)
        if after is not None:
            self._ranks[number] = after
        if before == after:
            return
        if before is not None:
            del self._sorted[self._find_place(before)]
        if after is not None:
            insort(self._sorted, after)
            self._mark_displaced(number, after)

    def _mark_displaced(self, number: int, rank: Rank) -> None:
        """A configuration was ranked: another one has lost its place by that, or it has come too late for one."""
        self._to_look_at.update((trial.name, None) for trial in self._ended[number].values() if self._repeats > 1)
        if len(self._sorted) > self.count:
            _, index = max(rank, self._sorted[self.count])
            self._to_look_at[self._ended[find_number(index, self._repeats)][index].name] = None

    def _compute_rank(self, number: int) -> Rank | None:
        ended = self._ended[number]
        if len(ended) < count_repeats(find_first_index(number, self._repeats), self._repeats):
            return None
        metric = self._objective.metric
        values = {i: results.find_best_value(trial.saved, metric) for i, trial in ended.items()}
        known = {i: value for i, value in values.items() if value is not None}
        holders = [self._rank(value, ended[i]) for i, value in known.items() if ended[i].saved.checkpoints]
        if not holders:
            return None
        _, index = min(holders)
        return self._rank(compute_mean(tuple(known[i] for i in sorted(known))), ended[index])

    def _rank(self, value: float, trial: TrialMachine) -> Rank:
        return -value if self._objective.mode == "max" else value, trial.index

    def _find_place(self, rank: Rank) -> int:
        """How many are better."""
        return bisect_left(self._sorted, rank)
