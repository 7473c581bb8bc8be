"""What the chart writes is understood, and what it gets wrong is told."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from podtune.api.pods.template_policy import TemplatePolicy
from podtune.app.settings import SettingsError, TlsSettings, read_settings
from podtune.controllers.pods.namespace_caps import PodLimits

MINIMAL = {"PODTUNE_AGENT_IMAGE": "agent:1"}


def test_defaults_serve_all_namespaces() -> None:
    settings = read_settings(MINIMAL)
    assert settings.namespaces == ()
    assert settings.template_policy == TemplatePolicy(results_host="podtune-results.default.svc")
    assert settings.agent.non_root is False
    assert (settings.results_port, settings.probe_port) == (8080, 8081)
    assert (settings.agent.image, settings.agent.pull_policy) == ("agent:1", "IfNotPresent")


def test_a_pod_is_somebody_of_its_own_in_the_lease() -> None:
    pod = {"PODTUNE_POD_NAME": "podtune-x", "PODTUNE_POD_UID": "u-1", "PODTUNE_POD_NAMESPACE": "system"}
    settings = read_settings(MINIMAL | pod)
    assert settings.identity == "podtune-x_u-1"
    assert settings.pod_namespace == "system"
    assert settings.agent.results_url == "http://podtune-results.system.svc:8080"


HTTPS = {"PODTUNE_RESULTS_URL": "https://podtune-results.system.svc:8443"}


def test_tls_is_for_a_url_that_says_so_and_leaves_plain_http_to_those_who_ask_for_it() -> None:
    assert read_settings(MINIMAL).results_tls is None
    settings = read_settings(MINIMAL | HTTPS | {"PODTUNE_RESULTS_TLS_SECRET": "podtune-results-tls"})
    assert settings.results_tls == TlsSettings(8443, "podtune-results.system.svc", "podtune-results-tls", None)
    assert settings.results_port is None
    mounted = {"PODTUNE_RESULTS_TLS_DIRECTORY": "/etc/podtune/tls", "PODTUNE_LISTEN_RESULTS_TLS": "9443"}
    settings = read_settings(MINIMAL | HTTPS | mounted | {"PODTUNE_RESULTS_PLAIN_HTTP": "true"})
    assert settings.results_tls == TlsSettings(9443, "podtune-results.system.svc", "", Path("/etc/podtune/tls"))
    assert settings.results_port == 8080


def test_metrics_are_for_anybody_unless_the_chart_says_otherwise() -> None:
    settings = read_settings(MINIMAL)
    assert (settings.metrics_authentication, settings.metrics_port) == (False, None)
    tls = HTTPS | {"PODTUNE_RESULTS_TLS_SECRET": "podtune-results-tls", "PODTUNE_LISTEN_METRICS_TLS": "8444"}
    settings = read_settings(MINIMAL | tls | {"PODTUNE_METRICS_AUTHENTICATION": "true"})
    assert (settings.metrics_authentication, settings.metrics_port) == (True, 8444)


@pytest.mark.parametrize(
    ("environment", "words"),
    [
        ({"PODTUNE_LISTEN_METRICS_TLS": "8444"}, "there is no TLS"),
        (HTTPS, "needs one of"),
        (HTTPS | {"PODTUNE_RESULTS_TLS_SECRET": "a", "PODTUNE_RESULTS_TLS_DIRECTORY": "/b"}, "needs one of"),
        (HTTPS | {"PODTUNE_RESULTS_TLS_SECRET": "../a"}, "the name of a Secret"),
        ({"PODTUNE_RESULTS_TLS_SECRET": "a"}, "write https, or leave them out"),
        ({"PODTUNE_RESULTS_PLAIN_HTTP": "false"}, "agents have no other way"),
    ],
)
def test_a_half_of_tls_is_refused(environment: dict[str, str], words: str) -> None:
    with pytest.raises(SettingsError, match=words):
        read_settings(MINIMAL | environment)


def test_a_searchers_deadline_is_in_seconds() -> None:
    assert read_settings(MINIMAL).proposal_deadline == 120
    assert read_settings(MINIMAL | {"PODTUNE_PROPOSAL_DEADLINE": "30"}).proposal_deadline == 30


def test_namespaces_opt_in_by_a_command_that_finds_the_operator() -> None:
    opt_in = {"PODTUNE_NAMESPACE_OPT_IN": "true"}
    assert read_settings(MINIMAL).opt_in_command == ""
    usual = read_settings(MINIMAL | opt_in | {"PODTUNE_POD_NAMESPACE": "podtune-system"})
    assert usual.opt_in_command == "kubectl podtune enable"
    elsewhere = read_settings(MINIMAL | opt_in | {"PODTUNE_POD_NAMESPACE": "tuning"})
    assert elsewhere.opt_in_command == "kubectl podtune enable --operator-namespace tuning"
    with pytest.raises(SettingsError, match="leave PODTUNE_NAMESPACES empty"):
        read_settings(MINIMAL | opt_in | {"PODTUNE_NAMESPACES": "a"})


def test_lists_are_taken_apart() -> None:
    settings = read_settings(MINIMAL | {"PODTUNE_NAMESPACES": "a, b,,", "PODTUNE_ALLOWED_SERVICE_ACCOUNTS": "trainer"})
    assert settings.namespaces == ("a", "b")
    assert settings.template_policy.service_accounts == ("trainer",)


def test_what_templates_may_say_is_the_administrators_to_set() -> None:
    settings = read_settings(
        MINIMAL
        | {
            "PODTUNE_ALLOWED_PRIORITY_CLASSES": "low,team-*",
            "PODTUNE_ALLOWED_TOLERATIONS": "",
            "PODTUNE_ALLOWED_ANNOTATION_DOMAINS": "example.com",
            "PODTUNE_ALLOWED_HOST_ALIASES": "data.example.com",
            "PODTUNE_ALLOWED_IMAGES": "registry.example.com/*",
            "PODTUNE_DENIED_SECRETS": "registry, s3-*",
            "PODTUNE_DENIED_CLAIMS": "checkpoints,store-*",
            "PODTUNE_RESULTS_URL": "http://results.example.com:8080",
            "PODTUNE_TRIALS_RUN_AS_NON_ROOT": "true",
        }
    )
    assert settings.template_policy == TemplatePolicy(
        priority_classes=("low", "team-*"),
        tolerations=(),
        annotation_domains=("example.com",),
        host_aliases=("data.example.com",),
        images=("registry.example.com/*",),
        denied_secrets=("registry", "s3-*"),
        denied_claims=("checkpoints", "store-*"),
        results_host="results.example.com",
    )
    assert settings.agent.non_root is True


def test_agents_have_the_resources_that_the_administrator_gives_them() -> None:
    assert read_settings(MINIMAL).agent.resources is None
    resources = {"requests": {"cpu": "10m"}, "limits": {"memory": "1Gi"}}
    assert read_settings(MINIMAL | {"PODTUNE_AGENT_RESOURCES": json.dumps(resources)}).agent.resources == resources


def test_limits_are_of_all_namespaces_or_of_single_ones() -> None:
    assert read_settings(MINIMAL).pod_limits == PodLimits()
    limits = {"PODTUNE_PODS_PER_NAMESPACE": "16", "PODTUNE_NAMESPACE_PODS": "a=8, b=unlimited,c=0"}
    assert read_settings(MINIMAL | limits).pod_limits == PodLimits(16, {"a": 8, "b": None, "c": 0})


@pytest.mark.parametrize(
    ("environment", "name"),
    [
        ({}, "PODTUNE_AGENT_IMAGE"),
        (MINIMAL | {"PODTUNE_LOG_LEVEL": "loud"}, "PODTUNE_LOG_LEVEL"),
        (MINIMAL | {"PODTUNE_TRIALS_RUN_AS_NON_ROOT": "yes"}, "PODTUNE_TRIALS_RUN_AS_NON_ROOT"),
        (MINIMAL | {"PODTUNE_PROPOSAL_DEADLINE": "2m"}, "PODTUNE_PROPOSAL_DEADLINE"),
        (MINIMAL | {"PODTUNE_PODS_PER_NAMESPACE": "many"}, "PODTUNE_PODS_PER_NAMESPACE"),
        (MINIMAL | {"PODTUNE_NAMESPACE_PODS": "a=8,b"}, "PODTUNE_NAMESPACE_PODS, of namespace 'b'"),
        (MINIMAL | {"PODTUNE_NAMESPACE_PODS": "a=-1"}, "PODTUNE_NAMESPACE_PODS"),
        (MINIMAL | {"PODTUNE_AGENT_RESOURCES": "{"}, "PODTUNE_AGENT_RESOURCES is no JSON"),
        (MINIMAL | {"PODTUNE_AGENT_RESOURCES": "5"}, "PODTUNE_AGENT_RESOURCES: 5 is not a map"),
        (
            MINIMAL | {"PODTUNE_AGENT_RESOURCES": '{"limits": {"memory": "much"}}'},
            r"PODTUNE_AGENT_RESOURCES\.limits\.memory: 'much' is not a quantity",
        ),
        (MINIMAL | {"PODTUNE_LISTEN_PROBES": "tcp://10.0.0.1:8081"}, "PODTUNE_LISTEN_PROBES"),
        (MINIMAL | {"PODTUNE_LISTEN_RESULTS": "0"}, "PODTUNE_LISTEN_RESULTS"),
        (MINIMAL | {"PODTUNE_LISTEN_RESULTS": "65536"}, "PODTUNE_LISTEN_RESULTS"),
        (MINIMAL | {"PODTUNE_LISTEN_RESULTS": "²"}, "PODTUNE_LISTEN_RESULTS"),
    ],
)
def test_a_mistake_names_the_variable(environment: dict[str, str], name: str) -> None:
    with pytest.raises(SettingsError, match=name):
        read_settings(environment)
