"""Proposals from a fixed sequence of points, taken one after the other."""

from __future__ import annotations

from abc import ABC, abstractmethod
from bisect import bisect_right, insort
from collections.abc import Sequence

from typing_extensions import override

from podtune.tuning.searchers.base import Configuration, Observation, PendingTrial, Proposal, Searcher
from podtune.tuning.searchers.spaces.active_space import ActiveSpace, InvalidConfiguration, PointKey, RejectionCounter
from podtune.tuning.searchers.spaces.point_tree import PointTree

INDEX = "index"
"""The attribute of a proposal that says which point of the sequence it is, where that is not its number."""
INFINITE_PATIENCE = 1000
"""How many points may be refused for one proposal of an infinite sequence."""
FINITE_PATIENCE = 100_000
"""The same where there is an end: to look at a point takes some microseconds."""


class PointSequence(ABC):
    """Values for the sampled parameters, by their position in a sequence.

    Attributes:
        length: How many points there are; None where they don't end.
        is_distinct: Whether no two points are the same.
    """

    length: int | None = None
    is_distinct: bool = True

    @abstractmethod
    def point(self, index: int) -> Configuration:
        """The values at a position, from 0; it may leave out parameters that don't exist then."""


class SequenceSearcher(Searcher):
    """Proposes the points of a sequence, without those that constraints refuse and, in a finite space, repetitions.

    Proposal number n is the n-th usable point, whatever came of the others. To know it after a restart, the sequence is
    gone through again from the last proposal whose position is recorded; where repetitions have to be recognised, from
    the beginning.
    """

    sees_inactive = False

    def __init__(self, space: ActiveSpace, points: PointSequence) -> None:
        self._space = space
        self._points = points
        self._skipped: set[PointKey] = set()
        self._begin()

    def _begin(self) -> None:
        self._seen = set(self._skipped)
        self._indexes = {-1: -1}
        """Positions in the sequence, by the proposals' numbers."""
        self._numbers = [-1]
        """The numbers in order."""

    @override
    def tell(self, observation: Observation) -> None:
        """Learns nothing but which points were proposed."""
        self._recall(observation)

    @override
    def skip(self, configuration: Configuration) -> None:
        """Leaves a point of a finite space out; what was found so far is looked for again."""
        key = self._space.build_key(configuration)
        if self._points.length is not None and key not in self._skipped:
            self._skipped.add(key)
            self._begin()

    @override
    def ask(self, number: int, pending: Sequence[PendingTrial], attempt: int = 0) -> Proposal | None:
        """The point with this number; None after the last one."""
        for trial in pending:
            self._recall(trial)
        index = self._find_index(number)
        if index is None:
            return None
        configuration = self._space.build_configuration(self._points.point(index))
        return Proposal(configuration, {} if index == number else {INDEX: str(index)})

    def _recall(self, trial: Observation | PendingTrial) -> None:
        """Takes in which point a trial is of."""
        if self._points.is_distinct and trial.number >= 0 and trial.number not in self._indexes:
            self._record_found(trial.number, int(trial.attributes.get(INDEX, trial.number)))

    def _record_found(self, number: int, index: int) -> None:
        self._indexes[number] = index
        insort(self._numbers, number)

    def _find_index(self, number: int) -> int | None:
        """The position in the sequence of the usable point with a number."""
        if self._points.is_distinct and not self._space.refuses and not self._skipped:
            return number if self._points.length is None or number < self._points.length else None
        below = self._numbers[bisect_right(self._numbers, number) - 1]
        while below < number:
            index = self._find_next_usable(self._indexes[below] + 1)
            if index is None:
                return None
            below += 1
            self._record_found(below, index)
        return self._indexes[number]

    def _find_next_usable(self, start: int) -> int | None:
        """The first usable position from one on; None where there is none up to the end."""
        refusals = RejectionCounter()
        length = self._points.length
        patience = INFINITE_PATIENCE if length is None else FINITE_PATIENCE
        index = start
        while index != length and refusals.count < patience:
            try:
                key = self._space.build_key(self._space.build_configuration(self._points.point(index)))
            except InvalidConfiguration as refused:
                refusals.add(refused)
            else:
                if key not in self._seen:
                    if not self._points.is_distinct:
                        self._seen.add(key)
                    return index
            index += 1
        if index == length and (start > 0 or self._skipped or not refusals.count):
            return None
        raise refusals.build_error(index - start)


class ThenEveryOther(PointSequence):
    """The points of a sequence in a finite space, and, since it alone might never come to the last one, all of them."""

    is_distinct = False

    def __init__(self, first: PointSequence, every: PointTree) -> None:
        self._first = first
        self._every = every
        self._of_first = 4 * every.count + 64
        self.length = self._of_first + every.count

    @override
    def point(self, index: int) -> Configuration:
        if index < self._of_first:
            return self._first.point(index)
        return self._every.get_point(index - self._of_first)
