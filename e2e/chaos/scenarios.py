"""The experiments that are disturbed: small, quick, and each with an end that follows from its manifest alone."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from typing import Any

from e2e.chaos.pods.user_requests import CONTAINER, Ask, UserRequest
from e2e.devcluster.node.kwok import PLAYED
from podtune.simulation.faults import Fault, ScheduledFault

Object = dict[str, Any]


FAILURES = (Fault.CRASH, Fault.OOM, Fault.DISK_FULL)
"""Those that are the program's own, and count."""


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


TEMPLATE: Object = {
    "spec": {
        "containers": [CONTAINER],
        "nodeSelector": {PLAYED: "true"},
        "tolerations": [{"key": "kwok.x-k8s.io/node", "value": "fake", "effect": "NoSchedule"}],
        "terminationGracePeriodSeconds": 30,
    },
}


LIMITED: Object = {
    "spec": {**TEMPLATE["spec"], "containers": [{**CONTAINER, "resources": {"limits": {"memory": "64Mi"}}}]}
}
BROKEN_IMAGE = "localhost/none:1"
"""No node finds it."""
BROKEN: Object = {"spec": {**TEMPLATE["spec"], "containers": [{**CONTAINER, "image": BROKEN_IMAGE}]}}
ROLES: Object = {
    "roles": [{"name": "driver", "template": TEMPLATE}, {"name": "worker", "replicas": 2, "template": TEMPLATE}]
}
TWO = {"search": {"algorithm": "random", "maxTrials": 2, "seed": 7}}
ASHA = {"asha": {"maxTime": 4, "gracePeriod": 1, "reductionFactor": 2}}
PROMOTION = {"ashaPromotion": {"maxTime": 4, "gracePeriod": 1, "reductionFactor": 2}}
DISCARDING: Object = {
    "objective": {"metric": "value", "mode": "min"},  # each trial is worse than the one before
    "checkpoints": {"keep": {"count": 2, "stopped": 0}},
    "maxConcurrentTrials": 1,
}
"""All trials but the first are stopped, and none of those keeps a checkpoint."""
SCENARIOS = {
    scenario.name: scenario
    for scenario in (
        Scenario("plain"),
        Scenario("lasting", steps=5, step_seconds=0.6),  # longer than it takes to write that a trial runs
        Scenario(
            "mixed",
            checkpoint_every=1,
            faults={0: (ScheduledFault(Fault.CRASH, 2),), 1: (ScheduledFault(Fault.EVICTED, 1),)},
        ),
        Scenario(
            "crashing",  # an evicted pod may be gone before anybody reads its log
            checkpoint_every=1,
            faults={0: (ScheduledFault(Fault.CRASH, 2),), 1: (ScheduledFault(Fault.CRASH, 1),)},
            spec=TWO,
        ),
        Scenario(
            "asha",
            steps=4,
            spec={
                "scheduler": ASHA,
                "maxConcurrentTrials": 1,
                "search": {"algorithm": "random", "maxTrials": 4, "seed": 7},
            },
        ),
        Scenario(
            "promotion",
            steps=4,
            checkpoint_every=1,
            spec={
                "scheduler": PROMOTION,
                "maxConcurrentTrials": 1,
                "search": {"algorithm": "random", "maxTrials": 3, "seed": 7},
            },
        ),
        Scenario(
            "zombie",
            steps=5,
            step_seconds=0.4,
            checkpoint_every=1,
            waits=False,
            faults={0: (ScheduledFault(Fault.VANISHED, 2),)},
        ),
        Scenario(
            "trapped",
            checkpoint_every=1,
            faults={0: (ScheduledFault(Fault.TRAPPED, 2),), 2: (ScheduledFault(Fault.OOM, 1),)},
        ),
        Scenario(
            "stored",
            steps=5,
            step_seconds=0.6,
            checkpoint_every=1,
            agent_bytes=200_000,
            faults={0: (ScheduledFault(Fault.CRASH, 3),)},
            spec={"search": {"algorithm": "random", "maxTrials": 2, "seed": 7}},
        ),
        Scenario(
            "kept",
            steps=6,
            step_seconds=0.5,
            checkpoint_every=1,
            agent_bytes=200_000,
            segment_seconds=0.4,
            faults={0: (ScheduledFault(Fault.CRASH, 4),)},
            spec={"logs": {"keep": "1Mi"}, "search": {"algorithm": "random", "maxTrials": 2, "seed": 7}},
        ),
        Scenario(
            "large",
            steps=2,
            step_seconds=1.5,
            checkpoint_every=1,
            agent_bytes=65 << 20,  # so that it is sent in parts
            faults={0: (ScheduledFault(Fault.CRASH, 1),)},
            spec={"search": {"algorithm": "random", "maxTrials": 1, "seed": 7}},
        ),
        Scenario(
            "full",
            step_seconds=0.6,
            checkpoint_every=1,
            agent_bytes=200_000,
            volume_bytes=4 << 20,
            faults={0: (ScheduledFault(Fault.DISK_FULL, 2),)},
            spec={"search": {"algorithm": "random", "maxTrials": 1, "seed": 7}},
        ),
        Scenario(
            "draining",
            checkpoint_every=1,
            waits=False,
            upload_seconds=1.5,
            faults={0: (ScheduledFault(Fault.CRASH, 2),), 1: (ScheduledFault(Fault.EVICTED, 2),)},
        ),
        Scenario(
            "cut-short",
            checkpoint_every=1,
            waits=False,
            stuck={0: (2,), 1: (3,)},
            drain="3s",
            faults={0: (ScheduledFault(Fault.CRASH, 2),)},
        ),
        Scenario(
            "saved",
            steps=2,
            step_seconds=0.6,
            checkpoint_every=2,
            waits=False,
            agent_bytes=200_000,
            spec={"search": {"algorithm": "random", "maxTrials": 1, "seed": 7}},
        ),
        Scenario(
            "hasty",
            steps=2,
            step_seconds=0.6,
            checkpoint_every=2,
            waits=False,
            agent_bytes=200_000,
            drain="3s",
            spec={"search": {"algorithm": "random", "maxTrials": 1, "seed": 7}},
            same_end=False,  # the outage outlasts what its agent has
        ),
        Scenario(
            "stopped",
            steps=4,
            step_seconds=0.6,
            look_seconds=2.0,
            checkpoint_every=1,
            waits=False,
            agent_bytes=200_000,
            spec={"stop": {"metrics": {"training_iteration": 2}}, "search": {"algorithm": "random", "maxTrials": 1}},
            same_end=False,  # how far it comes until it hears of the stop
        ),
        Scenario(
            "paused",
            steps=2,
            step_seconds=0.6,
            look_seconds=2.0,
            checkpoint_every=1,
            waits=False,
            agent_bytes=200_000,
            spec={
                "scheduler": {"ashaPromotion": {"maxTime": 2, "gracePeriod": 1, "reductionFactor": 2}},
                "maxConcurrentTrials": 1,
                "search": {"algorithm": "random", "maxTrials": 2, "seed": 7},
            },
            same_end=False,  # how far they come until they hear of the pause
        ),
        Scenario(
            "discarding",
            steps=4,
            checkpoint_every=1,
            stuck={2: (2,)},  # a stop that waited for it would not come to an end
            spec={
                **DISCARDING,
                "scheduler": {"asha": {"maxTime": 4, "gracePeriod": 2, "reductionFactor": 2}},
                "search": {"algorithm": "random", "maxTrials": 4, "seed": 7},
            },
        ),
        Scenario(
            "discarded",
            steps=3,
            step_seconds=0.6,
            look_seconds=2.0,
            checkpoint_every=1,
            waits=False,
            agent_bytes=200_000,
            spec={
                **DISCARDING,
                "scheduler": {"asha": {"maxTime": 3, "gracePeriod": 2, "reductionFactor": 2}},
                "search": {"algorithm": "random", "maxTrials": 2, "seed": 7},
            },
            same_end=False,  # how far they come until they hear of the stop
        ),
        Scenario("retried", steps=4, checkpoint_every=1, requests=(UserRequest(Ask.RETRY, 0, 2),), spec=TWO),
        Scenario("returned", steps=5, checkpoint_every=1, requests=(UserRequest(Ask.RETURN, 0, 3, 2),), spec=TWO),
        Scenario("asked", steps=4, checkpoint_every=9, requests=(UserRequest(Ask.CHECKPOINT, 0, 2),), spec=TWO),
        Scenario(
            "changed",
            checkpoint_every=1,
            faults={0: (ScheduledFault(Fault.CRASH, 2),)},
            requests=(UserRequest(Ask.TEMPLATE, 0, 1),),
            spec={**TWO, "maxConcurrentTrials": 1},
        ),
        Scenario(
            "mended",
            requests=(UserRequest(Ask.IMAGE, 0, 0),),
            spec={**TWO, "maxConcurrentTrials": 1, "trialTemplate": BROKEN},
        ),
        Scenario("grown", requests=(UserRequest(Ask.INITIAL, 0, 1),), spec={"maxConcurrentTrials": 1}),
        Scenario(
            "limited",
            checkpoint_every=1,
            faults={0: (ScheduledFault(Fault.CRASH, 2),)},
            requests=(UserRequest(Ask.LIMITS, 0, 1),),
            spec=TWO,
        ),
        Scenario(
            "helped",
            checkpoint_every=1,
            faults={0: (ScheduledFault(Fault.OOM, 1),)},
            spec={
                **TWO,
                "failures": {
                    "maxFailures": 3,
                    "backoff": {"initial": "1s", "max": "2s"},
                    "outOfMemory": {"raiseMemoryBy": 1.5, "upTo": "1Gi"},
                },
                "trialTemplate": LIMITED,
            },
        ),
        Scenario(
            "gang",
            checkpoint_every=1,
            faults={0: (ScheduledFault(Fault.CRASH, 2, rank=1),), 1: (ScheduledFault(Fault.EVICTED, 1),)},
            spec={**TWO, "trialTemplate": ROLES, "checkpoints": {"ranks": "RankZero"}},
        ),
        Scenario(
            "evaluated",
            checkpoint_every=1,
            evaluation_faults={0: (ScheduledFault(Fault.CRASH),), 1: (ScheduledFault(Fault.EVICTED),)},
            spec={
                **TWO,
                "objective": {"metric": "score", "mode": "max"},
                "evaluation": {
                    "template": {"spec": TEMPLATE["spec"]},
                    "trainingObjective": {"metric": "value", "mode": "max"},
                },
            },
        ),
        Scenario(
            "added",
            requests=(UserRequest(Ask.ADD_WRONG, 0, 1), UserRequest(Ask.ADD, 0, 2)),
            spec={
                "maxConcurrentTrials": 1,
                "search": {"algorithm": "tpe", "maxTrials": 3, "seed": 7, "tpe": {"startupTrials": 1}},
            },
        ),
        Scenario(
            "recorded",
            steps=5,
            step_seconds=0.5,
            checkpoint_every=1,
            agent_bytes=20_000,
            segment_seconds=0.4,
            snapshot_period="5s",
            faults={2: (ScheduledFault(Fault.CRASH, 3),)},
            spec={
                "maxConcurrentTrials": 1,
                "search": {"algorithm": "tpe", "maxTrials": 3, "seed": 7, "tpe": {"startupTrials": 1}},
            },
        ),
        Scenario("flowing", steps=12, step_seconds=0.1, waits=False, spec={"maxConcurrentTrials": 3}),
    )
}
ON_VOLUMES = ("stored", "kept", "large", "saved", "hasty", "stopped", "paused", "discarded", "recorded")
"""Scenarios with a real agent that there is also with a volume in the bucket's place: `stored-on-volume`."""
SCENARIOS |= {
    scenario.name: scenario
    for scenario in (replace(SCENARIOS[name], name=f"{name}-on-volume", on_volume=True) for name in ON_VOLUMES)
}
