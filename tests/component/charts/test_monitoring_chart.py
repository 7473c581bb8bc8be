"""Alerts and dashboards, as the chart renders them for the Prometheus operator and for Grafana's sidecar."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
import yaml

from tests.component.charts.rendered import NAMESPACE, find_one, list_kinds, render, template
from tests.component.monitoring.monitoring_tools import list_alerts, run_promtool

KUBE_PROMETHEUS = {"release": "kube-prometheus-stack"}


def render_rules(**values: Any) -> dict[str, Any]:
    rendered = {f"metrics__prometheusRule__{name}": value for name, value in values.items()}
    documents = render(metrics__prometheusRule__enabled=True, **rendered)
    return find_one(documents, "PrometheusRule", "podtune")


def name_alerts(rule: dict[str, Any]) -> list[str]:
    return list(list_alerts(yaml.safe_dump(rule["spec"])))


def test_rules_and_dashboards_are_there_only_when_asked_for() -> None:
    assert not {"PrometheusRule", "ServiceMonitor"} & {kind for kind, _ in list_kinds(render())}
    assert not [name for kind, name in list_kinds(render()) if kind == "ConfigMap"]


def test_the_rule_has_all_alerts_for_the_releases_own_job_and_namespace() -> None:
    rule = render_rules(labels=KUBE_PROMETHEUS)
    assert KUBE_PROMETHEUS.items() <= rule["metadata"]["labels"].items()
    assert name_alerts(rule) == list(list_alerts())
    written = json.dumps(rule)
    assert "podtune-system" not in written
    assert f'up{{job=\\"podtune-metrics\\",namespace=\\"{NAMESPACE}\\"}}' in written
    other = json.dumps(render(release="tuner", metrics__prometheusRule__enabled=True))
    assert 'job=\\"tuner-podtune-metrics\\"' in other
    assert 'job=\\"podtune-metrics\\"' not in other


def test_prometheus_takes_the_rendered_rule(tmp_path: Path) -> None:
    (tmp_path / "rules.yaml").write_text(yaml.safe_dump(render_rules()["spec"]), encoding="utf-8")
    checked = run_promtool("check", "rules", "rules.yaml", folder=tmp_path)
    assert checked.returncode == 0, checked.stderr


def test_alerts_are_left_out_by_name_and_a_group_without_any_too() -> None:
    left = name_alerts(render_rules(disabled=["PodtuneDown", "PodtuneNodesAvoided"]))
    assert set(list_alerts()) - set(left) == {"PodtuneDown", "PodtuneNodesAvoided"}
    of_experiments = [
        name for name, rule in list_alerts().items() if rule["annotations"]["runbook_url"].startswith("experiments.md")
    ]
    assert [group["name"] for group in render_rules(disabled=of_experiments)["spec"]["groups"]] == ["podtune-operator"]
    misspelt = template({"metrics.prometheusRule.disabled": ["PodtuneDwon"]})
    assert "at '/metrics/prometheusRule/disabled/0'" in misspelt.stderr, "it says where, and which ones there are"


@pytest.mark.parametrize("base", ["https://docs.example.com/runbooks", "https://docs.example.com/runbooks/"])
def test_each_alert_links_to_its_runbook_where_these_are(base: str) -> None:
    for group in render_rules(runbooks=base)["spec"]["groups"]:
        for rule in group["rules"]:
            page, _, anchor = rule["annotations"]["runbook_url"].partition("#")
            assert page.startswith("https://docs.example.com/runbooks/")
            assert page.endswith(".md")
            assert anchor == rule["alert"].lower()


def test_dashboards_are_config_maps_that_grafanas_sidecar_finds() -> None:
    documents = render(
        metrics__grafanaDashboards__enabled=True,
        metrics__grafanaDashboards__annotations={"grafana_folder": "Podtune"},
    )
    titles = []
    for document in documents:
        if document["kind"] == "ConfigMap":
            assert document["metadata"]["labels"]["grafana_dashboard"] == "1"
            assert document["metadata"]["annotations"] == {"grafana_folder": "Podtune"}
            [(file, text)] = document["data"].items()
            dashboard = json.loads(text)
            assert file == f"{dashboard['uid']}.json"
            titles.append(dashboard["title"])
    assert sorted(titles) == ["Podtune / Experiments", "Podtune / Operations"]


def test_metrics_of_experiments_keep_their_namespace() -> None:
    monitor = find_one(render(metrics__serviceMonitor__enabled=True), "ServiceMonitor", "podtune")
    assert [endpoint["honorLabels"] for endpoint in monitor["spec"]["endpoints"]] == [True]
