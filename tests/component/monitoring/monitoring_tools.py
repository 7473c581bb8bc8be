"""The alerts of the chart, and Prometheus' own programs."""

from __future__ import annotations

import subprocess
from pathlib import Path
from typing import Any

import yaml

from e2e.devcluster.building import prometheus

CHART = Path(__file__).parents[3] / "charts" / "podtune"
ALERTS = CHART / "monitoring" / "alerts.yaml"


def run_promtool(*arguments: str, given: str = "", folder: Path | None = None) -> subprocess.CompletedProcess[str]:
    command = [str(prometheus.ensure() / "promtool"), *arguments]
    return subprocess.run(command, input=given, capture_output=True, text=True, timeout=120, check=False, cwd=folder)


def list_alerts(text: str | None = None) -> dict[str, dict[str, Any]]:
    """Each alert of a file of rules, the chart's by default, by name."""
    groups = yaml.safe_load(text if text is not None else ALERTS.read_text(encoding="utf-8"))["groups"]
    return {rule["alert"]: rule for group in groups for rule in group["rules"]}
