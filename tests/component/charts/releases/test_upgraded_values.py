"""Values that an installation has since an earlier release: `--reset-then-reuse-values` hands them to today's chart.

Its schema is closed, so a value that has another name today would refuse the upgrade.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml

from tests.component.charts.rendered import CHARTS, NAMESPACE, SOMEWHERE, run_helm
from tests.golden.keep_release import RELEASES

pytestmark = [pytest.mark.cluster]

RELEASED = {path.parent.parent.name: path.parent for path in sorted(RELEASES.glob("*/chart/values.yaml"))}
TODAY = CHARTS / "podtune"
GIVEN: dict[str, Any] = {
    **SOMEWHERE,
    "watchNamespaces": ["team-a"],
    "allowedServiceAccounts": ["trainer"],
    "allowedPriorityClasses": ["team-*"],
    "allowedTolerations": ["gpus=big"],
    "allowedAnnotationDomains": ["example.com"],
    "allowedHostAliases": ["*.lab"],
    "deniedSecrets": ["root-*"],
    "trialsRunAsNonRoot": True,
    "podLimits": {"perNamespace": 8, "namespaces": {"team-a": 2, "team-b": "unlimited"}},
    "image": {"repository": "r/operator", "variant": "gp", "tag": "1", "pullPolicy": "Always"},
    "imagePullSecrets": [{"name": "registry"}],
    "agent": {"image": {"repository": "r/agent", "tag": "1", "pullPolicy": "Never"}},
    "replicas": 2,
    "logLevel": "warning",
    "proposalDeadlineSeconds": 60,
    "serviceAccount": {"create": False, "name": "tuner", "annotations": {"example.com/role": "tuner"}},
    "rbac": {"aggregateToDefaultRoles": False},
    "metrics": {"serviceMonitor": {"enabled": True, "interval": "1m", "labels": {"release": "prometheus"}}},
    "apiPriority": {"enabled": True, "shares": 5},
    "networkPolicy": {"enabled": False, "metricsNamespaces": ["monitoring"]},
    "podDisruptionBudget": {"enabled": True, "maxUnavailable": "50%"},
    "terminationGracePeriodSeconds": 60,
    "nameOverride": "tuner",
    "fullnameOverride": "tuning",
}
"""Every value as somebody may have set it: none is the default one."""


def list_keys(values: dict[str, Any], schema: dict[str, Any], path: str = "") -> Iterator[tuple[str, Any]]:
    """The values by their names, as `--set` has them; what is below a name of the user's own is one value."""
    for name, value in values.items():
        known = schema.get("properties", {}).get(name, {})
        if isinstance(value, dict) and "properties" in known:
            yield from list_keys(value, known, f"{path}{name}.")
        else:
            yield f"{path}{name}", value


def read_chart(release: str) -> tuple[dict[str, Any], dict[str, Any]]:
    """The schema of a release's values, and what each is by default."""
    schema, values = (
        yaml.safe_load((RELEASED[release] / name).read_text()) for name in ("values.schema.json", "values.yaml")
    )
    return schema, dict(list_keys(values, schema))


def render(chart: Path, *settings: str) -> None:
    rendered = run_helm("template", "podtune", str(chart), "-n", NAMESPACE, "--kube-version=1.34.0", *settings)
    assert rendered.returncode == 0, f"{chart}: {rendered.stderr}"


@pytest.mark.parametrize("release", RELEASED)
def test_the_defaults_of_a_release_written_out_are_taken(release: str) -> None:
    render(TODAY, f"--values={RELEASED[release] / 'values.yaml'}")


@pytest.mark.parametrize("release", RELEASED)
def test_whatever_was_given_to_a_release_is_taken(release: str) -> None:
    schema, defaults = read_chart(release)
    given = dict(list_keys(GIVEN, schema))
    assert [name for name, value in defaults.items() if given.get(name, value) == value] == [], "give them above, too"
    settings = [f"--set-json={name}={json.dumps(given[name])}" for name in defaults]
    render(RELEASED[release], *settings)
    render(TODAY, *settings)
