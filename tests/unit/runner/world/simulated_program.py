"""What the trials of a simulated experiment run, and what may happen to it."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field

from podtune.protocol.messages import StoreProblem
from podtune.simulation.curves.functions import compute_rising_value
from podtune.simulation.faults import ScheduledFault
from tests.unit.runner.world.simulated_uploads import Snag


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
        evaluation: What an evaluation reports, by trial and iteration of the checkpoint; None for nothing.
        further: Further metrics by trial and iteration.
        faults: By trial, what strikes its attempts, first to last; those left out end well.
        snags: By trial, what meets the uploads of its attempts, first to last.
        store_problem: By trial, what its agents report of the store.
        gpus: How many GPUs a pod holds.
        nodes: The nodes of the cluster; a pod is put on one that it does not avoid.
        unusable: Revisions of the trial template whose pods can't be started.
        memory: By trial: the iteration from which on it needs memory, and how much; with less it is killed.
        bad_nodes: Those on which every program fails with exit code 42.
    """

    steps: int = 4
    seconds: float = 1.0
    checkpoint_every: int = 0
    upload: float = 0.3
    seen_after: float = 0.0
    silent: bool = False
    says_done: bool = True
    metric: Callable[[int, int], float | None] = compute_rising_value
    evaluation: Callable[[int, int], float | None] = compute_rising_value
    further: Callable[[int, int], dict[str, float]] = lambda trial, step: {}
    faults: Mapping[int, tuple[ScheduledFault | None, ...]] = field(default_factory=dict)
    snags: Mapping[int, tuple[Snag | None, ...]] = field(default_factory=dict)
    store_problem: dict[int, StoreProblem] = field(default_factory=dict)
    gpus: float = 0.0
    nodes: tuple[str, ...] = ("n1",)
    unusable: frozenset[str] = frozenset()
    memory: Mapping[int, tuple[int, str]] = field(default_factory=dict)
    bad_nodes: frozenset[str] = frozenset()
