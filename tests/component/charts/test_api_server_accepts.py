"""An API server takes what the charts render, with many values: it is asked by a dry run, and warns of nothing.

It is one of the tests' own, so that nothing else is in its way.
"""

from __future__ import annotations

import json
import os
import subprocess
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
import yaml

from e2e.devcluster.building import prometheus_operator
from podtune.cli.client.api_client import HttpApi
from podtune.cli.client.kubeconfig import connect
from tests.component.charts.rendered import NAMESPACE, SOMEWHERE, find_one, render_with_tests
from tests.component.own_api_server import create_definitions, find_programs, running_api_server

pytestmark = [pytest.mark.cluster, pytest.mark.every_version]

# In the release's namespace.
ENFORCED = {f"pod-security.kubernetes.io/{mode}": "restricted" for mode in ("enforce", "warn")}
DIGEST = f"sha256:{'0a' * 32}"
TLS = {"tls": {"secret": "certificate"}}
PROXY = {"userHeader": "X-User", "groupsHeader": "X-Groups", "authoritySecret": "authority"}
STORE = {"namespace": "team-a", "secret": "read", "store": {"bucket": "models", "endpoint": "https://s3.example.com"}}
S3 = {"enabled": True, "image": {"repository": "versitygw", "tag": "1"}, "secret": "podtune-s3"}
KUBE_PROMETHEUS = {"release": "kube-prometheus-stack"}
MONITORING: dict[str, Any] = {
    "commonLabels": {"team": "ml"},
    "metrics": {
        "serviceMonitor": {"enabled": True, "interval": "1m", "labels": KUBE_PROMETHEUS},
        "prometheusRule": {
            "enabled": True,
            "labels": KUBE_PROMETHEUS,
            "disabled": ["PodtuneNodesAvoided"],
            "runbooks": "https://docs.example.com/podtune/runbooks",
        },
        "grafanaDashboards": {"enabled": True},
    },
}
"""All that the Prometheus operator's objects can have."""
COMBINATIONS: dict[str, dict[str, Any]] = {
    "defaults": {},
    "nothing that is optional": {
        "networkPolicy": {"enabled": False},
        "rbac": {"aggregateToDefaultRoles": False},
        "serviceAccount": {"create": False, "name": "mine"},
    },
    "two replicas": {"replicas": 2, "podDisruptionBudget": {"enabled": True, "maxUnavailable": "50%"}},
    "namespaces": {"watchNamespaces": [NAMESPACE], "dashboard": {"enabled": True}},
    "placed": {**SOMEWHERE, "dashboard": {"enabled": True, **SOMEWHERE}},
    "labels and digests": {
        "commonLabels": {"team": "ml"},
        "image": {"digest": DIGEST},
        "agent": {"image": {"digest": DIGEST}},
        "imagePullSecrets": [{"name": "registry"}],
        "dashboard": {"enabled": True, "image": {"digest": DIGEST, "variant": "gp"}},
        "embeddedS3": {**S3, "image": {"repository": "versitygw", "digest": DIGEST}},
    },
    "limits": {
        "podLimits": {"perNamespace": 10, "namespaces": {"team-a": 8, "team-b": "unlimited"}},
        "allowedTolerations": ["*"],
        "deniedSecrets": ["admin-*"],
        "trialsRunAsNonRoot": True,
    },
    "dashboards": {"metrics": {"grafanaDashboards": {"enabled": True, "annotations": {"grafana_folder": "Podtune"}}}},
    "monitoring": MONITORING,
    "monitoring with a token in a Secret, without TLS": {
        "metrics": {"serviceMonitor": {"enabled": True, "token": {"secret": "reader", "key": "token"}}},
        "results": {"tls": {"enabled": False}},
    },
    "flows": {"apiPriority": {"enabled": True, "shares": 5}},
    "webhooks": {
        "webhooks": [
            {"name": "one", "url": "https://events.example.com/podtune", "secret": "tracker", "namespaces": ["team-*"]},
            {"name": "two", "url": "http://events.example.com", "types": ["dev.podtune.trial.*"], "batchSize": 9},
        ]
    },
    "traces": {
        "tracing": {
            "endpoint": "https://collector.example.com:4318",
            "secret": "collector",
            "attributes": {"k8s.cluster.name": "a: b"},
        }
    },
    "open dashboard": {"dashboard": {"enabled": True, "open": True, "pathPrefix": "/podtune", "title": "a: b"}},
    "dashboard to the world": {
        "dashboard": {
            "enabled": True,
            "actions": True,
            **TLS,
            "proxy": PROXY,
            "stores": [STORE],
            "gpuPrice": 2.5,
            "currency": "EUR",
            "service": {"type": "LoadBalancer", "port": 443, "annotations": {"example.com/internal": "true"}},
            "ingress": {"enabled": True, "host": "podtune.example.com", "className": "nginx", "tlsSecret": "host"},
        },
        "networkPolicy": {"dashboardNamespaces": ["ingress-nginx"], "metricsNamespaces": ["monitoring"]},
    },
    "confined": {
        "networkPolicy": {
            "egress": {
                "enabled": True,
                "apiServerAddresses": ["10.0.0.1/32", "fd00::1/128"],
                "rules": [
                    {
                        "to": [{"ipBlock": {"cidr": "10.1.0.0/16", "except": ["10.1.1.0/24"]}}],
                        "ports": [{"protocol": "TCP", "port": 3000, "endPort": 3010}, {"port": "http"}],
                    },
                ],
            }
        },
        "webhooks": [{"name": "one", "url": "http://events.example.com:8080/podtune"}],
        "tracing": {"endpoint": "http://collector.example.com:4318"},
        "dashboard": {"enabled": True, "stores": [STORE]},
        "embeddedS3": S3,
    },
    "S3": {"embeddedS3": {**S3, "existingClaim": "data"}, "dashboard": {"enabled": True}},
    "long names": {
        "fullnameOverride": "a-name-of-fifty-characters-as-long-as-names-can-be",
        "dashboard": {"enabled": True},
    },
}


@dataclass(frozen=True)
class Server:
    """An API server that says what it would do."""

    kubectl: Path
    kubeconfig: Path

    def create(self, *objects: dict[str, Any], dry_run: bool = True) -> subprocess.CompletedProcess[str]:
        """Creates objects, or asks whether they could be."""
        options = ["--dry-run=server"] if dry_run else []
        command = [str(self.kubectl), "create", "--validate=strict", "--output=name", "--filename=-", *options]
        given = json.dumps({"apiVersion": "v1", "kind": "List", "items": objects})
        environment = {**os.environ, "KUBECONFIG": str(self.kubeconfig)}
        return subprocess.run(
            command, input=given, capture_output=True, text=True, timeout=60, check=False, env=environment
        )


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    binaries = find_programs()
    with running_api_server(binaries, tmp_path_factory.mktemp("api-server")) as kubeconfig:
        read = [yaml.safe_load(file.read_text(encoding="utf-8")) for file in prometheus_operator.ensure()]
        create_definitions(HttpApi(connect(kubeconfig)), read)
        server = Server(binaries / "kubectl", kubeconfig)
        namespace = {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": NAMESPACE, "labels": ENFORCED}}
        created = server.create(namespace, dry_run=False)
        assert created.returncode == 0, created.stderr
        yield server


def render_all(values: dict[str, Any]) -> list[dict[str, Any]]:
    """All objects, those of `helm test`, too; pods of Deployments besides, for Pod Security refuses pods alone."""
    documents = render_with_tests(values)
    deployments = [(d["metadata"]["name"], d["spec"]["template"]) for d in documents if d["kind"] == "Deployment"]
    pods = [
        {"apiVersion": "v1", "kind": "Pod", **template, "metadata": {"name": name[:50], "namespace": NAMESPACE}}
        for name, template in deployments
    ]
    return [*documents, *pods]


@pytest.mark.parametrize("values", COMBINATIONS.values(), ids=list(COMBINATIONS))
def test_the_api_server_takes_what_is_rendered(server: Server, values: dict[str, Any]) -> None:
    documents = render_all(values)
    asked = server.create(*documents)
    assert asked.returncode == 0, asked.stderr
    assert asked.stderr == "", "it warns of what is deprecated, and of pods that are not restricted"
    assert len(asked.stdout.split()) == len(documents)


def test_no_container_of_ours_writes_to_its_root_or_keeps_a_capability() -> None:
    pods = [d for d in render_all({"embeddedS3": S3, "dashboard": {"enabled": True}}) if d["kind"] == "Pod"]
    assert sorted(pod["metadata"]["name"] for pod in pods) == [
        "podtune", "podtune-dashboard", "podtune-s3", "podtune-test",
    ]  # fmt: skip
    for pod in pods:
        assert pod["spec"]["securityContext"]["seccompProfile"] == {"type": "RuntimeDefault"}
        for container in [*pod["spec"].get("initContainers", ()), *pod["spec"]["containers"]]:
            assert container["securityContext"] == {
                "allowPrivilegeEscalation": False,
                "capabilities": {"drop": ["ALL"]},
                "readOnlyRootFilesystem": True,
            }


def test_a_misspelt_field_and_a_pod_that_is_not_restricted_would_be_found(server: Server) -> None:
    documents = render_all({})
    deployment = next(d for d in documents if d["kind"] == "Deployment")
    pod = next(d for d in documents if d["kind"] == "Pod")
    deployment["spec"]["template"]["spec"]["serviceAcountName"] = "mine"
    pod["spec"]["securityContext"]["runAsNonRoot"] = False
    assert "serviceAcountName" in server.create(deployment).stderr
    assert "violates PodSecurity" in server.create(pod).stderr


def test_a_misspelt_field_of_what_the_prometheus_operator_reads_would_be_found(server: Server) -> None:
    documents = render_all(MONITORING)
    monitor, rule = (find_one(documents, kind, "podtune") for kind in ("ServiceMonitor", "PrometheusRule"))
    monitor["spec"]["endpoints"][0]["tlsConfig"]["serverNames"] = "podtune"
    rule["spec"]["groups"][0]["rules"][0]["annotation"] = {}
    assert 'serverNames"' in server.create(monitor).stderr
    assert 'annotation"' in server.create(rule).stderr
