"""Commands of the documentation, typed as a reader would type them, on a context whose namespace is the test's."""

from __future__ import annotations

import os
import subprocess
import sys
import time
from pathlib import Path

from e2e.devcluster import Cluster
from e2e.kubernetes import Kubernetes

COMMAND_TIME = 600
"""Seconds that a command may take."""
_PATIENCE = 300
"""Seconds within which what a command asks for is there: readers look again, too."""
_ASKS = ("kubectl get", "kubectl describe", "kubectl wait")
"""Commands that change nothing, so that they may be repeated."""


def make_environment(cluster: Cluster, namespace: Kubernetes, directory: Path) -> dict[str, str]:
    """The environment of a reader who has installed Podtune; its kubeconfig is written to a directory."""
    kubeconfig = directory / "kubeconfig"
    kubeconfig.write_text(namespace.kubectl("config", "view", "--raw"), encoding="utf-8")
    kubeconfig.chmod(0o600)
    environment = {
        **os.environ,
        "KUBECONFIG": str(kubeconfig),
        "PATH": f"{Path(sys.executable).parent}:{os.environ['PATH']}",
        "AWS_ACCESS_KEY_ID": cluster.s3.access_key,
        "AWS_SECRET_ACCESS_KEY": cluster.s3.secret_key,
    }
    choose = ["kubectl", "config", "set-context", "--current", f"--namespace={namespace.namespace}"]
    subprocess.run(choose, env=environment, check=True, capture_output=True, timeout=COMMAND_TIME)
    return environment


def run_typed(command: str, environment: dict[str, str], directory: Path, *, place: str) -> str:
    """Runs a command until it succeeds, where it only asks; else once. Returns what it has printed."""
    deadline = time.monotonic() + _PATIENCE
    while True:
        done = subprocess.run(
            ["bash", "-c", command],
            env=environment,
            cwd=directory,
            capture_output=True,
            text=True,
            timeout=COMMAND_TIME,
            check=False,
        )
        if done.returncode == 0 or not command.startswith(_ASKS) or time.monotonic() > deadline:
            break
        time.sleep(1)
    assert done.returncode == 0, f"{place}: {command}\n{done.stdout}{done.stderr}"
    return done.stdout
