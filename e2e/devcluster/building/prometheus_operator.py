"""The Prometheus operator's definitions, out of its pinned Go module and kept by the content of the pins.

Go has the module, 4 MB, without what it depends on, and holds it to the hash in go.sum.
"""

from __future__ import annotations

import hashlib
import json
import os
import shutil
from pathlib import Path

from e2e.devcluster.building.tools import find_go
from e2e.devcluster.errors import ClusterError
from e2e.devcluster.layout import cache_directory
from e2e.devcluster.locks import locked
from e2e.devcluster.node import network
from e2e.devcluster.processes import run
from e2e.devcluster.progress import screen

DEFINITIONS = ("servicemonitors", "prometheusrules")
"""Those that are kept: of what the chart makes."""
_PINS = Path(__file__).parents[1] / "tools" / "prometheus-operator"
_FILES = ("go.mod", "go.sum")
_MODULE = "github.com/prometheus-operator/prometheus-operator"
_FOLDER = Path("example", "prometheus-operator-crd")


def ensure() -> list[Path]:
    """Returns the file of each of the definitions, fetching them when they are not in the cache.

    Raises:
        ClusterError: They can't be fetched, or aren't what go.sum says.
    """
    key = hashlib.sha256(b"".join((_PINS / name).read_bytes() for name in _FILES)).hexdigest()[:16]
    directory = cache_directory() / "prometheus-operator" / key
    files = [directory / "definitions" / f"monitoring.coreos.com_{name}.yaml" for name in DEFINITIONS]
    if not all(file.exists() for file in files):
        with locked(directory / "lock", "fetching the Prometheus operator's definitions"):
            if not all(file.exists() for file in files):
                _fetch(files)
    return files


def _fetch(files: list[Path]) -> None:
    screen.say("fetching the Prometheus operator's definitions (once; seconds)")
    environment = {**os.environ, "GOTOOLCHAIN": "local", "GOFLAGS": "", "GOWORK": "off"}
    environment.pop("GOROOT", None)
    # From within the cluster's network, where tests run, there is no way to the proxy.
    download: list[str | Path] = [find_go(), "-C", _PINS, "mod", "download", "-json", _MODULE]
    fetched = run([*network.outside_command(), *download], timeout=600, environment=environment)
    module = Path(json.loads(fetched)["Dir"])
    target = files[0].parent
    work = target.with_name("fetching")  # moved when it is whole
    shutil.rmtree(work, ignore_errors=True)
    shutil.rmtree(target, ignore_errors=True)
    work.mkdir(parents=True)
    for file in files:
        found = module / _FOLDER / file.name
        if not found.exists():
            raise ClusterError(f"{_MODULE} holds no {_FOLDER / file.name}; look where it is now, in {module}")
        shutil.copyfile(found, work / file.name)
    work.rename(target)
