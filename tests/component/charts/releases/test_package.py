"""The charts as packages in a registry (OCI), from where people install them."""

from __future__ import annotations

import json
import os
import subprocess
import urllib.request
from collections.abc import Iterator
from pathlib import Path

import pytest
import yaml

from e2e.chaos.processes.free_ports import free_port
from e2e.devcluster.building import packages
from e2e.devcluster.processes import wait_until
from tests.component.charts.rendered import CHARTS

pytestmark = [pytest.mark.cluster, pytest.mark.long]


@pytest.fixture(scope="module")
def registry(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """The address of a registry on loopback: Debian's docker-registry."""
    if packages.find_program("docker-registry") is None:
        packages.install("docker-registry")
    folder, address = tmp_path_factory.mktemp("registry"), f"127.0.0.1:{free_port()}"
    config = {
        "version": 0.1,
        "storage": {"filesystem": {"rootdirectory": str(folder / "data")}},
        "http": {"addr": address},
    }
    (folder / "config.yml").write_text(yaml.safe_dump(config))
    with (folder / "log").open("wb") as log:
        process = subprocess.Popen(
            [packages.program("docker-registry"), "serve", str(folder / "config.yml")], stdout=log, stderr=log
        )
    try:
        wait_until(lambda: answers(f"http://{address}/v2/"), "the registry does not answer", 60)
        yield address
    finally:
        process.kill()
        process.wait()


def answers(url: str) -> bool:
    try:
        with urllib.request.urlopen(url, timeout=5) as answer:
            return bool(answer.status == 200)
    except OSError:
        return False


def run_helm(home: Path, *words: str) -> str:
    environment = {**os.environ, "HELM_CACHE_HOME": str(home), "HELM_REGISTRY_CONFIG": str(home / "registry.json")}
    done = subprocess.run(["helm", *words], capture_output=True, text=True, timeout=60, check=False, env=environment)
    assert done.returncode == 0, done.stderr
    return done.stdout


@pytest.mark.parametrize("chart", ["podtune", "podtune-crds"])
def test_a_chart_is_installed_from_a_registry_as_from_its_folder(registry: str, tmp_path: Path, chart: str) -> None:
    described = yaml.safe_load((CHARTS / chart / "Chart.yaml").read_text())
    version = described["version"]
    run_helm(tmp_path, "package", str(CHARTS / chart), "-d", str(tmp_path))
    run_helm(tmp_path, "push", str(tmp_path / f"{chart}-{version}.tgz"), f"oci://{registry}/charts", "--plain-http")

    source = [f"oci://{registry}/charts/{chart}", "--version", version, "--plain-http"]
    options = ["--namespace=tuning", "--kube-version=1.34.0"]
    assert run_helm(tmp_path, "template", "podtune", *source, *options) == run_helm(
        tmp_path, "template", "podtune", str(CHARTS / chart), *options
    )
    assert run_helm(tmp_path, "show", "readme", *source).strip() == (CHARTS / chart / "README.md").read_text().strip()

    address = f"http://{registry}/v2/charts/{chart}/manifests/{version}"
    accept = {"Accept": "application/vnd.oci.image.manifest.v1+json"}
    with urllib.request.urlopen(urllib.request.Request(address, headers=accept), timeout=10) as answer:
        manifest = json.load(answer)
    assert manifest["config"]["mediaType"] == "application/vnd.cncf.helm.config.v1+json"
    assert manifest["annotations"]["org.opencontainers.image.title"] == chart
    # What Artifact Hub reads goes with it.
    assert manifest["annotations"]["artifacthub.io/license"] == described["annotations"]["artifacthub.io/license"]
