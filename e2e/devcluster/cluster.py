"""What tests and benchmarks see of a cluster, whichever way it runs."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from contextlib import AbstractContextManager
from pathlib import Path
from typing import NoReturn

from e2e.devcluster.building import tools
from e2e.devcluster.errors import ClusterError
from e2e.devcluster.layout import Layout
from e2e.devcluster.node.storage import S3Access, S3Client
from e2e.devcluster.processes import LOG_LINES_SHOWN
from e2e.devcluster.versions import VARIABLE, choose_other


class Cluster(ABC):
    """A running cluster; get one with `Cluster.connect`.

    Attributes:
        layout: Where its state is.
        s3: How to reach the bucket.
    """

    mode: str
    tools: str
    """Name of the set of tools that commands on the cluster find on their path."""

    def __init__(self, layout: Layout, s3: S3Access) -> None:
        self.layout = layout
        self.s3 = s3

    @classmethod
    def connect(cls) -> Cluster:
        """Return the cluster that `up` has started.

        Raises:
            ClusterError: There is none.
        """
        from e2e.devcluster.kind import KindCluster
        from e2e.devcluster.native import NativeCluster

        layout = Layout.from_environment()
        if not layout.description.exists():
            raise ClusterError("no cluster is up: run `python -m e2e.devcluster up`")
        description = json.loads(layout.description.read_text())
        kind: type[Cluster] = KindCluster if description["mode"] == KindCluster.mode else NativeCluster
        return kind(layout, S3Access(**description["s3"]))

    @property
    def kubeconfig(self) -> Path:
        """Credentials of the administrator; they work from inside the cluster's network (see `run`)."""
        return self.layout.kubeconfig

    @property
    def audit_log(self) -> Path:
        """The API server's audit log: one JSON object for each write."""
        return self.layout.audit_log

    @property
    def environment(self) -> dict[str, str]:
        """Variables that commands on the cluster need, but for their path (see `programs`)."""
        other = choose_other()
        return {
            **({VARIABLE: other} if other else {}),
            "KUBECONFIG": str(self.kubeconfig),
            "PODTUNE_CLUSTER_ENTER": " ".join(self.enter),
            **self.s3.environment(),
        }

    @property
    def programs(self) -> Path:
        """Directory of kubectl, Helm and the like; commands run here find them first."""
        return tools.ensure(self.tools)

    @property
    def s3_client(self) -> S3Client:
        """A client of the bucket that works from anywhere on this machine."""
        return S3Client(self.s3, self.inside)

    def run(
        self,
        command: Sequence[str | Path],
        *,
        check: bool = True,
        stdin: str | None = None,
        timeout: float = 300,
        environment: Mapping[str, str] | None = None,
    ) -> subprocess.CompletedProcess[str]:
        """Run a command on the cluster's network with its credentials.

        Args:
            command: Program and arguments.
            check: Whether failure raises.
            stdin: What to write to the command.
            timeout: Seconds it may take.
            environment: Variables on top of `environment`.

        Raises:
            ClusterError: It failed and `check` is set.
            subprocess.TimeoutExpired: It took too long.
        """
        done = subprocess.run(
            [*self.enter, *map(str, command)],
            check=False,
            input=stdin,
            text=True,
            capture_output=True,
            timeout=timeout,
            env=self._command_environment(environment),
        )
        if check and done.returncode != 0:
            said = "\n".join((done.stderr or done.stdout).strip().splitlines()[-LOG_LINES_SHOWN:])
            raise ClusterError(f"{' '.join(map(str, command))[:200]}: exit {done.returncode}\n{said}")
        return done

    def popen(self, command: Sequence[str | Path], **options: object) -> subprocess.Popen[str]:
        """Start a command on the cluster's network; options are those of `subprocess.Popen`."""
        environment = self._command_environment(None)
        arguments = [*self.enter, *map(str, command)]
        return subprocess.Popen(arguments, env=environment, text=True, **options)  # type: ignore[call-overload,no-any-return]

    def kubectl(self, *arguments: str, stdin: str | None = None, timeout: float = 300) -> str:
        """Run kubectl and return what it printed."""
        return self.run(["kubectl", *arguments], stdin=stdin, timeout=timeout).stdout

    def execute(self, command: Sequence[str]) -> NoReturn:
        """Become a command, so that signals reach it and its exit code is ours."""
        words, environment = [*self.enter, *command], self._command_environment(None)
        sys.stdout.flush()
        program = shutil.which(words[0], path=environment["PATH"])
        if program is None:
            raise ClusterError(f"{words[0]}: there is no such program")
        os.execve(program, words, environment)

    @property
    @abstractmethod
    def enter(self) -> list[str]:
        """Command prefix that enters the cluster's network; empty where that is this machine's."""

    @abstractmethod
    def inside(self) -> AbstractContextManager[None]:
        """Move this thread onto the cluster's network while the context lasts."""

    @abstractmethod
    def node_name(self, node: str) -> str:
        """Return the Kubernetes name of ``n1`` (for the operator and S3) or ``n2`` (which tests may break)."""

    @abstractmethod
    def build_image(self, dockerfile: Path, target: str, tag: str, context: Path | None = None) -> str:
        """Build a target of a Dockerfile, unless nothing has changed, and return a key that tells versions apart.

        The Dockerfile copies from its own directory, or from `context`.
        """

    @abstractmethod
    def load_image(self, tag: str) -> list[str]:
        """Load the current version of an image, and return the nodes that did not have it."""

    @abstractmethod
    def node_processes(self, node: str) -> dict[str, list[int]]:
        """Return the process ids of a node: ``kubelet``, ``containerd``, ``shims`` and ``pods``."""

    @abstractmethod
    def kill_kubelet(self, node: str) -> None:
        """Kill a kubelet with SIGKILL. Its pods run on; the node is lost some 20 s later."""

    @abstractmethod
    def start_kubelet(self, node: str) -> None:
        """Start a killed kubelet again and wait until the node is Ready, with its GPUs."""

    @abstractmethod
    def kill_node(self, node: str) -> None:
        """Kill everything on a node at once, pods included: what a power failure looks like."""

    @abstractmethod
    def start_node(self, node: str) -> None:
        """Start what `kill_node` has killed, and wait until the node is Ready."""

    @abstractmethod
    def add_kwok_nodes(self, count: int) -> None:
        """Add fake nodes ``kwok-0…``, tainted ``kwok.x-k8s.io/node=fake:NoSchedule``; their pods end at once."""

    @abstractmethod
    def remove_kwok_nodes(self) -> None:
        """Remove the fake nodes and what runs on them."""

    def _command_environment(self, more: Mapping[str, str] | None) -> dict[str, str]:
        from e2e.devcluster.node import network

        inherited = network.environment_inside()
        path = f"{self.programs}{os.pathsep}{inherited['PATH']}"
        return {**inherited, "PATH": path, **self.environment, **(more or {})}
