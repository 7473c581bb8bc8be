"""What a template may not say is refused with its path and the remedy, and what a trial gets that says nothing."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from e2e.devcluster import Cluster
from e2e.experiments import EXAMPLES_IMAGE, RESTRICTED, counter, experiment, store
from e2e.install import DENIED_SECRET
from e2e.kubernetes import Kubernetes, Object, condition, eventually
from e2e.tests.conftest import make_namespace

EXPERIMENTS = "experiments.podtune.dev"
AGENT = 60532
DOORS: dict[str, tuple[Object, str, str]] = {
    "alias-of-the-operator": (
        {"hostAliases": [{"ip": "127.0.0.1", "hostnames": ["podtune-results.podtune-system.svc"]}]},
        "spec.hostAliases[0].hostnames[0]",
        "remove it",
    ),
    "alias": (
        {"hostAliases": [{"ip": "127.0.0.1", "hostnames": ["data.example.com"]}]},
        "spec.hostAliases[0].hostnames[0]",
        "allowedHostAliases",
    ),
    "no-cluster-dns": ({"dnsPolicy": "None"}, "spec.dnsPolicy", "leave it out"),
    "name-server": ({"dnsConfig": {"nameservers": ["10.0.0.9"]}}, "spec.dnsConfig.nameservers", "remove it"),
    "search-domain": ({"dnsConfig": {"searches": ["evil.example"]}}, "spec.dnsConfig.searches", "remove it"),
    "priority": ({"priorityClassName": "system-node-critical"}, "spec.priorityClassName", "allowedPriorityClasses"),
    "every-taint": ({"tolerations": [{"operator": "Exists"}]}, "spec.tolerations[0]", "allowedTolerations"),
    "system-node": (
        {"tolerations": [{"key": "node-role.kubernetes.io/control-plane", "operator": "Exists"}]},
        "spec.tolerations[0]",
        "allowedTolerations",
    ),
    "user-of-the-agent": ({"securityContext": {"runAsUser": AGENT}}, "spec.securityContext.runAsUser", "choose"),
    "group-of-the-agent": ({"securityContext": {"fsGroup": AGENT}}, "spec.securityContext.fsGroup", "choose"),
    "container-of-the-agent": (
        {"containers": [counter(securityContext=RESTRICTED | {"runAsUser": AGENT})]},
        "spec.containers[0].securityContext.runAsUser",
        "choose",
    ),
    "denied-secret": (
        {"containers": [counter(envFrom=[{"secretRef": {"name": DENIED_SECRET}}])]},
        "spec.containers[0].envFrom[0].secretRef.name",
        "deniedSecrets",
    ),
    "apparmor": (
        {"annotations": {"container.apparmor.security.beta.kubernetes.io/podtune-agent": "unconfined"}},
        "metadata.annotations",
        "allowedAnnotationDomains",
    ),
    "device": ({"annotations": {"cdi.k8s.io/gpu": "nvidia.com/gpu=all"}}, "metadata.annotations", "remove it"),
    "network": ({"annotations": {"k8s.v1.cni.cncf.io/networks": "other"}}, "metadata.annotations", "remove it"),
    "runtime": ({"annotations": {"io.katacontainers.config.runtime.x": "y"}}, "metadata.annotations", "remove it"),
    "network-of-the-node": ({"hostNetwork": True}, "spec.hostNetwork", "leave it out"),
    "processes-of-the-node": ({"hostPID": True}, "spec.hostPID", "leave it out"),
    "processes-of-the-agent": ({"shareProcessNamespace": True}, "spec.shareProcessNamespace", "leave it out"),
    "node": ({"nodeName": "n1"}, "spec.nodeName", "remove the field"),
    "account": ({"serviceAccountName": "admin"}, "spec.serviceAccountName", "allowedServiceAccounts"),
    "token": ({"automountServiceAccountToken": True}, "spec.automountServiceAccountToken", "leave it out"),
    "projected-token": (
        {"volumes": [{"name": "v", "projected": {"sources": [{"serviceAccountToken": {"path": "token"}}]}}]},
        "spec.volumes[0].projected.sources[0].serviceAccountToken",
        "remove the field",
    ),
    "files-of-the-node": (
        {"volumes": [{"name": "v", "hostPath": {"path": "/"}}]},
        "spec.volumes[0].hostPath",
        "remove the field",
    ),
    "volume-of-a-driver": (
        {"volumes": [{"name": "v", "csi": {"driver": "d"}}]},
        "spec.volumes[0].csi",
        "remove the field",
    ),
    "system-call-filter": (
        {"securityContext": {"seccompProfile": {"type": "Unconfined"}}},
        "spec.securityContext.seccompProfile.type",
        "leave it out",
    ),
    "kernel-settings": (
        {"securityContext": {"sysctls": [{"name": "kernel.msgmax", "value": "1"}]}},
        "spec.securityContext.sysctls",
        "remove the field",
    ),
    "privileged": (
        {"containers": [counter(securityContext=RESTRICTED | {"privileged": True})]},
        "spec.containers[0].securityContext.privileged",
        "leave it out",
    ),
    "capability": (
        {"containers": [counter(securityContext=RESTRICTED | {"capabilities": {"add": ["NET_ADMIN"]}})]},
        "spec.containers[0].securityContext.capabilities.add",
        "remove it",
    ),
    "bare-proc": (
        {"containers": [counter(securityContext=RESTRICTED | {"procMount": "Unmasked"})]},
        "spec.containers[0].securityContext.procMount",
        "remove the field",
    ),
    "port-of-the-node": (
        {"containers": [counter(ports=[{"containerPort": 80, "hostPort": 80}])]},
        "spec.containers[0].ports[0].hostPort",
        "remove the field",
    ),
    "probe-of-another-host": (
        {"containers": [counter(livenessProbe={"httpGet": {"host": "10.0.0.1", "port": 80}})]},
        "spec.containers[0].livenessProbe.httpGet.host",
        "remove the field",
    ),
    "name-of-the-agent": (
        {"containers": [counter() | {"name": "podtune-agent"}]},
        "spec.containers[0].name",
        "rename it",
    ),
    "settings-of-the-agent": (
        {"containers": [counter({"PODTUNE_STORE": "{}"})]},
        "spec.containers[0].env[0].name",
        "rename it",
    ),
    "place-of-the-agent": (
        {
            "volumes": [{"name": "v", "emptyDir": {}}],
            "containers": [counter(volumeMounts=[{"name": "v", "mountPath": "/podtune"}])],
        },
        "spec.containers[0].volumeMounts[0].mountPath",
        "mount it elsewhere",
    ),
}


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
