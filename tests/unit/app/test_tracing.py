"""Traces as part of the operator: what is exported, what programs are told, and nothing of it without a collector."""

from __future__ import annotations

import json

import pytest

from podtune.app import operator as operator_module
from podtune.app.settings import SettingsError, read_settings
from podtune.kube.trace_context import format_traceparent, make_trace_id
from podtune.tracing import exporter as exporter_module
from tests.unit.app.test_operator import Cluster, Kopf, Process, until
from tests.unit.cluster.objects import EXPERIMENTS, TRIALS, experiment_body
from tests.unit.tracing.stub_collector import StubCollector

CONFIG_MAP = "/api/v1/namespaces/system/configmaps/podtune-operator-traces"


@pytest.fixture
def cluster(monkeypatch: pytest.MonkeyPatch) -> Cluster:
    monkeypatch.setattr(operator_module, "run_kopf", Kopf().watch)
    monkeypatch.setattr(exporter_module, "COLLECT_SECONDS", 0.0)
    return Cluster()


def make_process(cluster: Cluster, stub: StubCollector) -> Process:
    return Process(cluster, PODTUNE_TRACING=json.dumps({"endpoint": stub.endpoint}))


def read_variables(cluster: Cluster) -> dict[str, dict[str, str]]:
    """By name of a trial's pod, the variables of its program."""
    pods = [pod for pod in cluster.all("pods") if "spec" in pod and pod["spec"].get("containers")]
    return {
        pod["metadata"]["name"]: {
            entry["name"]: entry.get("value", "") for entry in pod["spec"]["containers"][0]["env"]
        }
        for pod in pods
    }


async def test_the_end_of_an_experiment_that_ended_while_no_operator_ran_is_exported(cluster: Cluster) -> None:
    stub = StubCollector()
    cluster.put(
        CONFIG_MAP.rpartition("/")[0],
        {"metadata": {"name": "podtune-operator-traces"}, "data": {"exportedUntil": "2026-01-01T12:00:00Z"}},
    )
    ended = {"state": "Complete", "completionTime": "2026-01-01T12:30:00Z", "observedGeneration": 1}
    body = experiment_body() | {"status": ended}
    body["metadata"]["creationTimestamp"] = "2026-01-01T11:00:00Z"
    cluster.put(EXPERIMENTS, body)
    async with stub.up(), make_process(cluster, stub).running():
        await stub.wait_until(lambda: "experiment" in stub.names)
    assert {span.trace_id for span in stub.spans} == {make_trace_id("e-1")}


async def test_a_program_is_told_the_span_of_its_attempt(cluster: Cluster) -> None:
    stub = StubCollector()
    cluster.put(EXPERIMENTS, experiment_body())
    async with stub.up(), make_process(cluster, stub).running():
        await until(cluster, lambda: "digits-0-1" in read_variables(cluster))
    trial = cluster.get(f"{TRIALS}/digits-0")
    assert trial is not None
    told = read_variables(cluster)["digits-0-1"]["TRACEPARENT"]
    assert told == format_traceparent("e-1", trial["metadata"]["uid"], 1)


async def test_without_a_collector_nothing_is_kept_and_no_program_is_told_anything(cluster: Cluster) -> None:
    cluster.put(EXPERIMENTS, experiment_body())
    async with Process(cluster).running():
        await until(cluster, lambda: "digits-0-1" in read_variables(cluster))
    assert "TRACEPARENT" not in read_variables(cluster)["digits-0-1"]
    assert not cluster.all("configmaps")


def test_a_wrong_collector_is_a_wrong_setting() -> None:
    with pytest.raises(SettingsError, match="PODTUNE_TRACING endpoint: 'nowhere' is not an address"):
        read_settings({"PODTUNE_AGENT_IMAGE": "agent:1", "PODTUNE_TRACING": '{"endpoint": "nowhere"}'})
