"""Command line of the local cluster: ``python -m e2e.cluster --help``."""

from __future__ import annotations

import argparse
import fcntl
import shlex
import sys
from collections.abc import Iterator
from contextlib import contextmanager

from e2e.cluster import native, tools
from e2e.cluster.cluster import Cluster
from e2e.cluster.errors import ClusterError
from e2e.cluster.layout import KUBERNETES_VERSION, NODES, Layout, cache_directory


@contextmanager
def _only_one() -> Iterator[None]:
    """Let one process at a time change the cluster: its network namespace and cgroup have fixed names."""
    cache_directory().mkdir(parents=True, exist_ok=True)
    with (cache_directory() / "cluster.lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        yield


def _status(layout: Layout) -> int:
    if not layout.description.exists():
        print("no cluster is up")
        return 1
    wrong = native.problems(layout)
    print(f"Kubernetes {KUBERNETES_VERSION}, state in {layout.state}")
    for node in NODES:
        gpus = f", {node.gpus} GPUs (simulated: counted by the scheduler, no device behind them)" if node.gpus else ""
        print(f"  node {node.name}: {node.address}, role {node.role}{gpus}")
    for line in wrong:
        print(f"  WRONG {line}")
    print("unhealthy" if wrong else "healthy")
    return 1 if wrong else 0


def main() -> int:
    """Run one command and return its exit code."""
    parser = argparse.ArgumentParser(prog="python -m e2e.cluster", description=__doc__)
    commands = parser.add_subparsers(dest="command", required=True)
    commands.add_parser("up")
    commands.add_parser("down")
    commands.add_parser("status")
    commands.add_parser("env")
    for name in ("kubectl", "helm", "exec"):
        commands.add_parser(name).add_argument("arguments", nargs=argparse.REMAINDER)
    commands.add_parser("load-image").add_argument("tag")
    options = parser.parse_args()
    layout = Layout.from_environment()
    try:
        if options.command == "up":
            with _only_one():
                native.up(layout)
            return 0
        if options.command == "down":
            with _only_one():
                native.down(layout)
            return 0
        if options.command == "status":
            return _status(layout)
        cluster = Cluster.connect()
        if options.command == "env":
            for key, value in cluster.environment.items():
                print(f"export {key}={shlex.quote(value)}")
            return 0
        if options.command == "load-image":
            cluster.load_image(options.tag)
            return 0
        arguments = [a for a in options.arguments]
        if options.command == "exec":
            arguments = arguments[1:] if arguments[:1] == ["--"] else arguments
        else:
            arguments = [options.command, *arguments]
        return cluster.execute(arguments)
    except ClusterError as error:
        print(f"error: {error}", file=sys.stderr)
        return 1


sys.exit(main())
