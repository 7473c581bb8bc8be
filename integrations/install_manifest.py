"""Writes build/install.yaml: both charts as plain manifests, for `kubectl apply -f`, Kustomize, Argo CD and Flux.

`make install-manifest`, or:

    python -m integrations.install_manifest [--set KEY=VALUE …]

Options are Helm's own. Hooks, such as tests, are left out: without Helm, nobody runs them. Each release has the file.
It is not committed: it has nothing that the charts don't have, and nobody would read its 6,000 lines in a diff.
"""

from __future__ import annotations

import shutil
import subprocess
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import yaml

from e2e.devcluster.building import tools
from e2e.devcluster.versions import KUBERNETES_VERSION

ROOT = Path(__file__).parent.parent
TARGET = ROOT / "build" / "install.yaml"
NAMESPACE: dict[str, Any] = {
    "apiVersion": "v1",
    "kind": "Namespace",
    "metadata": {"name": "podtune-system", "labels": {"pod-security.kubernetes.io/enforce": "restricted"}},
}
_CHARTS = {name: ROOT / "charts" / name for name in ("podtune-crds", "podtune")}
# Without a cluster, Helm takes Kubernetes to be as old as itself.
_OPTIONS = ("--namespace", NAMESPACE["metadata"]["name"], "--no-hooks", "--kube-version", KUBERNETES_VERSION)


def build_install_manifest(helm: str, options: Sequence[str] = (), charts: Mapping[str, Path] = _CHARTS) -> str:
    """The namespace, the definitions and the operator, in the order in which they have to be applied.

    Args:
        helm: The program.
        options: More of its options, for the operator's chart.
        charts: The folder or archive of each chart, that of the definitions first.
    """
    rendered = [
        subprocess.run(
            [helm, "template", name, chart, *_OPTIONS, *(options if name == "podtune" else ())],
            stdout=subprocess.PIPE,
            text=True,
            check=True,
        ).stdout
        for name, chart in charts.items()
    ]
    header = "# Podtune: namespace, definitions and operator, as its charts have them; apply it `--server-side`.\n"
    return header + yaml.safe_dump(NAMESPACE, sort_keys=False) + "".join(rendered)


def find_helm() -> str:
    """Helm of this machine, or the local cluster's, which is built if it is not there."""
    return shutil.which("helm") or str((tools.installed("cluster") or tools.ensure("clients")) / "helm")


def main() -> int:
    """Writes it."""
    TARGET.parent.mkdir(exist_ok=True)
    TARGET.write_text(build_install_manifest(find_helm(), sys.argv[1:]), encoding="utf-8")
    print(TARGET.relative_to(ROOT))
    return 0


if __name__ == "__main__":
    sys.exit(main())
