"""Builds the plugin for Headlamp: `make headlamp`.

It copies the sources to build/headlamp/source, installs there what package-lock.json pins, has eslint, tsc and vitest
look at the plugin, and builds it. build/headlamp/podtune is then the folder that belongs among Headlamp's plugins, and
the archive beside it holds the same. Equal sources make equal files.
"""

from __future__ import annotations

import argparse
import gzip
import hashlib
import io
import json
import os
import shutil
import subprocess
import sys
import tarfile
from collections.abc import Mapping
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
HERE = Path(__file__).parent
BUILD = ROOT / "build" / "headlamp"
FOLDER = "podtune"
"""Name of the plugin's folder among Headlamp's plugins."""
LEAST_NODE = 20
CHECKS = ("lint", "tsc", "test")
COPIED = ("package.json", "package-lock.json", ".npmrc", "tsconfig.json", "src")


class BuildError(Exception):
    """Something is missing, with the remedy."""


def check_node() -> None:
    """Raises BuildError unless Node.js and npm are there, and new enough."""
    if shutil.which("npm") is None or (node := shutil.which("node")) is None:
        raise BuildError(f"the plugin for Headlamp needs Node.js {LEAST_NODE} or later, with npm: install it")
    version = subprocess.run([node, "--version"], capture_output=True, text=True, check=True).stdout.strip()
    if not version.removeprefix("v").split(".")[0].isdecimal() or int(version[1:].split(".")[0]) < LEAST_NODE:
        raise BuildError(f"Node.js is {version}; the plugin for Headlamp needs {LEAST_NODE} or later")


def copy_sources(target: Path) -> None:
    """Copies what the plugin is made of, and leaves what is installed there already."""
    target.mkdir(parents=True, exist_ok=True)
    for name in COPIED:
        source, copy = HERE / name, target / name
        if source.is_dir():
            shutil.rmtree(copy, ignore_errors=True)
            shutil.copytree(source, copy)
        else:
            shutil.copyfile(source, copy)


def install(source: Path) -> None:
    """Installs the packages, unless those of this lock file are there."""
    mark = source / "node_modules" / ".podtune-installed"
    digest = hashlib.sha256((source / "package-lock.json").read_bytes()).hexdigest()
    if mark.exists() and mark.read_text(encoding="utf-8") == digest:
        return
    # No package needs a script of its own to be installed, and none may run one.
    run_npm(source, "ci", "--ignore-scripts")
    mark.write_text(digest, encoding="utf-8")


def run_npm(source: Path, *words: str) -> None:
    """Runs npm; what it says goes to the terminal.

    Raises:
        BuildError: It failed.
    """
    # Without CI, vitest waits on a terminal for changes.
    environment = {**os.environ, "CI": "true"}
    if subprocess.run(["npm", *words], cwd=source, env=environment, check=False).returncode != 0:
        raise BuildError(f"`npm {' '.join(words)}` failed in {source}: see above")


def read_plugin(source: Path) -> dict[str, bytes]:
    """The files that Headlamp loads, by name."""
    return {"main.js": (source / "dist" / "main.js").read_bytes(), "package.json": read_package(source)}


def read_package(source: Path) -> bytes:
    """package.json without what only builds need."""
    package = json.loads((source / "package.json").read_text(encoding="utf-8"))
    # By devDependencies, Headlamp tells whether it can load the plugin.
    kept = ("name", "version", "description", "license", "author", "devDependencies")
    return (json.dumps({key: package[key] for key in kept if key in package}, indent=2) + "\n").encode()


def pack(files: Mapping[str, bytes]) -> bytes:
    """The archive to be unpacked in Headlamp's folder of plugins."""
    written = io.BytesIO()
    with tarfile.open(fileobj=written, mode="w") as archive:
        for name, content in sorted(files.items()):
            info = tarfile.TarInfo(f"{FOLDER}/{name}")
            info.size, info.mode = len(content), 0o644
            archive.addfile(info, io.BytesIO(content))
    return gzip.compress(written.getvalue(), mtime=0)


def write_plugin(files: Mapping[str, bytes], output: Path) -> Path:
    """Writes the plugin's archive, and says where."""
    package = json.loads(files["package.json"])
    output.mkdir(parents=True, exist_ok=True)
    archive = output / f"{package['name']}-{package['version']}.tar.gz"
    archive.write_bytes(pack(files))
    return archive


def main() -> int:
    """Builds the plugin."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--output", type=Path, default=BUILD, help="folder for the archive")
    options = parser.parse_args()
    source = BUILD / "source"
    try:
        check_node()
        copy_sources(source)
        install(source)
        for check in CHECKS:
            run_npm(source, "run", "--silent", check)
        run_npm(source, "run", "--silent", "build")
    except BuildError as error:
        print(f"error: {error}", file=sys.stderr)
        return 1
    files = read_plugin(source)
    folder = BUILD / FOLDER
    folder.mkdir(exist_ok=True)
    for name, content in files.items():
        (folder / name).write_bytes(content)
    print(f"{folder} belongs in Headlamp's folder of plugins; {write_plugin(files, options.output)} holds the same")
    return 0


if __name__ == "__main__":
    sys.exit(main())
