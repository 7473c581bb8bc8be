"""Trials that are pending: their configurations were proposed, and the searcher has not observed their results."""

from __future__ import annotations

from bisect import bisect_left, insort
from collections.abc import Iterable, Iterator
from heapq import merge
from itertools import islice

from podtune.tuning.searchers.base import PendingTrial


class PendingTrials:
    """Kept in the order of their numbers, so that the newest are found however many others are paused."""

    def __init__(self) -> None:
        """Starts with none."""
        self._by_number: dict[int, PendingTrial] = {}
        self._numbers: list[int] = []

    def __contains__(self, number: int) -> bool:
        """Whether the configuration with a number is under way."""
        return number in self._by_number

    def begin(self, trial: PendingTrial) -> None:
        """A configuration is under way from now on."""
        if trial.number not in self._by_number:
            insort(self._numbers, trial.number)
        self._by_number[trial.number] = trial

    def end(self, number: int) -> None:
        """A configuration is under way no more, if it was."""
        if self._by_number.pop(number, None) is not None:
            del self._numbers[bisect_left(self._numbers, number)]

    def newest(self, count: int, hidden: range, more: Iterable[PendingTrial] = ()) -> tuple[PendingTrial, ...]:
        """The newest of them, ordered by number.

        Args:
            count: How many at most.
            hidden: Numbers that are left out.
            more: What was under way at the time that is asked about, and is not any more.
        """
        others = {trial.number: trial for trial in more if trial.number not in self._by_number}
        shown = (number for number in self._newest_first(others) if number not in hidden)
        chosen = [self._by_number.get(number) or others[number] for number in islice(shown, count)]
        return tuple(reversed(chosen))

    def _newest_first(self, others: Iterable[int]) -> Iterator[int]:
        return merge(reversed(self._numbers), sorted(others, reverse=True), reverse=True)
