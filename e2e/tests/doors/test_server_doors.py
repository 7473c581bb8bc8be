"""What a tenant's pod tries on the operator's servers: reports that are not its own, and connections that stay."""

from __future__ import annotations

import base64
import json
from collections.abc import Callable, Iterator
from datetime import UTC, datetime

import pytest

from e2e.devcluster import Cluster
from e2e.experiments import EXAMPLES_IMAGE, PROGRAMS, RESTRICTED, counter, experiment, store
from e2e.install import OPERATOR_NAMESPACE, OPERATOR_PODS, RELEASE
from e2e.kubernetes import Kubernetes, Object, eventually
from e2e.soak.operator_metrics import metrics_token
from e2e.tests.conftest import make_namespace
from e2e.tests.doors.tenant_attacks import FORGED, RunningTrial, list_attacks
from e2e.trials import trial_status
from podtune.results.connections import HEADER_SECONDS, MAX_OF_ONE_ADDRESS
from podtune.results.tls.authorities import make_authority

RESULTS = f"https://podtune-results.{OPERATOR_NAMESPACE}.svc:8443"
PLAIN_PORT = 8080
METRICS = f"https://{RELEASE}-metrics.{OPERATOR_NAMESPACE}.svc:8444"
SECRET = f"{RELEASE}-results-tls"
ONE = {"algorithm": "random", "maxTrials": 1}
TOO_MANY = 20
"""So many connections more than an address may have."""
NO_DEVICE: Object = {"requests": {"cpu": "10m", "memory": "32Mi"}}


def to_trial(pod: Object) -> RunningTrial:
    """The trial that a pod runs."""
    return RunningTrial(pod["metadata"]["namespace"], "told-0", pod["metadata"]["uid"])


@pytest.fixture
def victim(cluster: Cluster) -> Iterator[Kubernetes]:
    """Another tenant's namespace."""
    kubernetes = make_namespace(cluster, secret=False)
    yield kubernetes
    cluster.kubectl("delete", "namespace", kubernetes.namespace, "--wait=false", "--ignore-not-found")


def visit(namespace: Kubernetes, **environment: object) -> Callable[[], Object]:
    """Runs `programs/visitor.py` in a pod that is no trial's; call what is returned for what it has printed."""
    given = {"URL": RESULTS, "CA": read_authorities(namespace.cluster)}
    container = {
        "name": "visitor",
        "image": EXAMPLES_IMAGE,
        "imagePullPolicy": "IfNotPresent",
        "command": ["python3", "-c", (PROGRAMS / "visitor.py").read_text()],
        "env": [{"name": name, "value": str(value)} for name, value in {**given, **environment}.items()],
        "securityContext": RESTRICTED,
    }
    spec = {"restartPolicy": "Never", "terminationGracePeriodSeconds": 1, "containers": [container]}
    namespace.apply({"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "visitor"}, "spec": spec})

    def see() -> Object:
        phase = eventually(
            lambda: namespace.get("pods", "visitor")["status"]["phase"],
            lambda phase: phase in ("Succeeded", "Failed"),
            what="the visitor has not ended",
        )
        printed = namespace.kubectl("logs", "visitor")
        assert phase == "Succeeded", printed
        found: Object = json.loads(printed)
        return found

    return see


def read_authorities(cluster: Cluster) -> str:
    """Whom agents that are made now believe."""
    secret = Kubernetes(cluster, OPERATOR_NAMESPACE).get("secrets", SECRET)
    return base64.b64decode(secret["data"]["ca.crt"]).decode()


def token_of(namespace: Kubernetes, pod: Object, audience: str = "podtune.dev/results") -> str:
    """A token as the pod's agent has it."""
    account = pod["spec"]["serviceAccountName"]
    metadata = pod["metadata"]
    bound = [f"--bound-object-name={metadata['name']}", f"--bound-object-uid={metadata['uid']}"]
    words = ["create", "token", account, f"--audience={audience}", "--bound-object-kind=Pod", *bound]
    return namespace.kubectl(*words).strip()


def run_a_victim(victim: Kubernetes) -> None:
    """Has another tenant's trial run that has the name of one of ours; its agent reads its results from its log."""
    printing = counter({"EPOCHS": "4", "HOLD_AT": "3", "STDOUT": "1"}, resources=NO_DEVICE)
    stdout = {"stdout": {"pattern": r"epoch=(?P<epoch>\d+) value=(?P<value>\S+)"}}
    victim.apply(experiment("told", printing, search=ONE, results=stdout))


def test_a_report_is_taken_from_the_trials_own_pod_and_only_of_its_own_place(
    cluster: Cluster, namespace: Kubernetes, victim: Kubernetes
) -> None:
    container = counter({"EPOCHS": "4", "HOLD_AT": "3"})
    search = {"algorithm": "random", "maxTrials": 2}
    namespace.apply(experiment("told", container, search=search, checkpoints={"store": store(cluster)}))
    run_a_victim(victim)
    eventually(lambda: all(trial_status(namespace, f"told-{index}").get("checkpoint") for index in (0, 1)))
    pod = namespace.get("pods", "told-0-1")
    uri = trial_status(namespace, "told-0")["checkpoint"]["uri"]
    assert f"/told-0/{pod['metadata']['uid']}/" in uri
    own = uri.rpartition("/")[0]

    def report(place: str) -> Object:
        checkpoint = {"uri": place, "digest": "sha256:" + "0" * 64, "step": 3}
        return {"attempt": pod["metadata"]["uid"], "results": [], "checkpoints": [{"checkpoint": checkpoint, "seq": 3}]}

    path = f"/v1/namespaces/{namespace.namespace}/trials/{{}}/results"
    token = token_of(namespace, pod)
    elsewhere = {
        "another trial's": own.replace("/told-0/", "/told-1/") + "/3",
        "another team's": f"s3://{cluster.s3.bucket}/team-b/3",
        "upwards": f"{own}/../../told-1/3",
        "another bucket": own.replace(f"s3://{cluster.s3.bucket}/", "s3://other/") + "/3",
    }
    posts = [{"path": path.format("told-0"), "token": token, "body": report(place)} for place in elsewhere.values()]
    good = report(f"{own}/3") | {"checkpoints": []}
    api_token = token_of(namespace, pod, "https://kubernetes.default.svc.cluster.local")
    others = [
        ({"path": path.format("told-0"), "token": token}, 200),
        ({"path": path.format("told-1"), "token": token}, 409),
        ({"path": path.format("told-0").replace(namespace.namespace, "default"), "token": token}, 403),
        ({"path": path.format("told-0"), "token": ""}, 401),
        ({"path": path.format("told-0"), "token": token[:-4] + "AAAA"}, 401),
        ({"path": path.format("told-0"), "token": api_token}, 401),
    ]
    posts += [{**post, "body": good} for post, _ in others]
    eventually(lambda: trial_status(victim, "told-0").get("iteration") == 2, what="the victim waits before epoch 3")
    (theirs,) = victim.list("pods", "podtune.dev/experiment=told")
    attacks = list_attacks(to_trial(pod), to_trial(theirs), token)
    answers = visit(namespace, ASKS=json.dumps([*posts, *attacks]))()["answers"]
    refused = [answers.pop() for _ in attacks]
    assert [answer["status"] for answer in refused] == [403] * len(attacks), refused
    status = trial_status(victim, "told-0")
    assert (status["attempt"], status["iteration"], status["state"]) == (1, 2, "RUNNING")
    assert str(int(FORGED)) not in json.dumps([status, trial_status(namespace, "told-0")])
    misplaced, rest = answers[: len(elsewhere)], answers[len(elsewhere) :]
    assert [answer["status"] for answer in misplaced] == [400] * len(elsewhere), answers
    assert all("below the trial's own prefix" in answer["text"] for answer in misplaced)
    assert [answer["status"] for answer in rest] == [status for _, status in others], rest
    for name in ("told-0", "told-1"):
        uris = [checkpoint["uri"] for checkpoint in trial_status(namespace, name)["checkpoints"]]
        assert all(f"/{name}/" in uri and ".." not in uri for uri in uris), uris


def test_results_come_by_tls_alone_from_agents_that_believe_the_operator_alone(
    cluster: Cluster, namespace: Kubernetes
) -> None:
    namespace.apply(experiment("told", counter({"EPOCHS": "3"}), search=ONE))
    (pod,) = eventually(lambda: namespace.list("pods", "podtune.dev/experiment=told"))
    other = make_authority(datetime.now(UTC)).certificate
    seen = visit(namespace, OTHER_CA=other, PLAIN=PLAIN_PORT)()
    assert seen["believed"] == "TLSv1.3"
    assert "unable to get local issuer certificate" in seen["not believed"]
    assert seen["plain"] != "connected", "nobody listens there"
    namespace.wait_for_condition("experiments.podtune.dev", "told", "Complete")
    assert trial_status(namespace, "told-0")["iteration"] == 3
    told = json.loads(pod["spec"]["initContainers"][-1]["args"][1])
    assert told["PODTUNE_RESULTS_URL"] == RESULTS
    assert told["PODTUNE_RESULTS_AUTHORITIES"] == read_authorities(cluster)


def test_metrics_are_for_those_whom_kubernetes_lets_get_them(cluster: Cluster, namespace: Kubernetes) -> None:
    namespace.kubectl("create", "serviceaccount", "other")
    with metrics_token(Kubernetes(cluster, OPERATOR_NAMESPACE)) as reader:
        tokens = [reader, namespace.kubectl("create", "token", "other").strip(), "", "wrong"]
        gets = [{"path": "/metrics", "token": token} for token in tokens]
        seen = visit(namespace, METRICS=METRICS, GETS=json.dumps(gets))()["metrics"]
    assert [answer["status"] for answer in seen] == [200, 403, 401, 401], seen
    assert "podtune_leading 1.0" in seen[0]["text"]
    assert f"system:serviceaccount:{namespace.namespace}:other may not get /metrics" in seen[1]["text"]


def test_connections_that_send_nothing_are_closed_and_keep_nobody_from_reporting(
    cluster: Cluster, namespace: Kubernetes
) -> None:
    see = visit(namespace, SILENT=MAX_OF_ONE_ADDRESS + TOO_MANY)
    eventually(lambda: namespace.get("pods", "visitor")["status"]["phase"] != "Pending")
    namespace.apply(experiment("beside", counter({"EPOCHS": "20"}), search=ONE))
    seen = see()
    at_once = [seconds for seconds in seen["closed"] if seconds < HEADER_SECONDS - 1]  # others have all of that
    assert len(at_once) == TOO_MANY, "an address has its limit"
    assert seen["open"] == 0, "one that sends its headers byte by byte is closed, too"
    namespace.wait_for_condition("experiments.podtune.dev", "beside", "Complete")
    status = trial_status(namespace, "beside-0")
    assert (status["attempt"], status["iteration"]) == (1, 20)


def test_the_network_policy_names_the_operators_real_ports(operator: Kubernetes) -> None:
    """What enforces it is the network plugin's; that of the local cluster enforces none."""
    policy = operator.get("networkpolicies", RELEASE)["spec"]
    (pod,) = operator.list("pods", OPERATOR_PODS)
    assert policy["podSelector"]["matchLabels"].items() <= pod["metadata"]["labels"].items()
    ports = {port["name"]: port["containerPort"] for port in pod["spec"]["containers"][0]["ports"]}
    admitted = {
        ports[port["port"]]: [peer["namespaceSelector"].get("matchLabels") for peer in rule["from"]]
        for rule in policy["ingress"]
        for port in rule["ports"]
    }
    own = {"kubernetes.io/metadata.name": OPERATOR_NAMESPACE}
    assert admitted == {8443: [None], 8444: [own]}, "agents are everywhere; metrics are for the named namespaces"
    assert policy["policyTypes"] == ["Ingress"]
