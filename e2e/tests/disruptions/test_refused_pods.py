"""Templates whose pods the API server refuses: one try, its words in one condition, and on with it after the mend.

A template that says nothing of root is made again so that it may not run as root, where that alone was refused.
"""

from __future__ import annotations

import json
from typing import Any

import pytest

from e2e.devcluster import Cluster
from e2e.experiments import Object, counter, experiment
from e2e.kubernetes import Kubernetes, condition, eventually

EXPERIMENTS, TRIALS = "experiments.podtune.dev", "trials.podtune.dev"
SMALL = {"requests": {"cpu": "10m", "memory": "32Mi"}}
CONTAINER = "spec.trialTemplate.spec.containers[0]"
VOLUME = {"volumes": [{"name": "data", "emptyDir": {}}]}
MOUNT = {"name": "data", "mountPath": "/data"}
REFUSED: dict[str, tuple[Object, Object, tuple[str, ...]]] = {
    "unfit": (
        {"securityContext": {"runAsNonRoot": False}},
        {},
        (
            'violates PodSecurity "restricted',
            'container "trial" must not set securityContext.runAsNonRoot=false',
            "label pod-security.kubernetes.io/enforce",
        ),
    ),
    "nowhere": (
        {},
        {
            "affinity": {
                "nodeAffinity": {
                    "requiredDuringSchedulingIgnoredDuringExecution": {
                        "nodeSelectorTerms": [{"matchExpressions": [{"key": "zone", "operator": "In", "values": []}]}]
                    }
                }
            }
        },
        ("spec.affinity.nodeAffinity", "matchExpressions[0].values", "correct spec.trialTemplate"),
    ),
    "classless": ({}, {"runtimeClassName": "no-such-class"}, ('RuntimeClass "no-such-class" not found',)),
}
"""By name: what is wrong with container and pod, and what the condition has to say."""


def refused(name: str, **changes: Any) -> Object:
    """An Experiment of eight trials, three at once."""
    container, pod, _ = REFUSED[name]
    template = {"spec": {"containers": [counter(**{"resources": SMALL, **container})], **pod}}
    search = {"algorithm": "random", "maxTrials": 8, "seed": 1}
    return experiment(
        name, counter(), search=search, maxConcurrentTrials=3, trialTemplate=template, failures={}, **changes
    )


def tries(cluster: Cluster, namespace: str) -> list[str]:
    """Names of all pods that the API server was asked to make in a namespace, dry runs aside, from the audit log."""
    with cluster.audit_log.open() as lines:
        events = [json.loads(line) for line in lines if namespace in line]
    return [
        event["objectRef"].get("name", "")
        for event in events
        if event["stage"] == "ResponseComplete"
        and event["verb"] == "create"
        and event.get("objectRef", {}).get("resource") == "pods"
        and event["objectRef"].get("namespace") == namespace
        and "subresource" not in event["objectRef"]
        and "dryRun" not in event["requestURI"]
    ]


@pytest.mark.every_version
def test_a_refusal_holds_the_experiment_after_one_try_until_it_is_mended(
    cluster: Cluster, namespace: Kubernetes
) -> None:
    namespace.apply(*map(refused, REFUSED))
    stalled = eventually(
        lambda: {e["metadata"]["name"]: condition(e, "Stalled") for e in namespace.list(EXPERIMENTS)},
        lambda found: all(c.get("status") == "True" for c in found.values()),
        what="all are Stalled",
    )
    proposed = len(namespace.list(TRIALS))
    for name, (_, _, words) in REFUSED.items():
        told = stalled[name]
        assert told["reason"] == "PodRefused", told
        assert told["message"].startswith(f"spec.trialTemplate: the API server refuses the pod of {name}-0: "), told
        assert not [word for word in words if word not in told["message"]], told
    tried = [name for name in tries(cluster, namespace.namespace) if name != "unfit-0-1"]
    assert sorted(tried) == sorted(f"{name}-0-1" for name in REFUSED if name != "unfit")
    assert tries(cluster, namespace.namespace).count("unfit-0-1") == 2, "the second one with runAsNonRoot for the pod"
    trials = namespace.list(TRIALS)
    assert len(trials) == proposed < 8 * len(REFUSED), "no further trial is proposed"
    assert not [trial for trial in trials if trial.get("status", {}).get("infrastructureFailures")]
    eventually(
        lambda: sorted(e["involvedObject"]["name"] for e in namespace.list("events") if e["reason"] == "PodRefused"),
        lambda told: told == sorted(REFUSED),
        what="one Event each",
    )

    level = "pod-security.kubernetes.io/enforce=baseline"
    cluster.kubectl("label", "namespace", namespace.namespace, level, "--overwrite")
    namespace.apply(refused("unfit", maxPendingTrials=4))
    namespace.wait_for_condition(EXPERIMENTS, "unfit", "Complete")
    counts = namespace.get(EXPERIMENTS, "unfit")["status"]["trials"]
    assert (counts["terminated"], counts.get("error", 0)) == (8, 0)
    assert condition(namespace.get(EXPERIMENTS, "unfit"), "Stalled")["status"] == "False"
    corrected = refused("nowhere")
    del corrected["spec"]["trialTemplate"]["spec"]["affinity"]
    namespace.apply(corrected)
    namespace.wait_for_condition(EXPERIMENTS, "nowhere", "Complete")


@pytest.mark.every_version
def test_a_template_that_says_nothing_of_root_runs_where_none_may_run_as_root(
    cluster: Cluster, namespace: Kubernetes
) -> None:
    silent = counter(resources=SMALL, securityContext={})
    search = {"algorithm": "random", "maxTrials": 3, "seed": 1}
    template = {"spec": {"containers": [silent]}}
    namespace.apply(experiment("silent", silent, search=search, maxConcurrentTrials=1, trialTemplate=template))
    namespace.wait_for_condition(EXPERIMENTS, "silent", "Complete")
    counts = namespace.get(EXPERIMENTS, "silent")["status"]["trials"]
    assert (counts["terminated"], counts.get("error", 0)) == (3, 0)
    assert tries(cluster, namespace.namespace) == [f"silent-{index}-1" for index in (0, 0, 1, 2)], "one was refused"
    assert not [event for event in namespace.list("events") if event["reason"] == "PodRefused"]


def test_an_image_that_runs_as_root_is_told_of_with_the_remedy(namespace: Kubernetes) -> None:
    rooted = {"name": "trial", "image": "localhost/busybox:1", "imagePullPolicy": "IfNotPresent", "command": ["true"]}
    search = {"algorithm": "random", "maxTrials": 1, "seed": 1}
    failures = {"startDeadline": "20s"}
    namespace.apply(experiment("rooted", rooted, search=search, failures=failures))
    namespace.wait_for_condition(EXPERIMENTS, "rooted", "Failed")
    (trial,) = namespace.list(TRIALS)
    message = trial["status"]["message"]
    assert "image will run as root" in message
    assert "; set spec.trialTemplate.spec.securityContext.runAsUser to a user other than 0, or " in message


def test_what_no_cluster_takes_is_told_before_any_try(cluster: Cluster, namespace: Kubernetes) -> None:
    wrong: dict[str, tuple[Object, Object, str]] = {
        "units": ({"resources": {"limits": {"memory": "256MB"}}}, {}, "resources.limits"),
        "halves": ({"resources": {"limits": {"nvidia.com/gpu": "0.5"}}}, {}, "resources.limits"),
        "requests": ({"resources": {"requests": {"nvidia.com/gpu": "1"}}}, {}, "resources.requests"),
        "widgets": ({"resources": {"limits": {"example.com/widget": "0.5"}}}, {}, "resources.limits"),
        "upwards": ({"volumeMounts": [MOUNT | {"subPath": "../.."}]}, VOLUME, "volumeMounts[0].subPath"),
    }
    for name, (container, pod, _) in wrong.items():
        template = {"spec": {"containers": [counter(**container)], **pod}}
        namespace.apply(experiment(name, counter(), trialTemplate=template))
    stalled = eventually(
        lambda: {e["metadata"]["name"]: condition(e, "Stalled") for e in namespace.list(EXPERIMENTS)},
        lambda found: all(c.get("status") == "True" for c in found.values()),
        what="all are Stalled",
    )
    told = {name: stalled[name]["message"] for name in wrong}
    assert not {n: told[n] for n in wrong if not told[n].startswith(f"{CONTAINER}.{wrong[n][2]}")}
    assert (tries(cluster, namespace.namespace), namespace.list(TRIALS)) == ([], [])
