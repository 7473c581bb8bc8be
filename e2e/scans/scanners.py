"""The scanners: how they are run, and how their answers are read."""

from __future__ import annotations

import json
import subprocess
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

from e2e.devcluster.errors import ClusterError
from e2e.devcluster.processes import run
from e2e.scans.findings import Finding

EVERYTHING = {
    "replicas": 2,
    "podDisruptionBudget": {"enabled": True},
    "metrics": {name: {"enabled": True} for name in ("serviceMonitor", "prometheusRule", "grafanaDashboards")},
    "apiPriority": {"enabled": True},
    "admissionPolicy": {"templates": True, "userRights": True},
    "networkPolicy": {"egress": {"enabled": True}},
    "webhooks": [{"name": "tracker", "url": "https://events.example.com", "secret": "tracker"}],
    "tracing": {
        "endpoint": "https://collector.example.com:4318",
        "secret": "collector",
        "attributes": {"k8s.cluster.name": "training"},
    },
    "dashboard": {
        "enabled": True,
        "tls": {"secret": "certificate"},
        "proxy": {"userHeader": "X-User", "groupsHeader": "X-Groups", "authoritySecret": "proxy"},
        "stores": [{"namespace": "team-a", "secret": "team-a-read", "store": {"bucket": "models"}}],
        "ingress": {"enabled": True, "host": "podtune.example.com"},
    },
    "embeddedS3": {"enabled": True, "image": {"repository": "versitygw", "tag": "1.8.0"}, "secret": "podtune-s3"},
}
"""Values with which the chart renders all that it has, but for what excludes each other."""
MODES: tuple[dict[str, Any], ...] = (
    {},
    {"namespaceOptIn": True},
    {"watchNamespaces": ["team-a"], "results": {"tls": {"secret": "results"}}},
)
"""Values that exclude each other: whom the operator serves, and who makes its certificate."""
_FINE = 10
"""kube-score's grade for a check that has passed; lower ones are warnings and worse."""


def render_charts(helm: Path, charts: Path, folder: Path) -> Path:
    """Renders the operator's chart with all that it has, in each of its modes; returns the file."""
    options = ["--namespace=podtune-system", "--kube-version=1.34.0"]
    rendered = folder / "podtune.yaml"
    with rendered.open("w") as file:
        for mode in MODES:
            settings = [f"--set-json={name}={json.dumps(value)}" for name, value in {**EVERYTHING, **mode}.items()]
            file.write(run([helm, "template", "podtune", charts / "podtune", *options, *settings], timeout=60))
    return rendered


def scan_by_kube_score(program: Path, rendered: Path) -> set[Finding]:
    """Has kube-score look at manifests."""
    answer = _ask([str(program), "score", "--output-format=json", "--kubernetes-version=v1.34", str(rendered)])
    return set(read_kube_score(answer))


def read_kube_score(answer: Sequence[dict[str, Any]]) -> Iterator[Finding]:
    """The checks that have failed, in kube-score's JSON."""
    for judged in answer:
        subject = f"{judged['type_meta']['kind']}/{judged['object_meta']['name']}"
        for result in judged["checks"] or ():
            if result["grade"] < _FINE and not result["skipped"]:
                words = "; ".join(comment["summary"] for comment in result["comments"] or ())
                yield Finding("kube-score", result["check"]["id"], subject, words or result["check"]["comment"])


def scan_by_checkov(program: Path, file: Path, framework: str) -> set[Finding]:
    """Has checkov look at a file."""
    options = [f"--file={file}", f"--framework={framework}", "--output=json", "--quiet", "--compact"]
    return set(read_checkov(_ask([str(program), *options, "--skip-download"])))


def read_checkov(answer: dict[str, Any]) -> Iterator[Finding]:
    """The checks that have failed, in checkov's JSON."""
    for failed in answer["results"]["failed_checks"]:
        # Of an object: kind, namespace and name; of a Dockerfile: its path and the instruction.
        kind, *_, name = failed["resource"].split(".")
        subject = f"{Path(kind).name}.{name}" if "/" in kind else f"{kind}/{name}"
        yield Finding("checkov", failed["check_id"], subject, failed["check_name"])


def _ask(command: Sequence[str]) -> Any:
    """What a scanner prints; its exit code says no more than that it has found something."""
    done = subprocess.run(command, capture_output=True, text=True, timeout=300, check=False)
    try:
        return json.loads(done.stdout)
    except ValueError as error:
        raise ClusterError(
            f"{' '.join(command)}: no JSON, exit code {done.returncode}: {done.stderr[-2000:]}"
        ) from error
