"""The definitions of this checkout on the cluster, for several test files at once."""

from __future__ import annotations

import fcntl
import subprocess
import tempfile
from pathlib import Path

CHARTS = Path(__file__).parents[3] / "charts"
_LOCK = Path(tempfile.gettempdir()) / "podtune-component-definitions.lock"


def install_definitions() -> None:
    """Installs them as the release that `make demo` upgrades: definitions that Helm does not own would be in its way.

    Helm refuses to upgrade a release that another process upgrades, so each waits for its turn.
    """
    release = ["podtune-crds", str(CHARTS / "podtune-crds"), "--namespace=podtune-system", "--create-namespace"]
    with _LOCK.open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        _run("helm", "upgrade", "--install", *release, "--take-ownership")
    for name in ("experiments.podtune.dev", "trials.podtune.dev"):
        _run("kubectl", "wait", "--for=condition=Established", f"crd/{name}", "--timeout=100s")


def _run(*command: str) -> None:
    done = subprocess.run(command, capture_output=True, text=True, timeout=120, check=False)
    assert done.returncode == 0, done.stderr
