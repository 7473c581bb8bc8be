"""The experiments that are disturbed: small, quick, and each with an end that follows from its manifest alone."""

from __future__ import annotations

from dataclasses import replace

from e2e.chaos.pods.user_requests import CONTAINER, Ask, UserRequest
from e2e.chaos.scenarios.scenario import TEMPLATE, Object, Scenario
from podtune.simulation.faults import Fault, ScheduledFault

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
        Scenario(
            "edited",
            step_seconds=0.4,
            checkpoint_every=1,
            agent_bytes=20_000,
            segment_seconds=0.4,
            snapshot_period="5s",
            requests=(UserRequest(Ask.EDIT, 0, 1),),
            spec={**TWO, "maxConcurrentTrials": 1},
        ),
        Scenario(
            "enough",
            steps=2,
            spec={
                "maxConcurrentTrials": 1,
                "search": {"algorithm": "random", "maxTrials": 6, "seed": 7},
                "stop": {"experiment": [{"plugin": {"name": "total", "settings": {"limit": 0.9}}}]},  # three make that
            },
            same_end=False,  # whether one more trial has begun when the third one's end is known
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
