"""Labels that the values give are on every object and pod: they tell whose it is, and who pays for it."""

from __future__ import annotations

import re
from typing import Any

import pytest

from tests.component.charts.rendered import CHARTS, find_one, list_kinds, render, render_with_tests, template

pytestmark = [pytest.mark.cluster]

LABELS = {"team": "ml", "tier": "1"}
EVERYWHERE: dict[str, Any] = {
    "commonLabels": LABELS,
    "replicas": 2,
    "podDisruptionBudget": {"enabled": True},
    "apiPriority": {"enabled": True},
    "admissionPolicy": {"templates": True, "userRights": True},
    "networkPolicy": {"egress": {"enabled": True}},
    "metrics": {name: {"enabled": True} for name in ("serviceMonitor", "prometheusRule", "grafanaDashboards")},
    "embeddedS3": {"enabled": True, "image": {"repository": "versitygw", "tag": "1"}, "secret": "podtune-s3"},
    "tracing": {"endpoint": "https://otel-collector.observability:4318", "secret": "podtune-tracing"},
    "webhooks": [{"name": "one", "url": "https://events.example.com/podtune", "secret": "tracker"}],
    "dashboard": {"enabled": True, "ingress": {"enabled": True, "host": "podtune.example.com"}},
}
"""All that is optional."""
SCOPES: dict[str, dict[str, Any]] = {
    "the whole cluster": {},
    "some namespaces": {"watchNamespaces": ["a", "b"]},
    "namespaces that opt in": {"namespaceOptIn": True},
}


def test_the_values_ask_for_all_that_the_chart_has() -> None:
    sources = set(re.findall("^# Source: podtune/(.+)$", template(EVERYWHERE, tests=True).stdout, re.MULTILINE))
    chart = CHARTS / "podtune"
    assert sources == {path.relative_to(chart).as_posix() for path in chart.glob("templates/**/*.yaml")}


@pytest.mark.parametrize("scope", SCOPES.values(), ids=list(SCOPES))
def test_they_are_on_every_object_and_pod_but_select_nothing(scope: dict[str, Any]) -> None:
    documents = render_with_tests({**EVERYWHERE, **scope})
    assert list_kinds(documents) >= {
        ("PodDisruptionBudget", "podtune"),
        ("Pod", "podtune-test"),
        ("Service", "podtune-s3"),
    }
    without = [f"{d['kind']} {d['metadata']['name']}" for d in documents if not has_labels(d)]
    assert without == []
    deployments = [document["spec"] for document in documents if document["kind"] == "Deployment"]
    assert len(deployments) == 3
    for deployment in deployments:
        assert has_labels(deployment["template"])
        assert not LABELS.keys() & deployment["selector"]["matchLabels"].keys(), "a selector can't be changed later"


def test_labels_of_pods_come_before_them() -> None:
    documents = render(
        commonLabels=LABELS, podLabels={"tier": "2"}, dashboard={"enabled": True, "podLabels": {"tier": "3"}}
    )
    for name, tier in (("podtune", "2"), ("podtune-dashboard", "3")):
        deployment = find_one(documents, "Deployment", name)
        assert has_labels(deployment)
        labels = deployment["spec"]["template"]["metadata"]["labels"]
        assert (labels["team"], labels["tier"]) == ("ml", tier)


def test_the_page_says_how_to_remove_all_that_a_failed_test_leaves() -> None:
    page = (CHARTS.parent / "docs" / "how-to" / "install-with-helm.md").read_text()
    [(kinds, selector)] = re.findall(r"^kubectl delete (\S+) --all-namespaces \\\n  -l (\S+)$", page, re.MULTILINE)
    labels = dict(label.split("=") for label in selector.split(","))
    documents = render_with_tests(EVERYWHERE)
    left = [document for document in documents if "helm.sh/hook" in document["metadata"].get("annotations", {})]
    assert left == [document for document in documents if labels.items() <= document["metadata"]["labels"].items()]
    assert {document["kind"].lower() for document in left} == set(kinds.split(","))


def has_labels(document: dict[str, Any]) -> bool:
    found: dict[str, str] = document["metadata"].get("labels") or {}
    return LABELS.items() <= found.items()
