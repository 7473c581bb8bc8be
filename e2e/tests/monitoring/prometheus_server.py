"""A real Prometheus that scrapes an operator and evaluates the chart's alerts, with seconds for minutes."""

from __future__ import annotations

import json
import re
import subprocess
import urllib.error
import urllib.parse
import urllib.request
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import yaml

from e2e.chaos.processes.free_ports import free_port
from e2e.devcluster.building import prometheus
from e2e.devcluster.processes import wait_until
from e2e.install import ROOT

ALERT_RULES = ROOT / "charts" / "podtune" / "monitoring" / "alerts.yaml"
SCRAPE_JOB, SCRAPED_NAMESPACE = "podtune-metrics", "podtune-system"
"""As the chart's ServiceMonitor makes them, where the release is in this namespace."""
_DURATION = re.compile(r"(?<=[\[ ])(\d+)([mhd])(?=\]|$|\n)")
_SECONDS = {"m": 1, "h": 60, "d": 1440}
_START_SECONDS = 60.0


def shrink_durations(rules: str) -> str:
    """Rules with a second for each minute: windows, offsets, and how long something must last."""
    return _DURATION.sub(lambda found: f"{int(found[1]) * _SECONDS[found[2]]}s", rules)


@dataclass(frozen=True)
class PrometheusServer:
    """One that runs."""

    url: str

    def query(self, expression: str) -> list[dict[str, Any]]:
        """What an expression is now: a value for each set of labels.

        Raises:
            AssertionError: It is not valid; the message is Prometheus'.
        """
        found: list[dict[str, Any]] = self._get("query", query=expression)["result"]
        return found

    def list_rules(self) -> dict[str, dict[str, Any]]:
        """Each alert with its state, by name."""
        groups = self._get("rules")["groups"]
        return {rule["name"]: rule for group in groups for rule in group["rules"]}

    def list_firing(self) -> set[str]:
        """Names of the alerts that fire."""
        return {name for name, rule in self.list_rules().items() if rule["state"] == "firing"}

    def list_targets(self) -> list[dict[str, Any]]:
        """What it scrapes, with the last error."""
        found: list[dict[str, Any]] = self._get("targets")["activeTargets"]
        return found

    def _get(self, what: str, **params: str) -> dict[str, Any]:
        url = f"{self.url}/api/v1/{what}?{urllib.parse.urlencode(params)}"
        try:
            with urllib.request.urlopen(url, timeout=30) as response:
                answer = json.load(response)
        except urllib.error.HTTPError as error:
            raise AssertionError(f"{params}: {error.read().decode()}") from error
        data: dict[str, Any] = answer["data"]
        return data


@dataclass(frozen=True)
class ScrapeTls:
    """How the operator is known where it serves its metrics by HTTPS: by its authority, and by its name."""

    authority: Path
    server_name: str


@contextmanager
def running_prometheus(
    directory: Path, targets: Sequence[str], token: Path, tls: ScrapeTls | None = None
) -> Iterator[PrometheusServer]:
    """Runs it until the context ends.

    Args:
        directory: For its files.
        targets: Host and port of each operator's metrics; its pod is called podtune-0, and so on.
        token: A file with the token to send; an operator that asks for none takes no notice of it.
        tls: For HTTPS; None for plain HTTP.

    Raises:
        ClusterError: There is no Prometheus and none can be had, or it does not start.
    """
    program = prometheus.ensure() / "prometheus"
    (directory / "alerts.yaml").write_text(shrink_durations(ALERT_RULES.read_text(encoding="utf-8")), encoding="utf-8")
    (directory / "prometheus.yaml").write_text(yaml.safe_dump(_configure(targets, token, tls)), encoding="utf-8")
    address = f"127.0.0.1:{free_port()}"
    options = ("--config.file=prometheus.yaml", "--storage.tsdb.path=data", f"--web.listen-address={address}")
    log = directory / "prometheus.log"
    with log.open("wb") as written:
        process = subprocess.Popen([program, *options], cwd=directory, stdout=written, stderr=written)

    def check_alive() -> None:
        assert process.poll() is None, log.read_text(errors="replace")[-4000:]

    server = PrometheusServer(f"http://{address}")
    try:
        wait_until(lambda: _is_ready(server.url), "Prometheus is not ready", _START_SECONDS, check_alive)
        yield server
    finally:
        process.kill()
        process.wait()


def _configure(targets: Sequence[str], token: Path, tls: ScrapeTls | None) -> dict[str, Any]:
    """Its configuration; like the ServiceMonitor it keeps the namespace of what metrics are about."""
    scrape: dict[str, Any] = {
        "job_name": SCRAPE_JOB,
        "honor_labels": True,
        "authorization": {"credentials_file": str(token)},
        "static_configs": [
            {"targets": [target], "labels": {"namespace": SCRAPED_NAMESPACE, "pod": f"podtune-{number}"}}
            for number, target in enumerate(targets)
        ],
    }
    if tls is not None:
        known = {"ca_file": str(tls.authority), "server_name": tls.server_name}
        scrape |= {"scheme": "https", "tls_config": known}
    intervals = {"scrape_interval": "1s", "scrape_timeout": "1s", "evaluation_interval": "1s"}
    return {"global": intervals, "rule_files": ["alerts.yaml"], "scrape_configs": [scrape]}


def _is_ready(url: str) -> bool:
    try:
        with urllib.request.urlopen(f"{url}/-/ready", timeout=5) as response:
            return bool(response.status == 200)
    except OSError:
        return False
