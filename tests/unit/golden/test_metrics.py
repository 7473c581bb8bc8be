"""Names, types and labels of the operator's metrics are those of the committed list, and as Prometheus advises.

https://prometheus.io/docs/practices/naming
"""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from docs.reference_pages.metrics import DescribedMetric, list_metrics

LIST = Path(__file__).parents[2] / "golden" / "metrics.txt"
NAME = re.compile(r"podtune(_[a-z]+)+")
SET_BY_PROMETHEUS = {"job", "instance", "pod", "service", "endpoint", "container", "le", "quantile"}
"""Labels that are the scrape's own, or those of a type."""
OTHER_UNITS = ("_ms", "_milliseconds", "_minutes", "_hours", "_kib", "_mib", "_percent")


def read_list() -> list[str]:
    lines = LIST.read_text(encoding="utf-8").splitlines()
    return [line for line in lines if not line.startswith("#")]


def test_metrics_are_those_of_the_list() -> None:
    """To add one, add its line. To rename or remove one, read the head of the list first."""
    assert [metric.format() for metric in list_metrics()] == read_list()


@pytest.mark.parametrize("metric", list_metrics(), ids=lambda metric: metric.name)
def test_metrics_follow_the_conventions(metric: DescribedMetric) -> None:
    assert NAME.fullmatch(metric.name)
    assert (metric.kind == "counter") is metric.name.endswith("_total"), "counters, and they alone, end in _total"
    assert not metric.name.endswith(OTHER_UNITS), "use base units: seconds, bytes, ratio"
    assert metric.kind in ("counter", "gauge", "histogram")
    assert metric.kind != "histogram" or metric.name.endswith("_seconds")
    assert not SET_BY_PROMETHEUS & set(metric.labels)
    assert metric.meaning.endswith(".")
