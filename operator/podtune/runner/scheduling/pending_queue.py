"""The trials that could run now if they had a slot, in the order of their turns."""

from __future__ import annotations

from bisect import bisect_left, insort
from collections.abc import Iterator, Sequence
from typing import overload

from typing_extensions import override

from podtune.runner.trial.machine import TrialMachine
from podtune.runner.trial.phase import TrialPhase


class PendingQueue(Sequence[int]):
    """Indexes of trials, ordered by the times from which they may start, then by themselves.

    It follows from what is recorded, so a restarted operator has the same. There may be thousands, of trials that a
    scheduler has paused: coming, going and `in` cost no walk through them.
    """

    def __init__(self) -> None:
        self._order: list[tuple[float, int]] = []
        self._entries: dict[int, tuple[float, TrialMachine]] = {}
        self._paused: set[int] = set()
        self._new: set[int] = set()

    def add(self, trial: TrialMachine, since: float) -> None:
        """Puts a trial where it belongs, also one that has been elsewhere in the queue."""
        known = self._entries.get(trial.index)
        if known is None or known[0] != since:
            self.discard(trial.index)
            insort(self._order, (since, trial.index))
        self._entries[trial.index] = (since, trial)
        is_paused = trial.phase is TrialPhase.PAUSED_BY_SCHEDULER
        (self._paused.add if is_paused else self._paused.discard)(trial.index)
        (self._new.add if trial.attempt == 1 and not is_paused else self._new.discard)(trial.index)

    def discard(self, index: int) -> None:
        """Takes a trial out, if it is there."""
        known = self._entries.pop(index, None)
        if known is not None:
            del self._order[bisect_left(self._order, (known[0], index))]
            self._paused.discard(index)
            self._new.discard(index)

    def get_trial(self, index: int) -> TrialMachine:
        """A trial that is there."""
        return self._entries[index][1]

    def take(self, index: int) -> TrialMachine:
        """Takes a trial out that is there."""
        trial = self.get_trial(index)
        self.discard(index)
        return trial

    @property
    def paused(self) -> int:
        """How many of them the scheduler has paused."""
        return len(self._paused)

    @property
    def new(self) -> int:
        """How many of them have had no attempt yet."""
        return len(self._new)

    @property
    def trials(self) -> tuple[TrialMachine, ...]:
        """The trials themselves, in order."""
        return tuple(self._entries[index][1] for _, index in self._order)

    @override
    def __len__(self) -> int:
        return len(self._order)

    @override
    def __contains__(self, index: object) -> bool:
        return index in self._entries

    @override
    def __iter__(self) -> Iterator[int]:
        return (index for _, index in self._order)

    @overload
    def __getitem__(self, position: int) -> int: ...

    @overload
    def __getitem__(self, position: slice) -> Sequence[int]: ...

    @override
    def __getitem__(self, position: int | slice) -> int | Sequence[int]:
        if isinstance(position, slice):
            return [index for _, index in self._order[position]]
        return self._order[position][1]
