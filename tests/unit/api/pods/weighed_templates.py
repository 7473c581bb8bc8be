"""Templates, and what an administrator's lists say of them: the operator and the admission policy say the same."""

from __future__ import annotations

from typing import Any

from podtune.api.pods.template_policy import TemplatePolicy

RESULTS = "podtune-results.podtune-system.svc"
POLICY = TemplatePolicy(
    service_accounts=["trainer"],
    priority_classes=["low", "team-*"],
    tolerations=["nvidia.com/gpu", "dedicated=training", "example.com/*"],
    annotation_domains=["kueue.x-k8s.io", "*.example.com"],
    host_aliases=["data.example.com", "*.internal"],
    images=["digits:*", "registry.example.com/*", "pinned@sha256:*"],
    denied_secrets=["bucket", "admin-*"],
    denied_claims=["store-*"],
    results_host=RESULTS,
)


def make_pod(container: dict[str, Any] | None = None, **pod: Any) -> dict[str, Any]:
    return {"containers": [{"name": "trial", "image": "digits:1"} | (container or {})]} | pod


def make_aliases(*names: str) -> dict[str, Any]:
    return make_pod(hostAliases=[{"ip": "10.0.0.1", "hostnames": list(names)}])


def make_secret_user(name: str) -> dict[str, Any]:
    return make_pod({"envFrom": [{"secretRef": {"name": name}}]})


TAKEN: list[dict[str, Any]] = [
    make_pod(serviceAccountName="trainer"),
    make_pod(priorityClassName="low"),
    make_pod(priorityClassName="team-a"),
    make_pod(tolerations=[{"key": "nvidia.com/gpu", "operator": "Exists", "effect": "NoSchedule"}]),
    make_pod(tolerations=[{"key": "dedicated", "operator": "Equal", "value": "training"}]),
    make_pod(tolerations=[{"key": "dedicated", "value": "training"}]),
    make_pod(tolerations=[{"key": "example.com/spot", "operator": "Exists", "tolerationSeconds": 5}]),
    make_aliases("data.example.com", "nas.internal"),
    make_secret_user("mine"),
    make_pod(imagePullSecrets=[{"name": "admin-registry"}]),
    make_pod({"image": "registry.example.com/team/train:1.2"}),
    make_pod({"image": "pinned@sha256:beef"}),
    make_pod(initContainers=[{"name": "fetch", "image": "registry.example.com/fetch"}]),
]

REFUSED: list[tuple[dict[str, Any], str, str]] = [
    (make_pod(serviceAccountName="admin"), "serviceAccountName", "allowedServiceAccounts"),
    (make_pod(priorityClassName="high"), "priorityClassName", "allowedPriorityClasses"),
    (make_pod(priorityClassName="system-node-critical"), "priorityClassName", "allowedPriorityClasses"),
    (make_pod(tolerations=[{"operator": "Exists"}]), "tolerations[0]", "allowedTolerations"),
    (make_pod(tolerations=[{"key": "", "operator": "Exists"}]), "tolerations[0]", "allowedTolerations"),
    (
        make_pod(tolerations=[{"key": "nvidia.com/gpu"}, {"key": "node-role.kubernetes.io/control-plane"}]),
        "tolerations[1]",
        "allowedTolerations",
    ),
    (make_pod(tolerations=[{"key": "dedicated", "value": "team-b"}]), "tolerations[0]", "allowedTolerations"),
    (make_pod(tolerations=[{"key": "dedicated", "operator": "Exists"}]), "tolerations[0]", "allowedTolerations"),
    (make_aliases("data.example.com", "other.example.com"), "hostAliases[0].hostnames[1]", "allowedHostAliases"),
    (
        make_pod(volumes=[{"name": "v", "persistentVolumeClaim": {"claimName": "store-1"}}]),
        "volumes[0].persistentVolumeClaim.claimName",
        "deniedClaims",
    ),
    (make_secret_user("bucket"), "containers[0].envFrom[0].secretRef.name", "deniedSecrets"),
    (
        make_pod({"env": [{"name": "K", "valueFrom": {"secretKeyRef": {"name": "admin-x"}}}]}),
        "containers[0].env[0].valueFrom.secretKeyRef.name",
        "deniedSecrets",
    ),
    (
        make_pod(volumes=[{"name": "v", "secret": {"secretName": "bucket"}}]),
        "volumes[0].secret.secretName",
        "deniedSecrets",
    ),
    (
        make_pod(volumes=[{"name": "v", "projected": {"sources": [{"secret": {"name": "bucket"}}]}}]),
        "volumes[0].projected.sources[0].secret.name",
        "deniedSecrets",
    ),
    (make_pod({"image": "registry.example.org/train:1"}), "containers[0].image", "allowedImages"),
    (make_pod({"image": "evil.example/registry.example.com/train"}), "containers[0].image", "allowedImages"),
    (
        make_pod(initContainers=[{"name": "fetch", "image": "registryXexample.com/fetch"}]),
        "initContainers[0].image",
        "allowedImages",
    ),
]
"""Each with the path of the field, and the setting that would allow it."""
