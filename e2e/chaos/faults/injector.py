"""Which fault strikes which request: perturbations lie in wait here, and each strikes once."""

from __future__ import annotations

import asyncio
import random
import time
from collections import Counter
from collections.abc import Collection
from dataclasses import dataclass, field

from e2e.chaos.faults.calls import VOLUME_CALLS, VOLUME_CHANGES, VOLUME_WRITES, Call
from e2e.chaos.perturbation import Fault, Perturbation

OUTAGE_SECONDS = 4.0


@dataclass
class Armed:
    """A perturbation that lies in wait for one experiment.

    Attributes:
        random: Draws for it alone.
        struck: When it struck, in seconds of a monotonic clock.
        is_lost: Whether the cluster has lost the experiment.
        seen: How many calls of each kind there have been.
        calls: The same in the order in which they came.
    """

    perturbation: Perturbation
    subject: str
    random: random.Random
    struck: float | None = None
    is_lost: bool = False
    seen: Counter[Call] = field(default_factory=Counter)
    moved: asyncio.Event = field(default_factory=asyncio.Event)

    def strikes(self, call: Call) -> Fault:
        """Counts a call, and says what is done to it."""
        self.seen[call] += 1
        fault = self.perturbation.fault
        if self.struck is not None:
            self.moved.set()
            lasts = call in self._concerned and time.monotonic() < self.struck + OUTAGE_SECONDS
            return fault if lasts else Fault.NONE
        if call is not self.perturbation.call:
            return Fault.NONE
        if fault is Fault.NONE or self.seen[call] != self.perturbation.occurrence:
            return Fault.NONE
        self.struck = time.monotonic()
        return fault

    @property
    def _concerned(self) -> Collection[Call]:
        """The calls that go on failing for a while."""
        match self.perturbation.fault:
            case Fault.OUTAGE:
                return (self.perturbation.call,)
            case Fault.DISK_FULL:
                return VOLUME_WRITES
            case Fault.READ_ONLY:
                return VOLUME_CHANGES
            case Fault.STALE_HANDLE:
                return VOLUME_CALLS
        return ()


class Injector:
    """All perturbations of a testbed."""

    def __init__(self) -> None:
        self._armed: dict[str, Armed] = {}

    def arm(self, perturbation: Perturbation, subject: str, seed: int) -> Armed:
        """Has a perturbation lie in wait for the calls of an experiment."""
        armed = self._armed[subject] = Armed(perturbation, subject, random.Random(seed))
        return armed

    def disarm(self, subject: str) -> None:
        """The experiment is over."""
        del self._armed[subject]

    def strike(self, call: Call, subject: str) -> tuple[Fault, Armed | None]:
        """What is done to a call; one that is about no experiment concerns them all."""
        if subject:
            armed = self._armed.get(subject)
            return (armed.strikes(call), armed) if armed is not None else (Fault.NONE, None)
        for armed in list(self._armed.values()):
            if armed.perturbation.call is call and (fault := armed.strikes(call)) is not Fault.NONE:
                return fault, armed
        return Fault.NONE, None
