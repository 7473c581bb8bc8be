"""The alerts of the chart, and Prometheus' own programs."""

from __future__ import annotations

import subprocess
from pathlib import Path
from typing import Any

import pytest
import yaml

from e2e.devcluster.building import prometheus
from e2e.devcluster.errors import ClusterError

CHART = Path(__file__).parents[3] / "charts" / "podtune"
ALERTS = CHART / "monitoring" / "alerts.yaml"


def find_prometheus() -> Path:
    """The directory of `prometheus` and `promtool`; where they can't be had, the test is skipped."""
    try:
        return prometheus.ensure()
    except ClusterError as error:
        pytest.skip(str(error))


def run_promtool(*arguments: str, given: str = "", folder: Path | None = None) -> subprocess.CompletedProcess[str]:
    command = [str(find_prometheus() / "promtool"), *arguments]
    return subprocess.run(command, input=given, capture_output=True, text=True, timeout=120, check=False, cwd=folder)


def list_alerts(text: str | None = None) -> dict[str, dict[str, Any]]:
    """Each alert of a file of rules, the chart's by default, by name."""
    groups = yaml.safe_load(text if text is not None else ALERTS.read_text(encoding="utf-8"))["groups"]
    return {rule["alert"]: rule for group in groups for rule in group["rules"]}
