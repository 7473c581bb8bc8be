"""What may end an attempt before its program has ended."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from enum import Enum
from typing import TypeVar

from podtune.runner.records import ContainerEnd

_T = TypeVar("_T")


class Fault(Enum):
    """What strikes a pod; a simulated experiment meets the first three."""

    CRASH = "the program fails"
    EVICTED = "evicted from a node that is drained"
    NODE_LOST = "its node shuts down, whatever grace period it has"
    OOM = "out of memory"
    DISK = "evicted for its own disk"
    DISK_FULL = "no space left on the volume that it shares with its agent"
    TRAPPED = "evicted; the program traps SIGTERM and ends well"
    DELETED = "deleted by somebody else"
    VANISHED = "gone without a trace"
    NOT_ADMITTED = "refused by the kubelet"
    UNSCHEDULABLE = "no node can take it"
    STUCK = "its image can't be pulled"
    STORE_AWAY = "the bucket does not answer when it restores"
    HUNG = "the program hangs; its agent lives on"


@dataclass(frozen=True, slots=True)
class ScheduledFault:
    """A fault that strikes an attempt after the iteration `step`; of a gang, the pod of one rank."""

    kind: Fault
    step: int = 0
    exit_code: int = 1
    rank: int = 0

    @property
    def end(self) -> ContainerEnd:
        """How the program ends by it."""
        return ENDS.get(self.kind) or ContainerEnd("trial", self.exit_code, "Error")


COMPLETED = ContainerEnd("trial", 0, "Completed")
CRASHED = ContainerEnd("trial", 1, "Error")
KILLED = ContainerEnd("trial", 143, "Error")
"""By SIGTERM, which the program does not catch."""
ENDS = {
    Fault.OOM: ContainerEnd("trial", 137, "OOMKilled"),
    Fault.EVICTED: KILLED,
    Fault.NODE_LOST: KILLED,
    Fault.DELETED: KILLED,
    Fault.TRAPPED: COMPLETED,
}
DISRUPTIONS = {
    Fault.EVICTED: "EvictionByEvictionAPI: the node is drained",
    Fault.NODE_LOST: "TerminationByKubelet: the node shuts down",
    Fault.TRAPPED: "PreemptionByScheduler: preempted",
}
"""Reason and message of the DisruptionTarget that Kubernetes sets before it takes a pod away."""


def find_for_attempt(by_trial: Mapping[int, Sequence[_T]], trial: int, attempt: int) -> _T | None:
    """What is scheduled for an attempt of a trial, of which there are numbers from 1; None for nothing."""
    scheduled = by_trial.get(trial, ())
    return scheduled[attempt - 1] if attempt <= len(scheduled) else None
