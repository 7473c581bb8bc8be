"""Where pods of ours may go, in the chart as Helm renders it. That it is enforced, e2e/tests/doors shows."""

from __future__ import annotations

from typing import Any

import pytest
import yaml

from tests.component.charts.rendered import CHARTS, NAMESPACE, find_one, list_kinds, render, run_helm, template

pytestmark = [pytest.mark.cluster]

CONFINED: dict[str, Any] = {"networkPolicy__egress__enabled": True}
DNS = [{"ports": [{"protocol": "UDP", "port": 53}, {"protocol": "TCP", "port": 53}]}]
S3 = {"enabled": True, "image": {"repository": "versitygw", "tag": "1"}, "secret": "podtune-s3"}


def open_ports(*numbers: int) -> dict[str, Any]:
    return {"ports": [{"protocol": "TCP", "port": number} for number in numbers]}


def read_policy(name: str, **values: Any) -> dict[str, Any]:
    policy: dict[str, Any] = find_one(render(**values), "NetworkPolicy", name)["spec"]
    return policy


def test_nobody_is_kept_in_unless_it_is_asked_for() -> None:
    for name in ("podtune", "podtune-dashboard"):
        policy = read_policy(name, dashboard__enabled=True)
        assert policy["policyTypes"] == ["Ingress"]
        assert "egress" not in policy


def test_the_operator_goes_to_dns_the_api_server_and_receivers_of_webhooks() -> None:
    policy = read_policy("podtune", **CONFINED)
    assert policy["policyTypes"] == ["Ingress", "Egress"]
    assert policy["egress"] == [*DNS, open_ports(443, 6443)]
    receivers = [
        {"name": "one", "url": "https://events.example.com/podtune?port=:99"},
        {"name": "two", "url": "http://events.example.com"},
        {"name": "three", "url": "http://[fd00::1]:8080/"},
        {"name": "four", "url": "https://events.example.com:443"},
    ]
    with_receivers = read_policy("podtune", **CONFINED, webhooks=receivers)["egress"]
    assert with_receivers == [*DNS, open_ports(443, 6443), open_ports(443, 80, 8080)]


def test_the_operator_goes_to_the_collector_of_traces() -> None:
    collector = "http://otel-collector.observability:4318"
    assert read_policy("podtune", **CONFINED, tracing__endpoint=collector)["egress"][-1] == open_ports(4318)
    receivers = [{"name": "one", "url": "https://events.example.com"}]
    both = read_policy("podtune", **CONFINED, tracing__endpoint=collector, webhooks=receivers)["egress"]
    assert both == [*DNS, open_ports(443, 6443), open_ports(4318, 443)]


def test_the_api_server_may_be_named_and_more_be_added() -> None:
    more = {"to": [{"namespaceSelector": {"matchLabels": {"team": "chat"}}}], "ports": [{"protocol": "TCP", "port": 1}]}
    egress = read_policy(
        "podtune",
        **CONFINED,
        networkPolicy__egress__apiServerPorts=[16443],
        networkPolicy__egress__apiServerAddresses=["10.0.0.1/32", "fd00::1/128"],
        networkPolicy__egress__rules=[more],
    )["egress"]
    blocks = [{"ipBlock": {"cidr": cidr}} for cidr in ("10.0.0.1/32", "fd00::1/128")]
    assert egress == [*DNS, {**open_ports(16443), "to": blocks}, more]


def test_the_dashboard_goes_to_its_stores_too() -> None:
    stores = [
        {"namespace": "team-a", "secret": "a", "store": {"bucket": "models"}},
        {"namespace": "team-b", "secret": "b", "store": {"bucket": "models", "endpoint": "http://s3.example:9000"}},
    ]
    values = {**CONFINED, "dashboard__enabled": True}
    assert read_policy("podtune-dashboard", **values)["egress"] == [*DNS, open_ports(443, 6443)]
    egress = read_policy("podtune-dashboard", **values, dashboard__stores=stores)["egress"]
    assert egress == [*DNS, open_ports(443, 6443), open_ports(443, 9000)]


def test_the_embedded_s3_server_goes_nowhere_in_any_case() -> None:
    policy = read_policy("podtune-s3", embeddedS3=S3)
    assert policy["policyTypes"] == ["Ingress", "Egress"]
    assert "egress" not in policy


def test_the_pod_of_helm_test_is_confined_before_it_runs() -> None:
    options = ["-n", NAMESPACE, "--kube-version=1.34.0", "--show-only=templates/tests/smoke-test.yaml"]
    options.append("--set=networkPolicy.egress.enabled=true")
    rendered = run_helm("template", "podtune", str(CHARTS / "podtune"), *options)
    documents = list(yaml.safe_load_all(rendered.stdout))
    policy, pod = (find_one(documents, kind, "podtune-test") for kind in ("NetworkPolicy", "Pod"))
    assert policy["spec"]["podSelector"]["matchLabels"].items() <= pod["metadata"]["labels"].items()
    assert policy["spec"]["egress"] == [*DNS, open_ports(443, 6443)]
    weights = [int(found["metadata"]["annotations"]["helm.sh/hook-weight"]) for found in (policy, pod)]
    assert weights == sorted(set(weights)), "the policy comes first"


@pytest.mark.parametrize(
    "values",
    [
        {"networkPolicy.egress.apiServerPorts": []},
        {"networkPolicy.egress.apiServerAddresses": ["kubernetes.default"]},
        {"networkPolicy.egress.rules": [{"from": []}]},
    ],
)
def test_what_is_no_rule_is_refused(values: dict[str, Any]) -> None:
    assert template(values).returncode != 0


def test_without_policies_there_are_none() -> None:
    documents = render(networkPolicy__enabled=False, **CONFINED, dashboard__enabled=True, embeddedS3=S3)
    assert "NetworkPolicy" not in {kind for kind, _ in list_kinds(documents)}
