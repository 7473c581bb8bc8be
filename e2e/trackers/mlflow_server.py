"""MLflow's own tracking server, with SQLite, as a process of this machine."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from e2e.chaos.processes.free_ports import free_port
from e2e.devcluster.errors import ClusterError
from e2e.devcluster.node import network
from e2e.devcluster.processes import run, wait_until
from e2e.install import ROOT

_REQUIREMENTS = ROOT / "requirements" / "mlflow.txt"
_INSTALL_SECONDS = 540
_START_SECONDS = 300
"""It imports much, which takes a minute and more on a busy machine."""


@dataclass(frozen=True, slots=True)
class MlflowServer:
    """A server that runs.

    Attributes:
        group: Its processes.
    """

    url: str
    group: int

    def hang(self) -> None:
        """It takes connections and answers nobody; starting anew would take a minute and more."""
        os.killpg(self.group, signal.SIGSTOP)

    def go_on(self) -> None:
        """It answers again, also what it was asked meanwhile."""
        os.killpg(self.group, signal.SIGCONT)


@contextmanager
def running_mlflow_server(host: str, folder: Path) -> Iterator[MlflowServer]:
    """Runs a server at an address of this machine.

    Args:
        host: The address.
        folder: Where its database and its log are.

    Raises:
        ClusterError: It can't be installed, or does not answer in time.
    """
    _install()
    port = free_port(host)
    url = f"http://{host}:{port}"
    words = ["mlflow", "server", "--host", host, "--port", str(port), "--workers", "1"]
    words += ["--allowed-hosts", f"{host}:{port}", "--backend-store-uri", f"sqlite:///{folder}/mlflow.db"]
    log = folder / "server.log"
    with log.open("wb") as file:
        process = subprocess.Popen(
            [*_uv_run("--offline"), *words],
            cwd=folder,
            env=os.environ | {"MLFLOW_SERVER_ENABLE_JOB_EXECUTION": "false"},
            stdout=file,
            stderr=file,
            start_new_session=True,
        )

    def check_alive() -> None:
        if process.poll() is not None:
            raise ClusterError(f"MLflow has ended:\n{log.read_text()[-3000:]}")

    try:
        wait_until(lambda: _answers(url), f"MLflow does not answer at {url}", _START_SECONDS, check_alive)
        yield MlflowServer(url, process.pid)
    finally:
        os.killpg(process.pid, signal.SIGKILL)
        process.wait()


def _install() -> None:
    """Has the packages in uv's cache: on the cluster's network they can't be had."""
    try:
        run([*_uv_run("--offline"), "true"])
    except ClusterError:
        run([*network.outside_command(), *_uv_run(), "true"], timeout=_INSTALL_SECONDS)


def _uv_run(*options: str) -> list[str]:
    command = [str(Path(sys.executable).with_name("uv")), "run", "--quiet", "--no-project", "--isolated", *options]
    return [*command, "--python", sys.executable, "--with-requirements", str(_REQUIREMENTS)]


def _answers(url: str) -> bool:
    try:
        urllib.request.urlopen(f"{url}/health", timeout=5).close()
    except OSError:
        return False
    return True
