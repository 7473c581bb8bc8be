"""What the trials of a simulated experiment run, and what may happen to it."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, field
from enum import Enum

from podtune.protocol.messages import StoreProblem
from tests.unit.runner.world.simulated_uploads import Snag


class Fault(Enum):
    """What ends an attempt, besides the program's own good end."""

    CRASH = "exit code 1"
    OOM = "out of memory"
    EVICTED = "evicted, with a DisruptionTarget"
    TRAPPED = "evicted; the program traps SIGTERM and ends well"
    DELETED = "deleted by somebody else"
    VANISHED = "gone without a trace"
    NOT_ADMITTED = "refused by the kubelet"
    STORE_AWAY = "the bucket does not answer when it restores"
    STUCK = "its image can't be pulled"
    DISK = "evicted for its own disk"
    HUNG = "the program hangs; its agent lives on"
    UNSCHEDULABLE = "no node can take it"


@dataclass(frozen=True)
class ScheduledFault:
    """A fault that strikes an attempt after the iteration `step`."""

    kind: Fault
    step: int = 0
    exit_code: int = 1
    rank: int = 0


def curve(trial: int, step: int) -> float:
    """The accuracy of a trial after some iterations: pure, bounded, and different for every trial."""
    level = 0.5 + 0.45 * math.sin(12.9898 * (trial + 1))
    return round(level * (1 - math.exp(-step / 4)) + 0.01 * math.sin(7.0 * step + trial), 6)


@dataclass(frozen=True)
class Program:
    """What the trials of an experiment run.

    Attributes:
        steps: Iterations until the program ends by itself.
        seconds: Time that one takes.
        checkpoint_every: A checkpoint is taken every so many iterations; 0 for never, unless it is asked for.
        upload: Time until a checkpoint is committed, once those before it are; infinity for never.
        seen_after: Time until the pod's status says that it runs.
        silent: Whether there is no agent: nothing is ever reported (pods of kwok).
        says_done: Whether the program says that it is done.
        metric: Value of the objective by trial and iteration.
        further: Further metrics by trial and iteration.
        faults: By trial, what strikes its attempts, first to last; those left out end well.
        snags: By trial, what meets the uploads of its attempts, first to last.
        store_problem: By trial, what its agents report of the store.
        gpus: How many GPUs a pod holds.
        nodes: The nodes of the cluster; a pod is put on one that it does not avoid.
        bad_nodes: Those on which every program fails with exit code 42.
    """

    steps: int = 4
    seconds: float = 1.0
    checkpoint_every: int = 0
    upload: float = 0.3
    seen_after: float = 0.0
    silent: bool = False
    says_done: bool = True
    metric: Callable[[int, int], float | None] = curve
    further: Callable[[int, int], dict[str, float]] = lambda trial, step: {}
    faults: dict[int, tuple[ScheduledFault | None, ...]] = field(default_factory=dict)
    snags: dict[int, tuple[Snag | None, ...]] = field(default_factory=dict)
    store_problem: dict[int, StoreProblem] = field(default_factory=dict)
    gpus: float = 0.0
    nodes: tuple[str, ...] = ("n1",)
    bad_nodes: frozenset[str] = frozenset()
