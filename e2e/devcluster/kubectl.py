"""kubectl as a function, so that what is done to a cluster does not depend on how the cluster is reached."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Protocol

from e2e.devcluster.node import network
from e2e.devcluster.processes import run


class Kubectl(Protocol):
    """Runs kubectl as the cluster's administrator."""

    def __call__(self, *arguments: str, stdin: str | None = None, timeout: float = 300) -> str:
        """Run it and return what it printed.

        Raises:
            ClusterError: It failed.
        """
        ...


def bind(program: Path, kubeconfig: Path, enter: Sequence[str] = ()) -> Kubectl:
    """Return a kubectl for one cluster.

    Args:
        program: The binary.
        kubeconfig: Credentials.
        enter: Command prefix that enters the cluster's network.
    """

    def kubectl(*arguments: str, stdin: str | None = None, timeout: float = 300) -> str:
        command = [*enter, str(program), f"--kubeconfig={kubeconfig}", *arguments]
        return run(command, stdin=stdin, timeout=timeout, environment=network.environment_inside())

    return kubectl
