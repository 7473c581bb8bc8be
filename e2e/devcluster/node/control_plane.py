"""etcd, the API server, the controllers, the scheduler, kube-proxy and cluster DNS."""

from __future__ import annotations

import json
import shutil
import ssl
import urllib.error
import urllib.request
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from e2e.devcluster.errors import ClusterError
from e2e.devcluster.layout import (
    API_PORT,
    API_URL,
    CLUSTER_DOMAIN,
    POD_NETWORK,
    SERVICE_NETWORK,
    SYSTEM_NODE,
    Layout,
)
from e2e.devcluster.node import network
from e2e.devcluster.processes import Component

ETCD = "etcd"
API_SERVER = "kube-apiserver"
CONTROLLER_MANAGER = "kube-controller-manager"
SCHEDULER = "kube-scheduler"
PROXY = "kube-proxy"
DNS = "coredns"
COMPONENTS = (ETCD, API_SERVER, CONTROLLER_MANAGER, SCHEDULER, PROXY, DNS)

_ETCD_URL = "http://127.0.0.1:2379"
_CLIENT_LIMITS = ["--kube-api-qps=1000", "--kube-api-burst=2000"]
_HEALTH = {
    CONTROLLER_MANAGER: "https://127.0.0.1:10257/healthz",
    SCHEDULER: "https://127.0.0.1:10259/healthz",
    PROXY: "http://127.0.0.1:10256/livez",
    DNS: "http://127.0.0.1:8181/ready",
}

# Who, what and when alone: of service accounts but the system's own all that they ask for, which is held against the
# rights of operator, dashboard and `helm test`; of others what they write, which benchmarks count.
_READING = ["get", "list", "watch"]
AUDIT_POLICY = {
    "apiVersion": "audit.k8s.io/v1",
    "kind": "Policy",
    "omitStages": ["RequestReceived"],
    "rules": [
        {"level": "None", "verbs": _READING, "userGroups": ["system:serviceaccounts:kube-system"]},
        {"level": "Metadata", "userGroups": ["system:serviceaccounts"]},
        {"level": "None", "verbs": _READING},
        {"level": "Metadata"},
    ],
}


def start(layout: Layout, tools: Path) -> None:
    """Start everything but kube-proxy and return once all of it answers.

    Raises:
        ClusterError: A component died or did not answer in time.
    """
    others = [_controller_manager(layout, tools), _scheduler(layout, tools), _dns(layout, tools)]
    _start_in_order(_etcd(layout, tools), _api_server(layout, tools), others)


def lose_etcd(layout: Layout) -> None:
    """Kill everything, delete what etcd has stored, and start everything but kube-proxy as it was.

    Raises:
        ClusterError: A component died or did not answer in time.
    """
    for name in reversed(COMPONENTS):
        Component.load(layout, name).kill()
    shutil.rmtree(_find_etcd_data(layout))
    etcd, server, *others = (Component.load(layout, name) for name in COMPONENTS if name != PROXY)
    _start_in_order(etcd, server, others)


def _start_in_order(etcd: Component, server: Component, others: Sequence[Component]) -> None:
    etcd.start()
    etcd.wait_ready(lambda: answers(f"{_ETCD_URL}/health"))
    server.start()
    server.wait_ready(lambda: api_is_ready(server.layout))
    with ThreadPoolExecutor() as pool:
        list(pool.map(_start_and_wait, others))


def start_proxy(layout: Layout, tools: Path) -> None:
    """Start kube-proxy, once its node is registered: it would look for it first, at intervals that grow to 16 s.

    Raises:
        ClusterError: It died or did not answer in time.
    """
    _start_and_wait(_proxy(layout, tools))


def api_is_ready(layout: Layout) -> bool:
    """Return whether the API server serves its administrator."""
    context = ssl.create_default_context(cafile=str(layout.pki / "ca.crt"))
    context.load_cert_chain(layout.pki / "admin.crt", layout.pki / "admin.key")
    return answers(f"{API_URL}/readyz", context)


def is_healthy(name: str) -> bool:
    """Return whether a component that has a health check passes it."""
    return name not in _HEALTH or answers(_HEALTH[name])


def answers(url: str, context: ssl.SSLContext | None = None) -> bool:
    """Return whether a URL inside the namespace answers with success."""
    if context is None and url.startswith("https:"):
        # The component's own certificate is self-signed, and the address is loopback.
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
        context.check_hostname = False
        context.verify_mode = ssl.CERT_NONE
    opener = urllib.request.build_opener(
        urllib.request.ProxyHandler({}), *([urllib.request.HTTPSHandler(context=context)] if context else [])
    )
    with network.inside():
        try:
            with opener.open(url, timeout=3) as response:
                return bool(response.status == 200)
        except (TimeoutError, urllib.error.URLError, ConnectionError):
            return False


def _start_and_wait(component: Component) -> None:
    component.start()
    component.wait_ready(lambda: is_healthy(component.name))


def _etcd(layout: Layout, tools: Path) -> Component:
    return Component(layout, ETCD, [
        f"{tools}/etcd", f"--data-dir={_find_etcd_data(layout)}", f"--listen-client-urls={_ETCD_URL}",
        f"--advertise-client-urls={_ETCD_URL}", "--listen-peer-urls=http://127.0.0.1:2380",
        "--unsafe-no-fsync", "--quota-backend-bytes=8589934592",
    ])  # fmt: skip


def _find_etcd_data(layout: Layout) -> Path:
    return layout.state / "etcd"


def _api_server(layout: Layout, tools: Path) -> Component:
    policy = layout.state / "audit" / "policy.json"
    policy.write_text(json.dumps(AUDIT_POLICY))
    pki = layout.pki
    return Component(layout, API_SERVER, [
        f"{tools}/kube-apiserver", f"--etcd-servers={_ETCD_URL}", "--bind-address=0.0.0.0",
        f"--advertise-address={SYSTEM_NODE.address}", f"--secure-port={API_PORT}",
        f"--tls-cert-file={pki}/apiserver.crt", f"--tls-private-key-file={pki}/apiserver.key",
        f"--client-ca-file={pki}/ca.crt", "--authorization-mode=Node,RBAC",
        # The second, which OpenShift has, asks for rights that no request shows.
        "--enable-admission-plugins=NodeRestriction,OwnerReferencesPermissionEnforcement",
        f"--service-account-key-file={pki}/service-account.pub",
        f"--service-account-signing-key-file={pki}/service-account.key",
        f"--service-account-issuer=https://kubernetes.default.svc.{CLUSTER_DOMAIN}",
        f"--service-cluster-ip-range={SERVICE_NETWORK}", "--allow-privileged=true",
        # Names of nodes do not resolve here.
        "--kubelet-preferred-address-types=InternalIP",
        f"--kubelet-client-certificate={pki}/apiserver-kubelet-client.crt",
        f"--kubelet-client-key={pki}/apiserver-kubelet-client.key",
        f"--audit-policy-file={policy}", f"--audit-log-path={layout.audit_log}", "--audit-log-maxsize=1024",
    ])  # fmt: skip


def _controller_manager(layout: Layout, tools: Path) -> Component:
    kubeconfig = layout.pki / "controller-manager.kubeconfig"
    return Component(layout, CONTROLLER_MANAGER, [
        f"{tools}/kube-controller-manager", f"--kubeconfig={kubeconfig}", "--leader-elect=false",
        f"--service-account-private-key-file={layout.pki}/service-account.key", f"--root-ca-file={layout.pki}/ca.crt",
        "--use-service-account-credentials=true", "--concurrent-job-syncs=50", *_CLIENT_LIMITS,
        # Losing a node is tested, and nobody wants to wait 40 s for it.
        "--node-monitor-grace-period=20s", "--node-monitor-period=2s",
        # It would create the default one.
        f"--flex-volume-plugin-dir={layout.state}/volume-plugins",
    ])  # fmt: skip


def _scheduler(layout: Layout, tools: Path) -> Component:
    return Component(layout, SCHEDULER, [
        f"{tools}/kube-scheduler", f"--kubeconfig={layout.pki}/scheduler.kubeconfig", "--leader-elect=false",
        *_CLIENT_LIMITS,
    ])  # fmt: skip


def _proxy(layout: Layout, tools: Path) -> Component:
    # One for both nodes: they share the namespace, and so the packet filter.
    command = [
        f"{tools}/kube-proxy", f"--kubeconfig={layout.pki}/kube-proxy.kubeconfig", "--proxy-mode=nftables",
        f"--hostname-override={SYSTEM_NODE.name}", f"--cluster-cidr={POD_NETWORK}", "--oom-score-adj=0",
        # Connection tracking limits belong to the whole machine.
        "--conntrack-max-per-core=0", "--conntrack-min=0", "--nodeport-addresses=primary",
        "--healthz-bind-address=127.0.0.1:10256", "--metrics-bind-address=127.0.0.1:10249",
    ]  # fmt: skip
    if not network.bridge_traffic_is_filtered():
        command.append("--masquerade-all")
    return Component(layout, PROXY, command)


def _dns(layout: Layout, tools: Path) -> Component:
    corefile = layout.state / "Corefile"
    corefile.write_text(
        f".:53 {{\n    bind {SYSTEM_NODE.address}\n    errors\n    ready 127.0.0.1:8181\n"
        f"    kubernetes {CLUSTER_DOMAIN} in-addr.arpa ip6.arpa {{\n"
        f"        kubeconfig {layout.kubeconfig} podtune\n    }}\n}}\n"
    )
    return Component(layout, DNS, [f"{tools}/coredns", "-conf", str(corefile)])


def check_running(layout: Layout, name: str) -> str | None:
    """Return what is wrong with a component, or nothing.

    Args:
        layout: Where the cluster is.
        name: One of `COMPONENTS`.
    """
    try:
        component = Component.load(layout, name)
    except ClusterError as error:
        return str(error)
    if component.main_process() is None:
        return "not running"
    healthy = api_is_ready(layout) if name == API_SERVER else is_healthy(name)
    return None if healthy else "does not answer"
