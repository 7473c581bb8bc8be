"""How the chart has results reported: by TLS, and in plain HTTP where that is wanted."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from podtune.app.settings import TlsSettings, read_settings
from tests.component.charts.rendered import NAMESPACE, find_one, list_kinds, render, template

pytestmark = [pytest.mark.cluster]

HOST = f"podtune-results.{NAMESPACE}.svc"
SECRET = ("Secret", "podtune-results-tls")


def read_pod(documents: list[dict[str, Any]]) -> dict[str, Any]:
    pod: dict[str, Any] = find_one(documents, "Deployment", "podtune")["spec"]["template"]["spec"]
    return pod


def read_variables(documents: list[dict[str, Any]]) -> dict[str, str]:
    entries = read_pod(documents)["containers"][0]["env"]
    return {entry["name"]: entry["value"] for entry in entries if "value" in entry}


def list_ports(documents: list[dict[str, Any]]) -> set[tuple[str, int]]:
    """The ports for results, which container, Service and policy have to agree on."""
    service = find_one(documents, "Service", "podtune-results")["spec"]["ports"]
    container = read_pod(documents)["containers"][0]["ports"]
    found = {(port["targetPort"], port["port"]) for port in service}
    others = {("metrics", 8081), ("metrics-tls", 8444)}
    assert {(port["name"], port["containerPort"]) for port in container} - others == found
    rules = find_one(documents, "NetworkPolicy", "podtune")["spec"]["ingress"]
    assert {port["port"] for port in rules[0]["ports"]} == {name for name, _ in found}
    return found


def may_read_secrets(documents: list[dict[str, Any]]) -> bool:
    return any("secrets" in rule.get("resources", ()) for d in documents if "rules" in d for rule in d["rules"])


def test_by_default_the_operator_makes_certificates_and_answers_its_earlier_release_too() -> None:
    documents = render()
    settings = read_settings(read_variables(documents))
    assert settings.agent.results_url == f"https://{HOST}:8443"
    assert settings.results_tls == TlsSettings(8443, HOST, "podtune-results-tls", None)
    assert settings.results_port == 8080
    assert list_ports(documents) == {("results", 8080), ("results-tls", 8443)}
    secret = find_one(documents, *SECRET)
    assert "data" not in secret, "what the operator puts there must be no difference to the chart"
    assert secret["metadata"]["annotations"] == {"helm.sh/resource-policy": "keep"}
    assert may_read_secrets(documents)


def test_without_plain_http_there_is_no_port_for_it() -> None:
    documents = render(results__plainHTTP=False)
    assert read_settings(read_variables(documents)).results_port is None
    assert list_ports(documents) == {("results-tls", 8443)}


def test_a_secret_that_is_named_is_mounted_and_no_right_needed() -> None:
    documents = render(results__tls__secret="podtune-results-cert")
    settings = read_settings(read_variables(documents))
    assert settings.results_tls is not None
    directory = settings.results_tls.directory
    assert directory == Path("/etc/podtune/results-tls")
    pod = read_pod(documents)
    assert pod["volumes"] == [{"name": "results-tls", "secret": {"secretName": "podtune-results-cert"}}]
    mount = {"name": "results-tls", "mountPath": str(directory), "readOnly": True}
    assert pod["containers"][0]["volumeMounts"] == [mount]
    assert SECRET not in list_kinds(documents)
    assert not may_read_secrets(documents)


def test_it_is_mounted_beside_those_of_webhooks() -> None:
    webhook = {"name": "tracker", "url": "https://events.example.com", "secret": "tracker"}
    documents = render(results__tls__secret="podtune-results-cert", webhooks=[webhook])
    pod = read_pod(documents)
    names = ["results-tls", "webhook-tracker"]
    assert [volume["name"] for volume in pod["volumes"]] == names
    assert [mount["name"] for mount in pod["containers"][0]["volumeMounts"]] == names


def test_without_tls_all_is_as_it_was() -> None:
    documents = render(results__tls__enabled=False)
    settings = read_settings(read_variables(documents))
    assert (settings.agent.results_url, settings.results_tls) == (f"http://{HOST}:8080", None)
    assert list_ports(documents) == {("results", 8080)}
    assert SECRET not in list_kinds(documents)
    assert not may_read_secrets(documents)


@pytest.mark.parametrize(
    ("values", "words"),
    [
        ({"results.tls.enabled": False, "results.plainHTTP": False}, "needs results.plainHTTP=true"),
        (
            {"results.tls.enabled": False, "results.tls.secret": "a"},
            "results.tls.secret needs results.tls.enabled=true",
        ),
        ({"results.tls.secret": "A/b"}, "secret"),
    ],
)
def test_what_does_not_go_together_is_refused(values: dict[str, Any], words: str) -> None:
    rendered = template(values)
    assert rendered.returncode != 0
    assert words in rendered.stderr
