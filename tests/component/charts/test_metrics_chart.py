"""Who may read the metrics, as the chart sets it."""

from __future__ import annotations

from typing import Any

import pytest

from podtune.app.settings import read_settings
from tests.component.charts.rendered import NAME, NAMESPACE, find_one, list_kinds, render

pytestmark = [pytest.mark.cluster]

MONITOR: dict[str, Any] = {"metrics__serviceMonitor__enabled": True}
READER = ("ClusterRole", f"{NAME}-metrics-reader")


def read(documents: list[dict[str, Any]]) -> tuple[bool, int | None]:
    """Whether the operator asks who reads the metrics, and the port that they have for themselves."""
    entries = find_one(documents, "Deployment", "podtune")["spec"]["template"]["spec"]["containers"][0]["env"]
    settings = read_settings({entry["name"]: entry["value"] for entry in entries if "value" in entry})
    return settings.metrics_authentication, settings.metrics_port


def read_endpoint(documents: list[dict[str, Any]]) -> dict[str, Any]:
    """What the ServiceMonitor says, once its port is that of the Service, the container and the policy."""
    (endpoint,) = find_one(documents, "ServiceMonitor", "podtune")["spec"]["endpoints"]
    name = endpoint.pop("port")
    (service,) = find_one(documents, "Service", "podtune-metrics")["spec"]["ports"]
    ports = find_one(documents, "Deployment", "podtune")["spec"]["template"]["spec"]["containers"][0]["ports"]
    assert service["name"] == service["targetPort"] == name
    assert service["port"] == next(port["containerPort"] for port in ports if port["name"] == name)
    rules = find_one(documents, "NetworkPolicy", "podtune")["spec"]["ingress"]
    assert rules[1]["ports"] == [{"protocol": "TCP", "port": name}]
    return {key: endpoint.get(key) for key in ("scheme", "bearerTokenFile", "authorization", "tlsConfig")}


def may_ask(documents: list[dict[str, Any]]) -> bool:
    rules = find_one(documents, "ClusterRole", NAME)["rules"]
    return any("subjectaccessreviews" in rule.get("resources", ()) for rule in rules)


def test_by_default_a_token_is_wanted_and_metrics_come_by_tls() -> None:
    for namespaces in ([], ["team-a"]):
        documents = render(watchNamespaces=namespaces, **MONITOR)
        assert read(documents) == (True, 8444)
        endpoint = read_endpoint(documents)
        assert endpoint["scheme"] == "https"
        assert endpoint["bearerTokenFile"]
        assert endpoint["authorization"] is None
        assert endpoint["tlsConfig"] == {
            "serverName": f"podtune-results.{NAMESPACE}.svc",
            "ca": {"secret": {"name": "podtune-results-tls", "key": "ca.crt"}},
        }
        assert find_one(documents, *READER)["rules"] == [{"nonResourceURLs": ["/metrics"], "verbs": ["get"]}]
        assert may_ask(documents), "with watchNamespaces, too: who sends a token is no namespace's matter"


@pytest.mark.parametrize("tls", [True, False])
def test_a_token_in_a_secret_is_sent_and_no_file_is_named(tls: bool) -> None:
    token: dict[str, Any] = {"metrics__serviceMonitor__token": {"secret": "prometheus.reader", "key": "1"}}
    endpoint = read_endpoint(render(results__tls__enabled=tls, **MONITOR, **token))
    assert endpoint["authorization"] == {"type": "Bearer", "credentials": {"name": "prometheus.reader", "key": "1"}}
    assert endpoint["bearerTokenFile"] is None, "what names a file is passed over where no files may be named"
    named = read_endpoint(render(metrics__serviceMonitor__token__secret="reader", **MONITOR))
    assert named["authorization"]["credentials"] == {"name": "reader", "key": "token"}, "the key that Kubernetes fills"
    assert read_endpoint(render(metrics__authentication=False, **MONITOR, **token))["authorization"] is None


def test_a_certificate_of_somebody_elses_is_believed_by_its_own_authority() -> None:
    documents = render(results__tls__secret="podtune-cert", **MONITOR)
    assert read_endpoint(documents)["tlsConfig"]["ca"] == {"secret": {"name": "podtune-cert", "key": "ca.crt"}}


def test_without_tls_the_token_goes_to_the_port_of_the_probes() -> None:
    documents = render(results__tls__enabled=False, **MONITOR)
    assert read(documents) == (True, None)
    endpoint = read_endpoint(documents)
    assert (endpoint["scheme"], endpoint["tlsConfig"]) == (None, None)
    assert endpoint["bearerTokenFile"]


def test_without_authentication_all_is_as_it_was() -> None:
    documents = render(metrics__authentication=False, **MONITOR)
    assert read(documents) == (False, None)
    assert set(read_endpoint(documents).values()) == {None}
    assert READER not in list_kinds(documents)
    assert not may_ask(documents)
