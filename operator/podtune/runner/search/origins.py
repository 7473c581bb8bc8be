"""Where each proposal comes from: an entry of `search.initial`, or the searcher.

`search.initial` may grow while the experiment runs, so a proposal's number alone does not tell. Each Trial records its
source, and all that is said here follows from these records and from the spec: a machine that saw the list grow and one
that is built afterwards agree. An entry that no Trial names comes next, before further proposals of the searcher.

The searcher counts its own proposals from 0 without gaps, so that a grid is complete whatever comes in between. A count
that is left over, since its Trial was deleted, is used first.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from itertools import count

from podtune.api.resources.trial import ProposalSource, TrialSpec
from podtune.api.restore_from import RestoreFrom
from podtune.api.tuning.prior_knowledge import MAX_INITIAL, InitialConfiguration
from podtune.api.tuning.search_space import Parameter
from podtune.tuning.searchers.initial import find_place


@dataclass(frozen=True, slots=True)
class Origin:
    """Where a proposal comes from.

    Attributes:
        source: Which of the two.
        position: Place in `search.initial`, or how many the searcher had proposed before.
    """

    source: ProposalSource
    position: int

    @property
    def number(self) -> int:
        """The number that the searcher knows it by: below 0 where it has not proposed it."""
        return self.position if self.source is ProposalSource.SEARCHER else self.position - MAX_INITIAL


class FreeNumbers:
    """Numbers from 0 that are taken in any order; those that were left out are the first to be taken next."""

    def __init__(self) -> None:
        self._left_out: list[int] = []
        self._next = 0

    def __iter__(self) -> Iterator[int]:
        """All that are free, in their order, without an end."""
        yield from self._left_out
        yield from count(self._next)

    @property
    def left_out(self) -> Sequence[int]:
        """Those below the highest one that is taken."""
        return self._left_out

    @property
    def next(self) -> int:
        """The number after the highest one that is taken."""
        return self._next

    def take(self, number: int) -> None:
        """Takes a number, if it is free."""
        if number < self._next:
            if number in self._left_out:
                self._left_out.remove(number)
            return
        self._left_out.extend(range(self._next, number))
        self._next = number + 1

    def forget_left_out(self) -> None:
        """None of those that were left out is wanted any more."""
        self._left_out.clear()


@dataclass(slots=True)
class ProposalOrigins:
    """The origins of all proposals that were answered.

    Attributes:
        parameters: The search space.
        initial: The manifest's `search.initial`.
        by_number: Origins by the proposals' numbers; it grows, and is never changed otherwise.
    """

    parameters: Sequence[Parameter]
    initial: Sequence[InitialConfiguration]
    by_number: dict[int, Origin] = field(default_factory=dict)
    _open: dict[int, None] = field(init=False)
    """Places in `initial` that nothing was proposed from, in their order."""
    _counts: FreeNumbers = field(init=False, default_factory=FreeNumbers)
    """The searcher's own."""
    _from_initial: dict[int, int] = field(init=False, default_factory=dict)
    """Places in `initial` by the proposals' numbers."""

    def __post_init__(self) -> None:
        self._open = {place: None for place, entry in enumerate(self.initial) if not entry.is_known}

    @property
    def open_entries(self) -> int:
        """How many entries of `search.initial` nothing was proposed from yet."""
        return len(self._open)

    def record(self, number: int, origin: Origin) -> None:
        """Takes in where a proposal comes from."""
        self.by_number[number] = origin
        if origin.source is ProposalSource.INITIAL:
            self._open.pop(origin.position, None)
            self._from_initial[number] = origin.position
        else:
            self._counts.take(origin.position)

    def read(self, number: int, spec: TrialSpec) -> Origin:
        """Where the proposal of a Trial comes from.

        Trials that were made before search.initial could grow don't say: the entries had the first numbers then.
        """
        proposal = spec.proposal
        if proposal is not None and proposal.source is not None:
            return Origin(proposal.source, proposal.position)
        place = find_place(number, spec.parameters, self.parameters, self.initial)
        if place is not None:
            return Origin(ProposalSource.INITIAL, place)
        return Origin(ProposalSource.SEARCHER, max(number - len(self._from_initial), 0))

    def find_restore_source(self, number: int) -> RestoreFrom | None:
        """The checkpoint that the trials of a proposal start from."""
        origin = self.by_number[number]
        if origin.source is not ProposalSource.INITIAL or origin.position >= len(self.initial):
            return None
        return self.initial[origin.position].restore_from

    def list_first(self, unanswered: Iterable[int]) -> tuple[int, ...]:
        """Places of the entries that are proposed before the searcher proposes anything.

        A searcher that goes through its space leaves them out. Those that came later it may come to itself: to leave
        them out as well would move what it has proposed already.

        Args:
            unanswered: All numbers that nothing was proposed for, in their order.
        """
        placed = sorted([*self._from_initial.items(), *zip(unanswered, self._open, strict=False)])
        return tuple(place for rank, (number, place) in enumerate(placed) if number == rank)

    def choose(self, unanswered: Iterable[int], numbers: range) -> tuple[Origin, ...]:
        """Chooses where proposals come from.

        Args:
            unanswered: All numbers that nothing was proposed for, in their order.
            numbers: Those among them that are asked for.
        """
        entries, counts = iter(self._open), iter(self._counts)
        chosen: list[Origin] = []
        for number in unanswered:
            if number >= numbers.stop:
                break
            place = next(entries, None)
            if place is not None:
                origin = Origin(ProposalSource.INITIAL, place)
            else:
                origin = Origin(ProposalSource.SEARCHER, next(counts))
            if number in numbers:
                chosen.append(origin)
        return tuple(chosen)
