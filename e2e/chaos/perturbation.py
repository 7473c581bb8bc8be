"""What is done to a run: a value, so that it can be repeated.

`mixed/trial-end.2/kill-after` says it all: the experiment is `mixed`; when the operator writes the end of a trial for
the second time, it is killed right after the API server has done it.
"""

from __future__ import annotations

import zlib
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from enum import StrEnum

from e2e.chaos.faults.calls import Call


class Fault(StrEnum):
    """What happens to a call."""

    NONE = "undisturbed"

    # To a request and its answer.
    REFUSE_403 = "403"
    REFUSE_404 = "404"
    REFUSE_409 = "409"
    REFUSE_412 = "412"
    REFUSE_429 = "429"
    REFUSE_500 = "500"
    REFUSE_503 = "503"
    REFUSE_504 = "504"
    LOSE_REQUEST = "lose-request"
    LOSE_REPLY = "lose-reply"
    DONE_BUT_500 = "done-but-500"
    DONE_BUT_504 = "done-but-504"
    OUTAGE = "outage"
    SLOW = "slow"
    TIMEOUT_BEFORE = "timeout-before"
    TIMEOUT_AFTER = "timeout-after"
    TWICE = "twice"
    LATE_AGAIN = "late-again"
    LATE_AFTER_504 = "late-after-504"
    GARBLED = "garbled"
    OVERTAKEN = "overtaken"

    # To a process.
    KILL_BEFORE = "kill-before"
    KILL_AFTER = "kill-after"
    KILL_TWICE = "kill-twice"
    TERMINATE = "terminate"
    SECOND_LEADER = "second-leader"
    FREEZE = "freeze"
    CLOCK_FORWARD = "clock-forward"
    CLOCK_BACK = "clock-back"
    LOSE_CLUSTER = "cluster-lost"
    """All objects of the experiment are gone, and it is restored from its store under another name."""
    LOSE_THEN_KILL = "cluster-lost-then-killed"
    """The same, and the operator dies when the restored experiment's first pod is made."""
    LOSE_TWICE = "cluster-lost-twice"
    """The same, and the restored experiment is lost, too, when some of its records are stored."""

    # To a watch.
    WATCH_CUT = "cut"
    WATCH_DROP = "drop"
    WATCH_TWICE = "event-twice"
    WATCH_REORDER = "reorder"
    WATCH_DELAY = "delay"
    WATCH_GONE = "410"
    WATCH_STALE = "stale-list"

    # To an object that is read.
    TRUNCATED = "truncated"
    BIT_FLIPPED = "bit-flipped"

    # To a file system.
    DISK_FULL = "disk-full"
    READ_ONLY = "read-only"
    STALE_HANDLE = "stale-handle"
    IO_ERROR = "io-error"
    DONE_BUT_IO_ERROR = "done-but-io-error"


VOLUME_OUTAGES = frozenset({Fault.DISK_FULL, Fault.READ_ONLY, Fault.STALE_HANDLE})
"""Those of a file system that last for a while, for whatever it is asked that they concern."""
AFTER_A_LOSS: Mapping[Fault, tuple[Call, int, Fault]] = {
    Fault.LOSE_THEN_KILL: (Call.CREATE_POD, 1, Fault.KILL_AFTER),
    Fault.LOSE_TWICE: (Call.S3_PUT_RECORD, 6, Fault.LOSE_CLUSTER),
}
"""Of faults that go on when the experiment is restored: at which of its calls, and what happens then."""
KILLS = frozenset({Fault.KILL_BEFORE, Fault.KILL_AFTER, Fault.KILL_TWICE, Fault.TERMINATE})
LEADERS = frozenset({Fault.SECOND_LEADER, Fault.FREEZE})
CLOCKS = frozenset({Fault.CLOCK_FORWARD, Fault.CLOCK_BACK})
TIMEOUTS = frozenset({Fault.TIMEOUT_BEFORE, Fault.TIMEOUT_AFTER})
WATCHES = frozenset(
    {
        Fault.WATCH_CUT,
        Fault.WATCH_DROP,
        Fault.WATCH_TWICE,
        Fault.WATCH_REORDER,
        Fault.WATCH_DELAY,
        Fault.WATCH_GONE,
        Fault.WATCH_STALE,
    }
)


@dataclass(frozen=True)
class Perturbation:
    """One fault at one call of one scenario.

    Attributes:
        scenario: Name of the experiment that is run.
        call: The call that it strikes.
        occurrence: Which of the experiment's calls of that kind, from 1.
        fault: What happens.
    """

    scenario: str
    call: Call
    occurrence: int
    fault: Fault

    @property
    def id(self) -> str:
        """By which it is repeated: `python -m e2e.chaos --only ID`."""
        if self.fault is Fault.NONE:
            return f"{self.scenario}/{self.fault}"
        return f"{self.scenario}/{self.call}.{self.occurrence}/{self.fault}"

    @property
    def strikes(self) -> Iterator[Perturbation]:
        """What lies in wait: one after the other, where an experiment is lost and restored."""
        later = AFTER_A_LOSS.get(self.fault)
        yield self if later is None else replace(self, fault=Fault.LOSE_CLUSTER)
        if later is not None:
            call, occurrence, fault = later
            yield Perturbation(self.scenario, call, occurrence, fault)

    @property
    def nothing(self) -> Perturbation:
        """The same experiment undisturbed."""
        return Perturbation(self.scenario, Call.OTHER, 1, Fault.NONE)

    def seed(self, campaign: int) -> int:
        """The seed of everything that is drawn while it runs."""
        return zlib.crc32(f"{campaign}/{self.id}".encode())
