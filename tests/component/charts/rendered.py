"""The charts as Helm renders them, for tests to look at."""

from __future__ import annotations

import json
import subprocess
from pathlib import Path
from typing import Any

import yaml

CHARTS = Path(__file__).parents[3] / "charts"
NAMESPACE = "tuning"
NAME = f"{NAMESPACE}-podtune"
SOMEWHERE: dict[str, Any] = {
    "nodeSelector": {"disk": "ssd"},
    "tolerations": [{"key": "dedicated", "operator": "Exists", "effect": "NoExecute", "tolerationSeconds": 5}],
    "priorityClassName": "system-cluster-critical",
    "affinity": {
        "nodeAffinity": {
            "requiredDuringSchedulingIgnoredDuringExecution": {
                "nodeSelectorTerms": [{"matchExpressions": [{"key": "zone", "operator": "In", "values": ["a"]}]}]
            }
        },
        "podAntiAffinity": {
            "preferredDuringSchedulingIgnoredDuringExecution": [
                {
                    "weight": 1,
                    "podAffinityTerm": {
                        "topologyKey": "kubernetes.io/hostname",
                        "labelSelector": {"matchLabels": {"app.kubernetes.io/component": "operator"}},
                    },
                }
            ]
        },
    },
    "topologySpreadConstraints": [
        {
            "maxSkew": 1,
            "topologyKey": "topology.kubernetes.io/zone",
            "whenUnsatisfiable": "ScheduleAnyway",
            "labelSelector": {"matchLabels": {"app.kubernetes.io/component": "operator"}},
        }
    ],
    "podAnnotations": {"example.com/note": "here"},
    "podLabels": {"tier": "2"},
    "resources": {"requests": {"cpu": 1, "memory": "1Gi"}, "limits": {"memory": "2Gi"}},
}
"""All that says where pods run and what they have, as operator and dashboard take it."""


def run_helm(*arguments: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(["helm", *arguments], capture_output=True, text=True, timeout=60, check=False)


def template(
    values: dict[str, Any], release: str = "podtune", *, tests: bool = False
) -> subprocess.CompletedProcess[str]:
    """What Helm says of the operator's chart with some values."""
    settings = [f"--set-json={key}={json.dumps(value)}" for key, value in values.items()]
    options = ["-n", NAMESPACE, "--kube-version=1.34.0", *([] if tests else ["--skip-tests"])]
    return run_helm("template", release, str(CHARTS / "podtune"), *options, *settings)


def render(release: str = "podtune", **values: Any) -> list[dict[str, Any]]:
    """The objects of the operator's chart; `__` in a value's name stands for a dot."""
    return _read(template({key.replace("__", "."): value for key, value in values.items()}, release))


def render_with_tests(values: dict[str, Any]) -> list[dict[str, Any]]:
    """The objects of the operator's chart, those that `helm test` makes among them."""
    return _read(template(values, tests=True))


def _read(rendered: subprocess.CompletedProcess[str]) -> list[dict[str, Any]]:
    assert rendered.returncode == 0, rendered.stderr
    return [document for document in yaml.safe_load_all(rendered.stdout) if document]


def find_one(documents: list[dict[str, Any]], kind: str, name: str) -> dict[str, Any]:
    (found,) = [d for d in documents if d["kind"] == kind and d["metadata"]["name"] == name]
    return found


def read_operator(documents: list[dict[str, Any]]) -> dict[str, Any]:
    """The operator's container, with the volumes of its pod."""
    pod = find_one(documents, "Deployment", "podtune")["spec"]["template"]["spec"]
    (container,) = pod["containers"]
    return {**container, "volumes": pod.get("volumes", [])}


def list_config_map_rules(documents: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """What the operator may do to ConfigMaps of its own namespace."""
    rules = find_one(documents, "Role", "podtune-leadership")["rules"]
    return [rule for rule in rules if rule["resources"] == ["configmaps"]]


def list_kinds(documents: list[dict[str, Any]]) -> set[tuple[str, str]]:
    return {(document["kind"], document["metadata"]["name"]) for document in documents}
