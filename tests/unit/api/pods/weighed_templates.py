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


STORE = {"kind": "PersistentVolumeClaim", "name": "store-1"}
"""The source of a copy."""


def make_pod(container: dict[str, Any] | None = None, **pod: Any) -> dict[str, Any]:
    return {"containers": [{"name": "trial", "image": "digits:1"} | (container or {})]} | pod


def make_aliases(*names: str) -> dict[str, Any]:
    return make_pod(hostAliases=[{"ip": "10.0.0.1", "hostnames": list(names)}])


def make_secret_user(name: str) -> dict[str, Any]:
    return make_pod({"envFrom": [{"secretRef": {"name": name}}]})


def make_volume(**source: Any) -> dict[str, Any]:
    return make_pod(volumes=[{"name": "v", **source}])


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
    (
        make_volume(ephemeral={"volumeClaimTemplate": {"spec": {"dataSource": STORE}}}),
        "volumes[0].ephemeral.volumeClaimTemplate.spec.dataSource.name",
        "deniedClaims",
    ),
    (
        make_volume(ephemeral={"volumeClaimTemplate": {"spec": {"dataSourceRef": STORE}}}),
        "volumes[0].ephemeral.volumeClaimTemplate.spec.dataSourceRef.name",
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

_PROBE = {"httpGet": {"path": "/", "port": 8080, "scheme": "HTTP", "httpHeaders": []}, "periodSeconds": 5}
_PROFILE = {"type": "RuntimeDefault"}
WHOLE: dict[str, Any] = make_pod(
    {
        "command": ["train"],
        "resizePolicy": None,
        "env": [{"name": "A", "value": "b"}, {"name": "B", "valueFrom": {"fieldRef": {"fieldPath": "metadata.name"}}}],
        "envFrom": [{"prefix": "P_", "configMapRef": {"name": "settings"}}],
        "ports": [{"name": "http", "containerPort": 8080, "protocol": "TCP"}],
        "volumeMounts": [{"name": "v", "mountPath": "/data//./in", "readOnly": True, "subPath": "a"}],
        "livenessProbe": {"exec": {"command": ["true"]}},
        "readinessProbe": _PROBE,
        "startupProbe": {"tcpSocket": {"port": 8080}},
        "lifecycle": {"postStart": {"exec": {"command": ["true"]}}, "preStop": {"sleep": {"seconds": 1}}},
        "securityContext": {
            "allowPrivilegeEscalation": False,
            "privileged": False,
            "capabilities": {"drop": ["ALL"], "add": []},
            "seccompProfile": {"type": "Localhost", "localhostProfile": "p"},
            "runAsUser": 1000,
        },
    },
    initContainers=[{"name": "sidecar", "image": "digits:1", "restartPolicy": "Always", "env": None, "envFrom": None}],
    volumes=[
        {"name": "v", "emptyDir": {}},
        {
            "name": "w",
            "projected": {"defaultMode": 256, "sources": [{"downwardAPI": {}}, {"secret": {"name": "mine"}}]},
        },
    ],
    restartPolicy="Never",
    automountServiceAccountToken=False,
    hostNetwork=None,
    tolerations=None,
    hostAliases=None,
    imagePullSecrets=None,
    schedulingGates=[{"name": "example.com/gate"}],
    securityContext={"fsGroup": 1000, "supplementalGroups": [1001], "seccompProfile": _PROFILE},
    dnsPolicy="ClusterFirst",
    dnsConfig={"nameservers": [], "options": [{"name": "ndots", "value": "2"}]},
    nodeSelector={"kubernetes.io/arch": "amd64"},
    terminationGracePeriodSeconds=30,
)
"""Uses most of what the tables allow."""

MALFORMED: list[tuple[dict[str, Any], str]] = [
    (make_pod(imagePullSecret=[]), "imagePullSecret"),
    (make_pod({"imgae": "x"}), "containers[0].imgae"),
    (
        make_pod(initContainers=[{"name": "a", "image": "digits:1"}, {"name": "b", "tty": True}]),
        "initContainers[1].tty",
    ),
    (make_pod({"env": [{"name": "A", "valueFrom": {"fileKeyRef": {}}}]}), "containers[0].env[0].valueFrom.fileKeyRef"),
    (make_pod({"envFrom": [{"prefix": "PODTUNE_"}]}), "containers[0].envFrom[0].prefix"),
    (make_pod({"ports": [{"containerPort": 80, "hostIP": "10.0.0.1"}]}), "containers[0].ports[0].hostIP"),
    (make_pod({"volumeMounts": [{"name": "podtune-agent"}]}), "containers[0].volumeMounts[0].name"),
    (
        make_pod({"volumeMounts": [{"name": "v", "mountPath": "//podtune/./x"}]}),
        "containers[0].volumeMounts[0].mountPath",
    ),
    (make_pod({"volumeMounts": [{"name": "v", "mountPath": "/"}]}), "containers[0].volumeMounts[0].mountPath"),
    (make_pod({"lifecycle": {"preStop": {"httpGet": {"host": "x"}}}}), "containers[0].lifecycle.preStop.httpGet.host"),
    (make_pod({"startupProbe": {"tcpSocket": {"host": "x"}}}), "containers[0].startupProbe.tcpSocket.host"),
    (make_pod({"securityContext": {"privileged": "false"}}), "containers[0].securityContext.privileged"),
    (make_pod({"securityContext": "none"}), "containers[0].securityContext"),
    (make_pod(securityContext={"supplementalGroups": [1, 60532]}), "securityContext.supplementalGroups[1]"),
    (make_pod(schedulingGates=[{"name": "x.podtune.dev/gate"}]), "schedulingGates[0].name"),
    (make_pod(dnsConfig={"options": [{"name": "ndots\nnameserver 10.0.0.9"}]}), "dnsConfig.options[0].name"),
    (make_pod(tolerations=[{"key": "nvidia.com/gpu", "taint": "x"}]), "tolerations[0].taint"),
    (make_pod(hostAliases=[{"ip": "10.0.0.1", "host": "x"}]), "hostAliases[0].host"),
    (
        make_volume(projected={"sources": [{"clusterTrustBundle": {}}]}),
        "volumes[0].projected.sources[0].clusterTrustBundle",
    ),
]
"""Each with the path of what the tables refuse."""
