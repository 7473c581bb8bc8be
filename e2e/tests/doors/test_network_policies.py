"""NetworkPolicies of the chart and of the documentation, enforced: what pods reach with them, and what no longer."""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import contextmanager

import pytest
import yaml

from docs.fenced_blocks import DOCS, ROOT, find_blocks
from e2e.devcluster import Cluster
from e2e.devcluster.node import storage
from e2e.experiments import experiment, program, store
from e2e.install import OPERATOR_NAMESPACE, OPERATOR_PODS, RELEASE
from e2e.kubernetes import Kubernetes, Object, eventually
from e2e.tests.doors.enforced_policies import enforce_policies
from e2e.trials import EXPERIMENTS, let_go_on, read_stored_results, trial_status

pytestmark = [pytest.mark.alone, pytest.mark.long, pytest.mark.timeout(3600)]  # a program is built for it, once

S3_PORT = 9000
ONE = {"algorithm": "random", "maxTrials": 1}
CONNECT = """
import socket, sys
try:
    socket.create_connection((sys.argv[1], int(sys.argv[2])), timeout=4)
    print("yes")
except TimeoutError:
    print("no")
"""
API = ("kubernetes.default.svc", 443)


def read_policy_of_trials(namespace: str) -> Object:
    """The documented policy, for this namespace, and with the bucket's server where the local cluster has it."""
    blocks = find_blocks(DOCS / "how-to" / "confine-the-network.md")
    (policy,) = [yaml.safe_load(block.text) for block in blocks if "kind: NetworkPolicy" in block.text]
    policy["metadata"]["namespace"] = namespace
    (bucket,) = [rule for rule in policy["spec"]["egress"] if "ipBlock" in str(rule)]
    bucket["to"] = [{"namespaceSelector": {"matchLabels": {"kubernetes.io/metadata.name": storage.NAMESPACE}}}]
    bucket["ports"] = [{"protocol": "TCP", "port": S3_PORT}]
    found: Object = policy
    return found


def find_reached(cluster: Cluster, namespace: Kubernetes, name: str, places: dict[str, tuple[str, int]]) -> list[str]:
    """Which places a trial's program reaches; that it reports so shows that its agent reaches operator and bucket."""
    container = program("reach", {"PLACES": json.dumps(places)})
    namespace.apply(experiment(name, container, search=ONE, checkpoints={"store": store(cluster)}))
    # Whoever enforces policies knows a pod by its address, which is known only some time after its program has begun.
    eventually(
        lambda: namespace.list("pods", f"podtune.dev/trial={name}-0"),
        lambda pods: bool(pods and pods[0]["status"]["phase"] == "Running" and pods[0]["status"].get("podIP")),
    )
    let_go_on(namespace, f"podtune.dev/trial={name}-0")
    namespace.wait_for_condition(EXPERIMENTS, name, "Complete")
    status = trial_status(namespace, f"{name}-0")
    assert (status["attempt"], status["iteration"]) == (1, 1), "the operator has heard of the result"
    prefix = f"e2e/{namespace.get(EXPERIMENTS, name)['metadata']['uid']}/"
    (stored,) = read_stored_results(cluster, prefix, f"{name}-0")
    return [place for place in places if stored.result.metrics[place]]


@contextmanager
def confined_operator(cluster: Cluster, operator: Kubernetes) -> Iterator[None]:
    """Has the operator's policy as it is with networkPolicy.egress.enabled."""
    words = ["--namespace", OPERATOR_NAMESPACE, "--kube-version=1.34.0", "--set=networkPolicy.egress.enabled=true"]
    chart = [str(ROOT / "charts" / "podtune"), "--show-only=templates/policies.yaml", "--set=results.plainHTTP=false"]
    rendered = yaml.safe_load(cluster.run(["helm", "template", RELEASE, *chart, *words]).stdout)
    before = operator.get("networkpolicies", RELEASE)["spec"]
    _replace_policy(operator, rendered["spec"])
    try:
        yield
    finally:
        _replace_policy(operator, before)


def _replace_policy(operator: Kubernetes, spec: Object) -> None:
    patch = json.dumps([{"op": "replace", "path": "/spec", "value": spec}])
    operator.kubectl("patch", "networkpolicies", RELEASE, "--type=json", "-p", patch)


def operator_reaches(operator: Kubernetes, place: tuple[str, int]) -> bool:
    (pod,) = operator.list("pods", OPERATOR_PODS)
    words = ["exec", pod["metadata"]["name"], "--", "python3", "-c", CONNECT, place[0], str(place[1])]
    return operator.kubectl(*words).strip() == "yes"


def test_pods_reach_what_they_need_and_nothing_else(
    cluster: Cluster, operator: Kubernetes, namespace: Kubernetes
) -> None:
    bucket = (f"s3.{storage.NAMESPACE}.svc", S3_PORT)
    places = {
        "api": API,
        "bucket": bucket,
        "results": (f"{RELEASE}-results.{OPERATOR_NAMESPACE}.svc", 8443),
        "metrics": (f"{RELEASE}-metrics.{OPERATOR_NAMESPACE}.svc", 8444),
    }
    assert find_reached(cluster, namespace, "open", places) == list(places), "nothing is enforced yet"
    with enforce_policies(cluster):
        reached = find_reached(cluster, namespace, "apart", places)
        assert reached == ["api", "bucket", "results"], "metrics are for the operator's own namespace"
        assert operator_reaches(operator, bucket)
        namespace.apply(read_policy_of_trials(namespace.namespace))
        with confined_operator(cluster, operator):
            eventually(lambda: not operator_reaches(operator, bucket), what="the operator is confined")
            assert operator_reaches(operator, API)
            assert find_reached(cluster, namespace, "confined", places) == ["bucket", "results"]
