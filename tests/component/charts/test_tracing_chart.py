"""The collector of traces in the chart: setting, Secret and rights, and none of them where there is no collector."""

from __future__ import annotations

import json
from typing import Any

import pytest

from podtune.tracing.collector import parse_collector
from tests.component.charts.rendered import list_config_map_rules, read_operator, render, template

ENDPOINT = "http://otel-collector.observability:4318"
COLLECTOR = {"endpoint": ENDPOINT, "secret": "podtune-tracing", "attributes": {"k8s.cluster.name": "lab"}}


def test_the_collector_is_handed_over_as_the_operator_reads_it() -> None:
    container = read_operator(render(tracing=COLLECTOR))
    (variable,) = [entry for entry in container["env"] if entry["name"] == "PODTUNE_TRACING"]
    collector = parse_collector(variable["value"])
    assert collector is not None
    assert collector.url == f"{ENDPOINT}/v1/traces"
    assert collector.attributes == {"k8s.cluster.name": "lab"}
    assert str(collector.secrets) == "/etc/podtune/tracing"


def test_its_secret_is_mounted_where_the_operator_looks() -> None:
    container = read_operator(render(tracing=COLLECTOR))
    assert container["volumeMounts"] == [{"name": "tracing", "mountPath": "/etc/podtune/tracing", "readOnly": True}]
    assert container["volumes"] == [{"name": "tracing", "secret": {"secretName": "podtune-tracing"}}]
    assert "podtune-tracing" not in json.dumps(container["env"])


def test_a_collector_needs_no_secret() -> None:
    container = read_operator(render(tracing={"endpoint": ENDPOINT}))
    (variable,) = [entry for entry in container["env"] if entry["name"] == "PODTUNE_TRACING"]
    collector = parse_collector(variable["value"])
    assert collector is not None
    assert collector.secrets is None
    assert "volumeMounts" not in container


def test_the_operator_may_change_the_config_map_of_its_traces_alone() -> None:
    create, change = list_config_map_rules(render(tracing=COLLECTOR))
    assert (create["verbs"], create.get("resourceNames")) == (["create"], None)
    assert (change["verbs"], change["resourceNames"]) == (["get", "update"], ["podtune-operator-traces"])


def test_without_a_collector_there_is_nothing_of_traces() -> None:
    documents = render()
    container = read_operator(documents)
    assert not [entry for entry in container["env"] if entry["name"] == "PODTUNE_TRACING"]
    assert "volumeMounts" not in container
    assert list_config_map_rules(documents) == []


def test_traces_and_webhooks_and_tls_go_together() -> None:
    hook = {"name": "room", "url": "http://room.chat.svc:8080/", "secret": "podtune-room"}
    container = read_operator(render(tracing=COLLECTOR, webhooks=[hook], results__tls__secret="podtune-tls"))
    mounts = {mount["name"] for mount in container["volumeMounts"]}
    assert mounts == {"results-tls", "tracing", "webhook-room"} == {volume["name"] for volume in container["volumes"]}


@pytest.mark.parametrize(
    "change",
    [
        {"endpoint": "otel:4317"},
        {"endpoint": "http://me:word@otel:4318"},
        {"endpoint": f"{ENDPOINT}/v1/traces"},
        {"endpoint": ""},
        {"protocol": "grpc"},
    ],
)
def test_what_the_operator_would_refuse_helm_refuses(change: dict[str, Any]) -> None:
    assert template({"tracing": COLLECTOR | change}).returncode != 0
