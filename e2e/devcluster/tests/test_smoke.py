"""The running cluster does what the end-to-end tests build on."""

from __future__ import annotations

import json
import secrets
from collections.abc import Iterator

import pytest

from e2e.devcluster import Cluster
from e2e.devcluster.building.images import BUSYBOX
from e2e.devcluster.processes import wait_until
from e2e.devcluster.versions import find_version
from e2e.namespaces import create_namespace

pytestmark = pytest.mark.cluster


@pytest.fixture(scope="module")
def cluster() -> Cluster:
    return Cluster.connect()


@pytest.fixture
def namespace(cluster: Cluster) -> Iterator[str]:
    name = f"smoke-{secrets.token_hex(4)}"
    create_namespace(cluster, name)
    yield name
    cluster.kubectl("delete", "namespace", name, "--wait=false")


def run_pod(cluster: Cluster, namespace: str, name: str, script: str, **spec: object) -> str:
    """Run a shell script in a pod and return its output."""
    container = {
        "name": "main",
        "image": BUSYBOX,
        "command": ["sh", "-ec", script],
        "resources": spec.pop("resources", {}),
        "volumeMounts": spec.pop("volumeMounts", []),
    }
    pod = {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": name, "namespace": namespace, "labels": {"app": name}},
        "spec": {"restartPolicy": "Never", "terminationGracePeriodSeconds": 1, "containers": [container], **spec},
    }
    cluster.kubectl("apply", "-f", "-", stdin=json.dumps(pod))
    wait_until(lambda: phase(cluster, namespace, name) in {"Succeeded", "Failed"}, f"pod {name} does not end", 60)
    output = cluster.kubectl("logs", name, "-n", namespace, "-c", "main")
    assert phase(cluster, namespace, name) == "Succeeded", output
    return output


def phase(cluster: Cluster, namespace: str, name: str) -> str:
    return cluster.kubectl("get", "pod", name, "-n", namespace, "-o", "jsonpath={.status.phase}")


@pytest.mark.every_version
def test_server_and_nodes_are_of_the_version_that_was_asked_for(cluster: Cluster) -> None:
    if cluster.mode != "native":
        pytest.skip("the version is that of kind's image")
    server = json.loads(cluster.kubectl("version", "-o", "json"))["serverVersion"]["gitVersion"]
    nodes = cluster.kubectl("get", "nodes", "-o", "jsonpath={.items[*].status.nodeInfo.kubeletVersion}").split()
    assert [server, *nodes] == [f"v{find_version()}"] * 3


def test_pods_get_simulated_gpus_on_the_node_that_has_them(cluster: Cluster, namespace: str) -> None:
    run_pod(cluster, namespace, "gpu", "true", resources={"limits": {"nvidia.com/gpu": "1"}})
    node = cluster.kubectl("get", "pod", "gpu", "-n", namespace, "-o", "jsonpath={.spec.nodeName}")
    assert node == cluster.node_name("n2")


@pytest.mark.every_version
def test_a_native_sidecar_runs_until_the_program_has_ended(cluster: Cluster, namespace: str) -> None:
    script = "trap 'echo flushed >/dev/termination-log; exit 0' TERM; touch /shared/ready; while :; do sleep 0.1; done"
    mounts = [{"name": "shared", "mountPath": "/shared"}]
    sidecar = {
        "name": "agent",
        "image": BUSYBOX,
        "restartPolicy": "Always",
        "command": ["sh", "-c", script],
        "volumeMounts": mounts,
        "startupProbe": {"exec": {"command": ["test", "-e", "/shared/ready"]}, "periodSeconds": 1},
    }
    run_pod(
        cluster,
        namespace,
        "sidecar",
        "test -e /shared/ready",
        initContainers=[sidecar],
        volumes=[{"name": "shared", "emptyDir": {}}],
        volumeMounts=mounts,
        terminationGracePeriodSeconds=20,
    )
    path = "jsonpath={.status.initContainerStatuses[0].state.terminated.message}"
    assert cluster.kubectl("get", "pod", "sidecar", "-n", namespace, "-o", path).strip() == "flushed"


def test_services_are_reached_by_name_on_the_same_node_and_across(cluster: Cluster, namespace: str) -> None:
    server = {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": "web", "namespace": namespace, "labels": {"app": "web"}},
        "spec": {
            "nodeSelector": {"podtune.dev/role": "work"},
            "terminationGracePeriodSeconds": 1,
            "containers": [
                {
                    "name": "main",
                    "image": BUSYBOX,
                    "command": ["sh", "-c", "mkdir /w && echo hello >/w/index.html && exec httpd -f -p 8080 -h /w"],
                }
            ],
        },
    }
    cluster.kubectl("apply", "-f", "-", stdin=json.dumps(server))
    cluster.kubectl("expose", "pod", "web", "-n", namespace, "--port=80", "--target-port=8080")
    cluster.kubectl("wait", "--for=condition=Ready", "pod/web", "-n", namespace, "--timeout=60s")
    attempt = f"timeout 2 wget -qO- http://web.{namespace}.svc/"
    script = f"for try in 1 2 3 4 5 6 7 8 9 10; do {attempt} && exit 0; sleep 0.5; done; exit 1"
    for role in ("work", "system"):
        selector = {"podtune.dev/role": role}
        assert "hello" in run_pod(cluster, namespace, f"client-{role}", script, nodeSelector=selector)
    assert cluster.kubectl("exec", "web", "-n", namespace, "--", "cat", "/w/index.html").strip() == "hello"


@pytest.mark.every_version
def test_a_projected_token_is_confirmed_for_its_audience_alone(cluster: Cluster, namespace: str) -> None:
    source = {"serviceAccountToken": {"audience": "podtune", "expirationSeconds": 600, "path": "token"}}
    token = run_pod(
        cluster,
        namespace,
        "token",
        "cat /token/token",
        volumes=[{"name": "token", "projected": {"sources": [source]}}],
        volumeMounts=[{"name": "token", "mountPath": "/token"}],
    )

    def review(audience: str) -> dict[str, object]:
        spec = {"token": token, "audiences": [audience]}
        asked = {"apiVersion": "authentication.k8s.io/v1", "kind": "TokenReview", "spec": spec}
        answer = cluster.kubectl("create", "-f", "-", "-o", "json", stdin=json.dumps(asked))
        status: dict[str, object] = json.loads(answer)["status"]
        return status

    assert review("podtune")["authenticated"] is True
    assert not review("something-else").get("authenticated")


@pytest.mark.every_version
def test_pod_security_is_enforced_where_a_namespace_asks_for_it(cluster: Cluster, namespace: str) -> None:
    cluster.kubectl("label", "namespace", namespace, "pod-security.kubernetes.io/enforce=restricted")
    refused = cluster.run(["kubectl", "run", "root", "-n", namespace, f"--image={BUSYBOX}"], check=False)
    assert refused.returncode != 0
    assert "violates PodSecurity" in refused.stderr


def test_objects_are_stored_and_read_from_outside_and_from_pods(cluster: Cluster, namespace: str) -> None:
    key, body = f"smoke/{namespace}", secrets.token_bytes(1000)
    cluster.s3_client.put(key, body)
    assert cluster.s3_client.get(key) == body
    run_pod(cluster, namespace, "s3", f"timeout 5 wget -qO- {cluster.s3.cluster_endpoint}/health")


def test_of_people_only_writes_are_audited(cluster: Cluster, namespace: str) -> None:
    cluster.kubectl("create", "configmap", "counted", "-n", namespace)

    def recorded() -> list[dict[str, str]]:
        lines = [json.loads(line) for line in cluster.audit_log.read_text().splitlines() if namespace in line]
        return [line for line in lines if line.get("objectRef", {}).get("name") == "counted"]

    wait_until(lambda: bool(recorded()), "the write is not in the audit log", 10)
    cluster.kubectl("get", "configmap", "counted", "-n", namespace)
    cluster.kubectl("delete", "configmap", "counted", "-n", namespace)
    wait_until(lambda: len(recorded()) > 1, "the second write is not in the audit log", 10)
    assert [event["verb"] for event in recorded()] == ["create", "delete"]


@pytest.mark.alone
def test_gpus_and_running_pods_survive_a_restart_of_the_kubelet(cluster: Cluster, namespace: str) -> None:
    pod = {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": "long", "namespace": namespace},
        "spec": {
            "terminationGracePeriodSeconds": 0,
            "containers": [
                {
                    "name": "main",
                    "image": BUSYBOX,
                    "command": ["sleep", "3600"],
                    "resources": {"limits": {"nvidia.com/gpu": "1"}},
                }
            ],
        },
    }
    cluster.kubectl("apply", "-f", "-", stdin=json.dumps(pod))
    cluster.kubectl("wait", "--for=condition=Ready", "pod/long", "-n", namespace, "--timeout=60s")
    before = cluster.node_processes("n2")
    cluster.kill_kubelet("n2")
    assert not cluster.node_processes("n2")["kubelet"]
    cluster.start_kubelet("n2")
    cluster.kubectl("wait", "--for=condition=Ready", "pod/long", "-n", namespace, "--timeout=60s")
    assert set(before["pods"]) & set(cluster.node_processes("n2")["pods"])
    restarts = "jsonpath={.status.containerStatuses[0].restartCount}"
    assert cluster.kubectl("get", "pod", "long", "-n", namespace, "-o", restarts) == "0"
