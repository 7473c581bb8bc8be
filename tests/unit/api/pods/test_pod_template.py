from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from podtune.api.base import FieldError
from podtune.api.pods.pod_template import (
    check_annotations,
    check_claim_references,
    check_labels,
    check_pod_spec,
    check_secret_references,
    find_trial_container,
)


def _pod(container: dict[str, Any] | None = None, **pod: Any) -> dict[str, Any]:
    return {"containers": [{"name": "trial", "image": "digits:1"} | (container or {})]} | pod


def _refused(spec: dict[str, Any]) -> FieldError:
    with pytest.raises(FieldError) as refused:
        check_pod_spec(spec)
    return refused.value


RESTRICTED = {
    "allowPrivilegeEscalation": False,
    "capabilities": {"drop": ["ALL"]},
    "readOnlyRootFilesystem": True,
    "runAsNonRoot": True,
    "seccompProfile": {"type": "RuntimeDefault"},
}


def test_a_full_training_pod_is_allowed() -> None:
    check_pod_spec(
        _pod(
            {
                "command": ["python", "train.py"],
                "env": [
                    {"name": "LR", "value": "$(PODTUNE_PARAM_lr)"},
                    {"name": "TOKEN", "valueFrom": {"secretKeyRef": {"name": "mine", "key": "token"}}},
                ],
                "envFrom": [{"configMapRef": {"name": "settings"}}],
                "resources": {"limits": {"nvidia.com/gpu": 1}},
                "volumeMounts": [{"name": "data", "mountPath": "/data"}, {"name": "data", "mountPath": "/podtunes"}],
                "securityContext": RESTRICTED,
                "livenessProbe": {"exec": {"command": ["true"]}, "periodSeconds": 10},
                "lifecycle": {"preStop": {"sleep": {"seconds": 1}}},
            },
            initContainers=[{"name": "proxy", "image": "proxy:1", "restartPolicy": "Always"}],
            volumes=[
                {"name": "data", "persistentVolumeClaim": {"claimName": "data"}},
                {"name": "shm", "emptyDir": {"medium": "Memory"}},
                {"name": "mixed", "projected": {"sources": [{"secret": {"name": "mine"}}]}},
                {"name": "scratch", "ephemeral": {"volumeClaimTemplate": {"spec": {}}}},
            ],
            restartPolicy="Never",
            automountServiceAccountToken=False,
            hostUsers=False,
            nodeSelector={"gpu": "a100"},
            tolerations=[{"key": "nvidia.com/gpu", "operator": "Exists", "effect": "NoSchedule"}],
            imagePullSecrets=[{"name": "registry"}],
            securityContext={"fsGroup": 1000, "seccompProfile": {"type": "RuntimeDefault"}},
            terminationGracePeriodSeconds=60,
            dnsPolicy="ClusterFirst",
            dnsConfig={"options": [{"name": "ndots", "value": "2"}, {"name": "use-vc"}]},
        )
    )


@pytest.mark.parametrize(
    ("spec", "path"),
    [
        (_pod(hostNetwork=True), "hostNetwork"),
        (_pod(hostPID=True), "hostPID"),
        (_pod(hostIPC=True), "hostIPC"),
        (_pod(hostUsers=True), "hostUsers"),
        (_pod(shareProcessNamespace=True), "shareProcessNamespace"),
        (_pod(automountServiceAccountToken=True), "automountServiceAccountToken"),
        (_pod(serviceAccountName="admin"), "serviceAccountName"),
        (_pod(serviceAccount="admin"), "serviceAccount"),
        (_pod(nodeName="n1"), "nodeName"),
        (_pod(ephemeralContainers=[]), "ephemeralContainers"),
        (_pod(restartPolicy="Always"), "restartPolicy"),
        (_pod(volumes=[{"name": "v", "hostPath": {"path": "/"}}]), "volumes[0].hostPath"),
        (_pod(volumes=[{"name": "v", "csi": {"driver": "d"}}]), "volumes[0].csi"),
        (_pod(volumes=[{"name": "v", "nfs": {"server": "s"}}]), "volumes[0].nfs"),
        (_pod(volumes=[{"name": "podtune-inputs", "emptyDir": {}}]), "volumes[0].name"),
        (
            _pod(volumes=[{"name": "v", "projected": {"sources": [{"serviceAccountToken": {}}]}}]),
            "volumes[0].projected.sources[0].serviceAccountToken",
        ),
        (_pod(securityContext={"sysctls": [{"name": "kernel.msgmax"}]}), "securityContext.sysctls"),
        (_pod(securityContext={"seccompProfile": {"type": "Unconfined"}}), "securityContext.seccompProfile.type"),
        (_pod({"name": "podtune-agent"}), "containers[0].name"),
        (_pod(dnsPolicy="None"), "dnsPolicy"),
        (_pod(dnsPolicy="Default"), "dnsPolicy"),
        (_pod(dnsConfig={"nameservers": ["10.0.0.9"]}), "dnsConfig.nameservers"),
        (_pod(dnsConfig={"searches": ["evil.example"]}), "dnsConfig.searches"),
        (_pod(dnsConfig={"options": [{"name": "ndots:1\nnameserver 10.0.0.9"}]}), "dnsConfig.options[0].name"),
        (
            _pod(dnsConfig={"options": [{"name": "ndots", "value": "1\nnameserver 10.0.0.9"}]}),
            "dnsConfig.options[0].value",
        ),
        (_pod(securityContext={"runAsUser": 60532}), "securityContext.runAsUser"),
        (_pod(securityContext={"runAsGroup": 60532}), "securityContext.runAsGroup"),
        (_pod(securityContext={"fsGroup": 60532}), "securityContext.fsGroup"),
        (_pod(securityContext={"supplementalGroups": [1, 60532]}), "securityContext.supplementalGroups[1]"),
        (_pod({"securityContext": {"runAsUser": 60532}}), "containers[0].securityContext.runAsUser"),
        (_pod({"securityContext": {"runAsGroup": 60532.0}}), "containers[0].securityContext.runAsGroup"),
        (
            _pod(initContainers=[{"name": "i", "image": "i", "securityContext": {"runAsUser": 60532}}]),
            "initContainers[0].securityContext.runAsUser",
        ),
        (
            _pod({"securityContext": {"capabilities": {"drop": "ALL"}}}),
            "containers[0].securityContext.capabilities.drop",
        ),
        (_pod({"restartPolicy": "Always"}), "containers[0].restartPolicy"),
        (_pod({"ports": [{"containerPort": 80, "hostPort": 80}]}), "containers[0].ports[0].hostPort"),
        (_pod({"env": [{"name": "PODTUNE_STORE", "value": "{}"}]}), "containers[0].env[0].name"),
        (_pod({"envFrom": [{"prefix": "PODTUNE_", "configMapRef": {}}]}), "containers[0].envFrom[0].prefix"),
        (_pod({"livenessProbe": {"httpGet": {"host": "10.0.0.1"}}}), "containers[0].livenessProbe.httpGet.host"),
        (
            _pod({"lifecycle": {"preStop": {"tcpSocket": {"host": "h"}}}}),
            "containers[0].lifecycle.preStop.tcpSocket.host",
        ),
        (_pod({"securityContext": {"privileged": True}}), "containers[0].securityContext.privileged"),
        (_pod({"securityContext": {"procMount": "Unmasked"}}), "containers[0].securityContext.procMount"),
        (
            _pod({"securityContext": {"allowPrivilegeEscalation": True}}),
            "containers[0].securityContext.allowPrivilegeEscalation",
        ),
        (
            _pod({"securityContext": {"capabilities": {"add": ["NET_ADMIN"]}}}),
            "containers[0].securityContext.capabilities.add",
        ),
        (
            _pod({"volumeMounts": [{"name": "v", "mountPath": "/x", "mountPropagation": "Bidirectional"}]}),
            "containers[0].volumeMounts[0].mountPropagation",
        ),
        (
            _pod(initContainers=[{"name": "i", "image": "i", "securityContext": {"privileged": True}}]),
            "initContainers[0].securityContext.privileged",
        ),
        (_pod(initContainers=[{"name": "trial", "image": "i"}]), "containers[0].name"),
        ({"containers": [{"name": "trial"}]}, "containers[0].image"),
        ({"containers": []}, "containers"),
        ({"containers": "trial"}, "containers"),
        ({"containers": [5]}, "containers[0]"),
        (_pod(aFieldOfKubernetes2030=True), "aFieldOfKubernetes2030"),
    ],
)
def test_what_reaches_out_of_the_pod_is_refused_by_its_path(spec: dict[str, Any], path: str) -> None:
    refused = _refused(spec)
    assert refused.path == path
    assert ";" in refused.problem, "a remedy follows the semicolon"


@pytest.mark.parametrize(
    "mounted", ["/podtune", "/podtune/", "//podtune", "/podtune/checkpoints", "/", "/data/../podtune", "podtune"]
)
def test_nothing_is_mounted_at_below_or_above_the_shared_directory(mounted: str) -> None:
    refused = _refused(_pod({"volumeMounts": [{"name": "data", "mountPath": mounted}]}))
    assert refused.path == "containers[0].volumeMounts[0].mountPath"


@pytest.mark.parametrize("falsehood", ["false", 0, None])
def test_only_a_real_false_passes_for_one(falsehood: object) -> None:
    spec = _pod({"securityContext": {"privileged": falsehood}})
    if falsehood is None:
        check_pod_spec(spec)  # as if it were left out
    else:
        assert _refused(spec).path == "containers[0].securityContext.privileged"


@pytest.mark.parametrize(
    ("spec", "path"),
    [
        (
            _pod({"env": [{"name": "K", "valueFrom": {"secretKeyRef": {"name": "s3"}}}]}),
            "containers[0].env[0].valueFrom.secretKeyRef.name",
        ),
        (_pod({"envFrom": [{"secretRef": {"name": "s3"}}]}), "containers[0].envFrom[0].secretRef.name"),
        (
            _pod(initContainers=[{"name": "i", "envFrom": [{"secretRef": {"name": "s3"}}]}]),
            "initContainers[0].envFrom[0].secretRef.name",
        ),
        (_pod(volumes=[{"name": "v", "secret": {"secretName": "s3"}}]), "volumes[0].secret.secretName"),
        (
            _pod(volumes=[{"name": "v", "projected": {"sources": [{"secret": {"name": "s3"}}]}}]),
            "volumes[0].projected.sources[0].secret.name",
        ),
        (_pod(imagePullSecrets=[{"name": "s3"}]), "imagePullSecrets[0].name"),
    ],
)
def test_a_trial_cant_see_the_stores_credentials(spec: dict[str, Any], path: str) -> None:
    with pytest.raises(FieldError) as refused:
        check_secret_references(spec, "s3")
    assert refused.value.path == f"trialTemplate.spec.{path}"
    check_secret_references(spec, "another")


def test_a_trial_cant_mount_the_stores_volume() -> None:
    spec = _pod(volumes=[{"name": "a", "emptyDir": {}}, {"name": "v", "persistentVolumeClaim": {"claimName": "ours"}}])
    with pytest.raises(FieldError) as refused:
        check_claim_references(spec, "ours")
    assert refused.value.path == "trialTemplate.spec.volumes[1].persistentVolumeClaim.claimName"
    check_claim_references(spec, "another")


@pytest.mark.parametrize(
    "key", ["podtune.dev/trial", "x.podtune.dev/y", "app.kubernetes.io/managed-by", "a b", "/a", ""]
)
@pytest.mark.parametrize(("check", "field"), [(check_labels, "labels"), (check_annotations, "annotations")])
def test_the_operators_own_keys_and_broken_ones_are_refused(
    check: Callable[[dict[str, str]], None], field: str, key: str
) -> None:
    with pytest.raises(FieldError, match=field):
        check({key: "x"})


def test_ordinary_labels_are_taken() -> None:
    check_labels({"team": "vision", "kueue.x-k8s.io/queue-name": "gpus", "notpodtune.dev/x": ""})


def test_the_training_container_is_the_one_named_trial_or_the_first() -> None:
    assert find_trial_container({"containers": [{"name": "proxy"}, {"name": "trial"}]}) == "trial"
    assert find_trial_container({"containers": [{"name": "main"}, {"name": "proxy"}]}) == "main"
