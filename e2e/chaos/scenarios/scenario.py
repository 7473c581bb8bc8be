"""What an experiment is that is disturbed: its programs, what strikes them, and its manifest."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

from e2e.chaos.pods.user_requests import CONTAINER, UserRequest
from e2e.devcluster.node.kwok import PLAYED
from podtune.simulation.faults import Fault, ScheduledFault

Object = dict[str, Any]

FAILURES = (Fault.CRASH, Fault.OOM, Fault.DISK_FULL)
"""Those that are the program's own, and count."""
TEMPLATE: Object = {
    "spec": {
        "containers": [CONTAINER],
        "nodeSelector": {PLAYED: "true"},
        "tolerations": [{"key": "kwok.x-k8s.io/node", "value": "fake", "effect": "NoSchedule"}],
        "terminationGracePeriodSeconds": 30,
    },
}
"""Of pods that fake nodes play."""


@dataclass(frozen=True)
class Scenario:
    """An experiment.

    Attributes:
        steps: Iterations of a trial.
        step_seconds: How long one takes, about.
        checkpoint_every: A checkpoint is taken every so many iterations; 0 for never.
        waits: Whether the program waits until each result is acknowledged, so that decisions come in one order.
        look_seconds: How long it looks for an instruction after each result, where it does not wait.
        upload_seconds: How long a checkpoint takes to be stored, about, where the agent is simulated.
        stuck: By index of the trial, for its attempts first to last: the iteration from which on no checkpoint comes to
            be stored, or 0.
        drain: How long an agent may go on storing checkpoints once the program has ended.
        faults: By index of the trial, what strikes its attempts, first to last.
        evaluation_faults: By index of the trial, what strikes its evaluations, first to last.
        agent_bytes: Size of a checkpoint's largest file, where the real agent runs; 0 where it is simulated.
        segment_seconds: Seconds between two looks of the real agent at what has changed of results and output; 0 for
            as many as by default.
        snapshot_period: How often the experiment itself is stored, at most; the real agents do it as often as results.
        volume_bytes: Size of the volume that the real agent shares with the program; 0 for as large as there is.
        on_volume: Whether the real agent stores on a volume, and not in a bucket.
        requests: What a person asks meanwhile.
        spec: What the manifest says beside the defaults.
        same_end: Whether every run of it ends the same, decisions included.
    """

    name: str
    steps: int = 3
    step_seconds: float = 0.15
    checkpoint_every: int = 0
    waits: bool = True
    look_seconds: float = 0.0
    upload_seconds: float = 0.1
    stuck: Mapping[int, tuple[int, ...]] = field(default_factory=dict)
    drain: str = "25s"
    agent_bytes: int = 0
    segment_seconds: float = 0.0
    snapshot_period: str = "0s"
    volume_bytes: int = 0
    on_volume: bool = False
    faults: Mapping[int, tuple[ScheduledFault, ...]] = field(default_factory=dict)
    evaluation_faults: Mapping[int, tuple[ScheduledFault, ...]] = field(default_factory=dict)
    requests: tuple[UserRequest, ...] = ()
    spec: Mapping[str, Any] = field(default_factory=dict)
    same_end: bool = True

    @property
    def concurrent(self) -> int:
        """How many trials have a pod at a time, at most."""
        return int(self.spec.get("maxConcurrentTrials", 2))

    @property
    def replicas(self) -> int:
        """How many pods an attempt has."""
        roles: list[Object] = self.spec.get("trialTemplate", TEMPLATE).get("roles") or [{}]
        return sum(int(role.get("replicas", 1)) for role in roles)

    @property
    def trials(self) -> int:
        """How many there will be."""
        proposed = int(self.spec.get("search", {}).get("maxTrials", 3))
        return proposed + sum(request.adds for request in self.requests)

    @property
    def total_limit(self) -> float | None:
        """Where the values of the trials end the experiment; None where no such stopper does."""
        for rule in self.spec.get("stop", {}).get("experiment", ()):
            return float(rule["plugin"]["settings"]["limit"])
        return None

    @property
    def keeps_logs(self) -> bool:
        """Whether what programs print is stored."""
        return bool(self.spec.get("logs"))

    @property
    def keeps_stopped(self) -> bool:
        """Whether a checkpoint is kept of trials that are stopped early."""
        keep: Object = self.spec.get("checkpoints", {}).get("keep", {})
        return bool(keep.get("stopped", 1))

    @property
    def best_of(self) -> Callable[..., Any]:
        """What the best of some values is."""
        mode = self.spec.get("objective", {}).get("mode", "max")
        return min if mode == "min" else max

    @property
    def keeps_snapshots(self) -> bool:
        """Whether the experiment itself is stored."""
        return self.snapshot_period != "0s"

    def failures(self, index: int) -> int:
        """How many failures a trial spends."""
        return sum(fault.kind in FAILURES for fault in self.faults.get(index, ()))

    def evaluation_failures(self, index: int) -> int:
        """How many failures the evaluation of a trial spends."""
        return sum(fault.kind in FAILURES for fault in self.evaluation_faults.get(index, ()))

    def manifest(self, name: str, store: Object | None) -> Object:
        """The Experiment."""
        spec: Object = {
            "objective": {"metric": "value", "mode": "max"},
            "parameters": [{"name": "base", "float": {"min": 0.5, "max": 1.0}}],
            "search": {"algorithm": "random", "maxTrials": 3, "seed": 7},
            "maxConcurrentTrials": 2,
            "failures": {"maxFailures": 3, "backoff": {"initial": "1s", "max": "2s"}},
            "trialTemplate": TEMPLATE,
            **self.spec,
        }
        if store is not None:
            own = self.spec.get("checkpoints", {})
            spec["checkpoints"] = {"store": store, "keep": {"count": 2}, "drain": self.drain, **own}
            spec["snapshot"] = {"period": self.snapshot_period}
        return {"apiVersion": "podtune.dev/v1alpha1", "kind": "Experiment", "metadata": {"name": name}, "spec": spec}
