"""The trace of an experiment whose operator is deleted while it runs, as a collector in the cluster gets it.

What is exported when, and what of a collector that is away, is the unit tests' to ask. Here the chart sets it up, and
real programs are told their parents.
"""

from __future__ import annotations

import base64
import json
from collections.abc import Iterator

import pytest
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest
from opentelemetry.proto.trace.v1.trace_pb2 import Span

from e2e.devcluster import Cluster
from e2e.experiments import counter, experiment, program, store
from e2e.install import OPERATOR_NAMESPACE, OPERATOR_PODS, RELEASE, ROOT
from e2e.kubernetes import Kubernetes, eventually
from e2e.trials import EXPERIMENTS, TRIALS

TOLD = "/told/"
"""The path on which programs tell the collector what they were told, with their pod's name behind it."""


def set_endpoint(cluster: Cluster, endpoint: str) -> None:
    """Installs the operator with another collector, or none, and waits until it leads."""
    command = ["helm", "upgrade", RELEASE, str(ROOT / "charts" / "podtune"), "--namespace", OPERATOR_NAMESPACE]
    value = f"tracing={json.dumps({'endpoint': endpoint})}"
    cluster.run([*command, "--reuse-values", "--wait", "--timeout", "300s", "--set-json", value], timeout=330)
    await_one_leader(Kubernetes(cluster, OPERATOR_NAMESPACE))


def await_one_leader(operator: Kubernetes, former: str = "") -> str:
    """Waits until one operator leads that is not the former one; its pod's name."""
    (pod,) = eventually(
        lambda: operator.list("pods", OPERATOR_PODS),
        lambda pods: (
            [pod["metadata"]["labels"].get("podtune.dev/leader") for pod in pods] == ["true"]
            and pods[0]["metadata"]["name"] != former
        ),
        what="one operator leads",
    )
    return str(pod["metadata"]["name"])


class Collector:
    """The collector in a namespace."""

    def __init__(self, namespace: Kubernetes) -> None:
        self._namespace = namespace
        labels = {"app": "collector"}
        namespace.apply(
            {
                "apiVersion": "v1",
                "kind": "Service",
                "metadata": {"name": "collector"},
                "spec": {"selector": labels, "ports": [{"port": 4318}]},
            },
            {
                "apiVersion": "v1",
                "kind": "Pod",
                "metadata": {"name": "collector", "labels": labels},
                "spec": {
                    "containers": [program("servers/collector", resources={"requests": {"cpu": "10m"}})],
                    "terminationGracePeriodSeconds": 0,
                },
            },
        )
        namespace.kubectl("wait", "--for=condition=Ready", "pod/collector", "--timeout=120s")

    @property
    def endpoint(self) -> str:
        return f"http://collector.{self._namespace.namespace}.svc:4318"

    def list_spans(self) -> list[Span]:
        """All spans of its namespace that it was sent, those that came again included: others' experiments may run."""
        spans = []
        for path, content in self._list_requests():
            request = ExportTraceServiceRequest.FromString(content if path == "/v1/traces" else b"")
            for of_resource in request.resource_spans:
                spans += [span for of_scope in of_resource.scope_spans for span in of_scope.spans]
        return [span for span in spans if read(span, "k8s.namespace.name") == self._namespace.namespace]

    def read_told(self) -> dict[str, str]:
        """By name of a pod, what its program has found in TRACEPARENT."""
        requests = self._list_requests()
        return {path.removeprefix(TOLD): content.decode() for path, content in requests if path.startswith(TOLD)}

    def _list_requests(self) -> list[tuple[str, bytes]]:
        lines = [line.partition(" ") for line in self._namespace.kubectl("logs", "collector").splitlines()]
        return [(path, base64.b64decode(content)) for path, _, content in lines]


@pytest.fixture
def collector(cluster: Cluster, namespace: Kubernetes) -> Iterator[Collector]:
    collector = Collector(namespace)
    set_endpoint(cluster, collector.endpoint)
    yield collector
    set_endpoint(cluster, "")


def read(span: Span, name: str) -> str:
    """An attribute of a span as text; empty where it has none."""
    for entry in span.attributes:
        if entry.key == name:
            return entry.value.string_value or str(entry.value.int_value)
    return ""


def name_span(span: Span) -> tuple[str, str, str]:
    """What a span is about, in words of its own: no id is looked at."""
    return span.name, read(span, "podtune.trial.name"), read(span, "podtune.attempt.number")


def list_expected(namespace: Kubernetes) -> set[tuple[str, str, str]]:
    """What has to be traced of the experiment, by its Trials: each has crashed once."""
    expected = {("experiment", "", "")}
    for trial in namespace.list(TRIALS):
        name, attempts = trial["metadata"]["name"], range(1, trial["status"]["attempt"] + 1)
        expected |= {("trial", name, "")}
        expected |= {(kind, name, str(attempt)) for kind in ("attempt", "start") for attempt in attempts}
    return expected


def tell(endpoint: str) -> str:
    """Has a program tell the collector what it has found in TRACEPARENT: its pod is soon gone, and its log too."""
    return f"""
import os, urllib.request
pod = os.environ["PODTUNE_TRIAL"] + "-" + os.environ["PODTUNE_ATTEMPT"]
urllib.request.urlopen("{endpoint}{TOLD}" + pod, os.environ["TRACEPARENT"].encode())
"""


@pytest.mark.alone
@pytest.mark.long
def test_an_operator_that_is_deleted_goes_on_with_the_same_trace(
    cluster: Cluster, operator: Kubernetes, namespace: Kubernetes, collector: Collector
) -> None:
    environment = {"EPOCHS": "8", "EPOCH_SECONDS": "1", "CRASH_AT": "4"}
    container = counter(environment, resources={"requests": {"cpu": "10m"}})
    container["command"][2] = tell(collector.endpoint) + container["command"][2]
    namespace.apply(experiment("traced", container, checkpoints={"store": store(cluster)}))
    eventually(lambda: any(span.name == "attempt" for span in collector.list_spans()), what="a first attempt has ended")
    former = await_one_leader(operator)
    operator.kubectl("delete", "pod", former, "--wait=false")
    namespace.wait_for_condition(EXPERIMENTS, "traced", "Complete")
    await_one_leader(operator, former)
    spans = eventually(
        collector.list_spans,
        lambda spans: list_expected(namespace) <= set(map(name_span, spans)),
        what="all spans arrive",
    )
    (body,) = namespace.list(EXPERIMENTS)
    assert {span.trace_id.hex() for span in spans} == {body["metadata"]["uid"].replace("-", "")}
    by_id: dict[bytes, set[bytes]] = {}
    for span in spans:
        by_id.setdefault(span.span_id, set()).add(span.SerializeToString())
    assert len(by_id) == len(list_expected(namespace)), "each has one id, from whichever operator"
    assert {id_.hex(): several for id_, several in by_id.items() if len(several) > 1} == {}, "and is the same span"
    assert {span.parent_span_id for span in spans if span.parent_span_id} <= by_id.keys()
    attempts = {name_span(span)[1:]: span for span in spans if span.name == "attempt"}
    assert len(attempts) >= 4
    told = collector.read_told()
    for (trial, number), span in attempts.items():
        assert told[f"{trial}-{number}"] == f"00-{span.trace_id.hex()}-{span.span_id.hex()}-01"
        assert read(span, "k8s.pod.name") == f"{trial}-{number}"
    assert {span.status.code for span in attempts.values()} == {0, 2}, "each trial has crashed once"
