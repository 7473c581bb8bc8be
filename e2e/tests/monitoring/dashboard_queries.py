"""The queries of the dashboards, as Grafana sends them when everything is chosen."""

from __future__ import annotations

from e2e.tests.monitoring.prometheus_server import SCRAPE_JOB, SCRAPED_NAMESPACE, PrometheusServer
from integrations.grafana.dashboards import DASHBOARDS

CHOICES = {
    "$__rate_interval": "10s",
    "$job": SCRAPE_JOB,
    "$operator": SCRAPED_NAMESPACE,
    "$namespace": ".+",
    "$experiment": ".+",
}
"""Grafana's variables, as it fills them in."""


def list_queries() -> list[str]:
    """Those of all panels of the dashboards."""
    return [_fill_in(query) for board in DASHBOARDS for query in board.list_queries()]


def list_unanswered(server: PrometheusServer, exempt: tuple[str, ...] = ()) -> list[str]:
    """Those to which Prometheus returns nothing, but for what names one of `exempt`; it must take all of them."""
    empty = [query for query in list_queries() if not server.query(query)]
    return [query for query in empty if not any(name in query for name in exempt)]


def _fill_in(query: str) -> str:
    for name, value in CHOICES.items():
        query = query.replace(name, value)
    return query
