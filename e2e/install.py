"""Builds the images of this checkout, loads them into the local cluster, and installs the operator there by Helm.

What test runs that have ended left on the cluster is removed first: its pods hold GPUs.

python -m e2e.install
"""

from __future__ import annotations

import json
import sys
import time
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from types import MappingProxyType

from e2e import namespaces
from e2e.devcluster import Cluster
from e2e.devcluster.errors import ClusterError
from e2e.devcluster.node.kwok import TAINT as FAKE_NODES_TAINT
from e2e.kubernetes import Kubernetes, eventually
from integrations.install_manifest import NAMESPACE
from podtune.api.pods.template_policy import DEFAULT_TOLERATIONS

ROOT = Path(__file__).parent.parent
OPERATOR_NAMESPACE = NAMESPACE["metadata"]["name"]
RELEASE = "podtune"
CRDS_RELEASE = "podtune-crds"
OPERATOR_PODS = "app.kubernetes.io/name=podtune"
CAPPED_NAMESPACE = "e2e-capped"
CAP = 2
"""So many pods of trials may that namespace have."""
DENIED_SECRET = "e2e-denied"
"""No trial's container may see a Secret of this name."""


@dataclass(frozen=True)
class Image:
    """One of our images: a target of the Dockerfile."""

    target: str

    @property
    def repository(self) -> str:
        return f"localhost/podtune-{self.target}"

    @property
    def tag(self) -> str:
        return f"{self.repository}:dev"


OPERATOR = Image("operator")
IMAGES = [OPERATOR, Image("agent"), Image("dashboard"), Image("examples")]


def build(cluster: Cluster) -> dict[str, str]:
    """Builds and loads all images; returns the version of each target, which changes with its content."""
    versions = {}
    for image in IMAGES:
        versions[image.target] = cluster.build_image(ROOT / "Dockerfile", image.target, image.tag)
        cluster.load_image(image.tag)
    return versions


def install(
    cluster: Cluster,
    versions: dict[str, str],
    dashboard: Mapping[str, str | int] = MappingProxyType({}),
    *,
    operator: Image = OPERATOR,
) -> None:
    """Installs the definitions and the operator, and waits until it is ready.

    Args:
        cluster: Where to.
        versions: Of our images, by target.
        dashboard: Values of the chart for the dashboard; by default there is none: it would follow what is measured.
        operator: The operator's image.
    """
    kubernetes = Kubernetes(cluster, OPERATOR_NAMESPACE)
    kubernetes.kubectl("apply", "--server-side", "-f", "-", stdin=json.dumps(NAMESPACE))
    helm(cluster, CRDS_RELEASE, ROOT / "charts" / "podtune-crds")
    settings: dict[str, str | int] = {
        "image.repository": operator.repository,
        "image.tag": "dev",
        "agent.image.repository": "localhost/podtune-agent",
        "agent.image.tag": "dev",
        # The tags stay the same, so it is this that has new pods made of a new image.
        "podAnnotations.podtune\\.dev/build": f"{versions[operator.target]}-{versions['agent']}",
        "dashboard.image.repository": "localhost/podtune-dashboard",
        "dashboard.image.tag": "dev",
        "dashboard.podAnnotations.podtune\\.dev/build": versions["dashboard"],
        "dashboard.nodeSelector.podtune\\.dev/role": "system",
        **dashboard,
        "nodeSelector.podtune\\.dev/role": "system",
        f"podLimits.namespaces.{CAPPED_NAMESPACE}": CAP,
        "deniedSecrets[0]": DENIED_SECRET,
        "results.plainHTTP": False,  # no test's results come but by TLS
        **{f"allowedTolerations[{i}]": taint for i, taint in enumerate([*DEFAULT_TOLERATIONS, FAKE_NODES_TAINT])},
    }
    helm(cluster, RELEASE, ROOT / "charts" / "podtune", settings)
    # A new pod is ready before it leads: what is measured or tested now must not meet the operator before it.
    eventually(
        lambda: kubernetes.list("pods", OPERATOR_PODS),
        lambda pods: len(pods) == 1 and pods[0]["metadata"]["labels"].get("podtune.dev/leader") == "true",
        what="the new operator leads, and the one before it is gone",
    )


def helm(cluster: Cluster, release: str, chart: Path, settings: Mapping[str, str | int] | None = None) -> None:
    """Installs or upgrades one chart."""
    sets = [word for key, value in (settings or {}).items() for word in _write_option(key, value)]
    options = ["--namespace", OPERATOR_NAMESPACE, "--wait", "--timeout", "300s"]
    cluster.run(["helm", "upgrade", "--install", release, str(chart), *options, *sets], timeout=330)


def _write_option(key: str, value: str | int) -> tuple[str, str]:
    if isinstance(value, str):
        return "--set-string", f"{key}={value}"
    return "--set", f"{key}={json.dumps(value)}"


def main() -> int:
    """Does it all, and says how long each part took."""
    try:
        cluster = Cluster.connect()
        removed = namespaces.remove_stale(cluster)
        if removed:
            print(f"removed namespaces that ended test runs had left: {', '.join(removed)}")
        begun = time.monotonic()
        versions = build(cluster)
        built = time.monotonic()
        install(cluster, versions)
        print(f"images {built - begun:.1f} s, install {time.monotonic() - built:.1f} s")
    except ClusterError as error:
        print(f"error: {error}", file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
