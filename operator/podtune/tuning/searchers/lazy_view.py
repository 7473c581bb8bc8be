"""Pending trials as a searcher within another one sees them."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from functools import cached_property
from typing import overload

from typing_extensions import override

from podtune.tuning.searchers.base import PendingTrial


class LazyView(Sequence[PendingTrial]):
    """A view of each trial, computed only where somebody looks: thousands may be paused, and most searchers don't."""

    def __init__(self, trials: Sequence[PendingTrial], view: Callable[[PendingTrial], PendingTrial]) -> None:
        self._trials = trials
        self._view = view

    @override
    def __len__(self) -> int:
        return len(self._trials)

    @overload
    def __getitem__(self, index: int) -> PendingTrial: ...
    @overload
    def __getitem__(self, index: slice) -> Sequence[PendingTrial]: ...
    @override
    def __getitem__(self, index: int | slice) -> PendingTrial | Sequence[PendingTrial]:
        if isinstance(index, slice):
            return LazyView(self._trials[index], self._view)
        return self._view(self._trials[index])

    @override
    def __iter__(self) -> Iterator[PendingTrial]:
        return iter(self._all)

    @cached_property
    def _all(self) -> tuple[PendingTrial, ...]:
        """A model may be asked several times for one proposal."""
        return tuple(map(self._view, self._trials))
