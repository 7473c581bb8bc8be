"""What a template may not say is refused with its path and the remedy, and what a trial gets that says nothing."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from e2e.devcluster import Cluster
from e2e.experiments import EXAMPLES_IMAGE, counter, experiment, store
from e2e.kubernetes import Kubernetes, Object, condition, eventually
from e2e.tests.conftest import make_namespace
from e2e.tests.doors.template_doors import AGENT, DOORS

EXPERIMENTS = "experiments.podtune.dev"


def door(name: str) -> Object:
    """An Experiment that tries one of them."""
    tried = dict(DOORS[name][0])
    annotations = tried.pop("annotations", {})
    template = {"metadata": {"annotations": annotations}, "spec": {"containers": [counter()], **tried}}
    return experiment(name, counter(), trialTemplate=template)


def test_every_door_is_shut_with_the_fields_path_and_the_remedy(namespace: Kubernetes) -> None:
    namespace.apply(*map(door, DOORS))
    stalled = eventually(
        lambda: {e["metadata"]["name"]: condition(e, "Stalled") for e in namespace.list(EXPERIMENTS)},
        lambda conditions: all(c.get("status") == "True" for c in conditions.values()),
        what="all are Stalled",
    )
    said = {name: stalled[name]["message"] for name in DOORS}
    wrong = {
        name: said[name]
        for name, (_, path, remedy) in DOORS.items()
        if not said[name].startswith(f"spec.trialTemplate.{path}: ") or remedy not in said[name]
    }
    assert not wrong
    assert namespace.list("trials.podtune.dev") == []
    assert namespace.list("pods") == []


LOOK = f"""
import os, pathlib, tempfile
from podtune import trial

status = dict(line.split(":\\t", 1) for line in open("/proc/self/status").read().splitlines())
found = {{name: int(status[name], 16) for name in ("CapEff", "CapBnd", "NoNewPrivs", "Seccomp")}}
try:
    os.setuid({AGENT})
    found["became"] = 1
except PermissionError:
    found["became"] = 0
with tempfile.TemporaryDirectory() as directory:
    (pathlib.Path(directory) / "weights").write_bytes(b"w")
    trial.report({{"value": 1.0, "user": os.getuid(), **found}}, checkpoint=directory)
"""


@pytest.fixture
def baseline(cluster: Cluster) -> Iterator[Kubernetes]:
    """A namespace in which root may run."""
    kubernetes = make_namespace(cluster)
    level = "pod-security.kubernetes.io/enforce=baseline"
    cluster.kubectl("label", "namespace", kubernetes.namespace, level, "--overwrite")
    yield kubernetes
    cluster.kubectl("delete", "namespace", kubernetes.namespace, "--wait=false", "--ignore-not-found")


def test_root_gets_no_capability_and_cannot_become_the_agent(cluster: Cluster, baseline: Kubernetes) -> None:
    silent = {"name": "trial", "image": EXAMPLES_IMAGE, "command": ["python3", "-c", LOOK]}
    keeping = silent | {"securityContext": {"capabilities": {"drop": ["NET_RAW"]}}}
    for name, container in (("silent", silent), ("keeping", keeping)):
        template = {"spec": {"securityContext": {"runAsUser": 0}, "containers": [container]}}
        search = {"algorithm": "random", "maxTrials": 1, "seed": 1}
        checkpoints = {"store": store(cluster)}
        baseline.apply(experiment(name, container, checkpoints=checkpoints, search=search, trialTemplate=template))
    seen = {}
    for name in ("silent", "keeping"):
        baseline.wait_for_condition(EXPERIMENTS, name, "Complete")
        status = baseline.get("trials.podtune.dev", f"{name}-0")["status"]
        assert status["checkpoints"], "the agent reads what root has written"
        seen[name] = {key: float(value) for key, value in status["lastResult"].items()}
    nothing = {"user": 0, "CapEff": 0, "CapBnd": 0, "NoNewPrivs": 1, "Seccomp": 2, "became": 0}
    assert nothing.items() <= seen["silent"].items()
    assert seen["keeping"]["CapEff"] > 0
    assert (seen["keeping"]["user"], seen["keeping"]["became"]) == (0, 0)
