"""What a template may not say, each with the path of the field and the remedy."""

from __future__ import annotations

from e2e.experiments import RESTRICTED, counter
from e2e.install import DENIED_SECRET
from e2e.kubernetes import Object

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
