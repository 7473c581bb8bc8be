"""The dashboards for Grafana ask for metrics that there are, and their panels lie beside each other."""

from __future__ import annotations

import json
import re
from itertools import combinations
from typing import Any

import pytest

from docs.reference_pages.metrics import list_metrics
from integrations.grafana.dashboards import DASHBOARDS, build_files
from integrations.grafana.grafana import WIDTH, Dashboard

BESIDES = {"up", "ALERTS", "process_cpu_seconds_total", "process_resident_memory_bytes", "process_start_time_seconds"}
"""Prometheus' own, and those of every Python process."""

each_dashboard = pytest.mark.parametrize("dashboard", DASHBOARDS, ids=lambda dashboard: dashboard.uid)


def overlap(one: dict[str, int], other: dict[str, int]) -> bool:
    return (
        one["x"] < other["x"] + other["w"]
        and other["x"] < one["x"] + one["w"]
        and one["y"] < other["y"] + other["h"]
        and other["y"] < one["y"] + one["h"]
    )


@each_dashboard
def test_each_query_is_about_a_metric_that_there_is(dashboard: Dashboard) -> None:
    known = BESIDES | {metric.name for metric in list_metrics()}
    for query in dashboard.list_queries():
        for name in re.findall(r"(\w+){", query):
            assert name.removesuffix("_bucket") in known, query


@each_dashboard
def test_each_choice_that_a_query_depends_on_is_offered(dashboard: Dashboard) -> None:
    offered = {variable.name for variable in dashboard.variables} | {"__rate_interval"}
    asked = [*dashboard.list_queries(), *(variable.query for variable in dashboard.variables)]
    assert {name for query in asked for name in re.findall(r"\$(\w+)", query)} <= offered


@each_dashboard
def test_panels_lie_beside_each_other_and_each_is_called_by_a_name_and_a_number(dashboard: Dashboard) -> None:
    panels: list[dict[str, Any]] = json.loads(dashboard.format())["panels"]
    assert len({panel["id"] for panel in panels}) == len(panels) > 10
    for panel in panels:
        assert panel["title"]
        assert panel["gridPos"]["x"] + panel["gridPos"]["w"] <= WIDTH
    for one, other in combinations(panels, 2):
        assert not overlap(one["gridPos"], other["gridPos"]), (one["title"], other["title"])


def test_the_files_of_the_chart_and_of_the_documentation_are_made_of_the_description() -> None:
    for path, text in build_files().items():
        assert path.read_text(encoding="utf-8") == text, "run python docs/generate_reference.py --write"
