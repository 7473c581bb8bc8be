"""Command line of the local cluster."""

from __future__ import annotations

import argparse
import shlex
import sys
from collections.abc import Callable
from contextlib import AbstractContextManager
from dataclasses import dataclass
from pathlib import Path

from e2e.devcluster import kind, native
from e2e.devcluster.building import builds
from e2e.devcluster.building.archives import Archive
from e2e.devcluster.cluster import Cluster
from e2e.devcluster.errors import ClusterError
from e2e.devcluster.layout import NODES, Layout, cache_directory
from e2e.devcluster.locks import locked
from e2e.devcluster.versions import KUBERNETES_VERSION, OTHER_VERSIONS, VARIABLE, find_version


@dataclass(frozen=True)
class _Backend:
    up: Callable[[Layout], None]
    down: Callable[[Layout], None]
    problems: Callable[[Layout], list[str]]


_NATIVE = _Backend(native.up, native.down, native.problems)
_KIND = _Backend(kind.up, kind.down, kind.problems)
_PASSED_ON = ("kubectl", "helm", "exec")


def main(words: list[str]) -> int:
    """Run one command and return its exit code."""
    if words and words[0] in _PASSED_ON:
        # Everything after it is the program's own, also what looks like an option of ours.
        return _report(lambda: _pass_on(words))
    options = _parser().parse_args(words)
    return _report(lambda: options.run(options))


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="python -m e2e.devcluster", description="A real Kubernetes for Podtune's tests."
    )
    commands = parser.add_subparsers(required=True, metavar="COMMAND")

    up = commands.add_parser("up", help="make sure that a healthy cluster runs")
    up.set_defaults(run=_up)
    commands.add_parser("down", help="remove the cluster, in whatever state it is").set_defaults(run=_down)
    commands.add_parser("status", help="say what is healthy; exit code 1 if something is not").set_defaults(run=_status)
    commands.add_parser(
        "versions", help=f"name the versions besides {KUBERNETES_VERSION}: {VARIABLE}=… up"
    ).set_defaults(run=_name_versions)
    commands.add_parser("env", help='print shell exports: eval "$(… env)"').set_defaults(run=_env)

    load = commands.add_parser("load-image", help="load an image that was built into the nodes")
    load.add_argument("tag")
    load.set_defaults(run=_load_image)

    build = commands.add_parser("build-image", help="build a target of a Dockerfile, unless nothing has changed")
    build.add_argument("--target", required=True)
    build.add_argument("--tag", required=True)
    build.add_argument("--file", type=Path, default=Path("Dockerfile"))
    build.add_argument("--context", type=Path, help="default: the Dockerfile's directory")
    build.add_argument("--build-arg", action="append", default=[], metavar="KEY=VALUE")
    build.add_argument("--load", action="store_true", help="load it into the nodes, too")
    build.set_defaults(run=_build_image)

    kwok = commands.add_parser("kwok", help="have this many fake nodes; 0 removes them")
    kwok.add_argument("count", type=int)
    kwok.set_defaults(run=_kwok)

    for name, text in (("kubectl", "run kubectl on the cluster"), ("helm", "run Helm on the cluster"),
                       ("exec", "run a command on the cluster's network: exec -- COMMAND…")):  # fmt: skip
        commands.add_parser(name, help=text)
    return parser


def _up(_: argparse.Namespace) -> int:
    with _only_one():
        _backend().up(Layout.from_environment())
    return 0


def _down(_: argparse.Namespace) -> int:
    with _only_one():
        _backend().down(Layout.from_environment())
    return 0


def _status(_: argparse.Namespace) -> int:
    layout = Layout.from_environment()
    cluster = Cluster.connect()
    wrong = _backend().problems(layout)
    print(f"Kubernetes {find_version()} ({cluster.mode}), state in {layout.state}")
    for node in NODES:
        gpus = f", {node.gpus} GPUs (simulated: counted by the scheduler, no device behind them)" if node.gpus else ""
        print(f"  node {node.name}: role {node.role}{gpus}")
    print(f"  S3: {cluster.s3.endpoint}, from pods {cluster.s3.cluster_endpoint}")
    for line in wrong:
        print(f"  WRONG {line}")
    print("unhealthy" if wrong else "healthy")
    return 1 if wrong else 0


def _name_versions(_: argparse.Namespace) -> int:
    print("\n".join(OTHER_VERSIONS))
    return 0


def _env(_: argparse.Namespace) -> int:
    cluster = Cluster.connect()
    print(f'export PATH={shlex.quote(str(cluster.programs))}:"$PATH"')
    for key, value in cluster.environment.items():
        print(f"export {key}={shlex.quote(value)}")
    return 0


def _load_image(options: argparse.Namespace) -> int:
    _say_loaded(options.tag, Cluster.connect().load_image(options.tag))
    return 0


def _build_image(options: argparse.Namespace) -> int:
    arguments = builds.parse_build_arguments(options.build_arg)
    if kind.is_used():
        kind.build_image(options.file, options.target, options.tag, arguments, options.context)
    else:
        archive = builds.build_image(
            options.file, options.target, options.tag, build_args=arguments, context=options.context
        )
        print(_describe(archive))
    if options.load:
        _say_loaded(options.tag, Cluster.connect().load_image(options.tag))
    return 0


def _kwok(options: argparse.Namespace) -> int:
    cluster = Cluster.connect()
    if options.count:
        cluster.add_kwok_nodes(options.count)
    else:
        cluster.remove_kwok_nodes()
    return 0


def _pass_on(words: list[str]) -> int:
    arguments = words[1:] if words[0] == "exec" else words
    if arguments[:1] == ["--"]:
        arguments = arguments[1:]
    if not arguments:
        raise ClusterError("exec: which command?")
    Cluster.connect().execute(arguments)


def _report(run: Callable[[], int]) -> int:
    try:
        return run()
    except ClusterError as error:
        print(f"error: {error}", file=sys.stderr)
        return 1


def _only_one() -> AbstractContextManager[None]:
    """Let one process at a time change the cluster: its network namespace and cgroup have fixed names."""
    return locked(cache_directory() / "cluster.lock", "starting or removing the cluster")


def _backend() -> _Backend:
    return _KIND if kind.is_used() else _NATIVE


def _describe(archive: Archive) -> str:
    return f"{archive.tag} is {archive.path} ({archive.path.stat().st_size / 1e6:.0f} MB)"


def _say_loaded(tag: str, nodes: list[str]) -> None:
    print(f"{tag}: loaded into {', '.join(nodes)}" if nodes else f"{tag}: all nodes have it")


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
