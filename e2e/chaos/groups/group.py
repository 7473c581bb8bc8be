"""Groups of perturbations, and the faults that several of them have."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from itertools import product

from e2e.chaos.faults.calls import Call
from e2e.chaos.perturbation import Fault, Perturbation


@dataclass(frozen=True)
class Group:
    """Perturbations that run together.

    Attributes:
        at_once: How many run beside each other.
        promise: The heading of the design that they test.
    """

    name: str
    at_once: int
    perturbations: tuple[Perturbation, ...]


WATCH_FAULTS = (
    Fault.WATCH_CUT,
    Fault.WATCH_DROP,
    Fault.WATCH_TWICE,
    Fault.WATCH_REORDER,
    Fault.WATCH_DELAY,
    Fault.WATCH_GONE,
    Fault.WATCH_STALE,
)
KILLS = (Fault.KILL_BEFORE, Fault.KILL_AFTER)
DOUBTS = (Fault.REFUSE_409, Fault.REFUSE_500, Fault.DONE_BUT_504, Fault.LOSE_REPLY)
"""After which the operator does not know whether a write was done, or believes that another was faster."""


def each(faults: Iterable[Fault], calls: Iterable[tuple[str, Call, int]]) -> Iterator[Perturbation]:
    """Each fault at each of the calls."""
    for (scenario, call, occurrence), fault in product(calls, faults):
        yield Perturbation(scenario, call, occurrence, fault)
