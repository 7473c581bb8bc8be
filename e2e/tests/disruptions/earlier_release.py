"""The release before this one: its chart, and its images made of the commit that kept them."""

from __future__ import annotations

import io
import subprocess
import tarfile
from pathlib import Path

from e2e.devcluster import Cluster
from e2e.install import ROOT

VERSION = "0.2.0"
KEPT = Path("tests") / "golden" / "releases" / VERSION
CHART = ROOT / KEPT / "chart"
IMAGES = {target: f"localhost/podtune-{target}:{VERSION}" for target in ("operator", "agent")}


def is_in_history() -> bool:
    """Whether the release's commit is in this checkout: one without its history has none to make images of."""
    asked = ["git", "rev-parse", "--is-shallow-repository"]
    return subprocess.run(asked, cwd=ROOT, capture_output=True, text=True, check=False).stdout.strip() == "false"


def build_images(cluster: Cluster, checkout: Path) -> None:
    """Builds the release's images and loads them into the cluster.

    Args:
        cluster: The local cluster.
        checkout: An empty folder for the release's files.
    """
    commit = _git("log", "--diff-filter=A", "-1", "--format=%H", "--", str(KEPT / "chart" / "Chart.yaml"))
    with tarfile.open(fileobj=io.BytesIO(_git("archive", commit.decode().strip()))) as files:
        files.extractall(checkout, filter="data")
    for target, tag in IMAGES.items():
        cluster.build_image(checkout / "Dockerfile", target, tag, checkout)
        cluster.load_image(tag)


def _git(*words: str) -> bytes:
    return subprocess.run(["git", *words], cwd=ROOT, capture_output=True, check=True).stdout
