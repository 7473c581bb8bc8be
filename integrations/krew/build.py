"""Builds `kubectl podtune` as one file that needs Python alone, and krew's archives and manifest.

`make zipapp` builds it for this machine; `python integrations/krew/build.py --all --releases URL` for all platforms, as
for a release. The packages are those of requirements/cli.txt, by their hashes. Equal sources make equal files.
"""

from __future__ import annotations

import argparse
import gzip
import hashlib
import io
import os
import platform
import subprocess
import sys
import tarfile
import tempfile
import tomllib
import zipfile
from collections.abc import Iterable, Mapping
from pathlib import Path

import yaml

ROOT = Path(__file__).resolve().parents[2]
HERE = Path(__file__).parent
BUILD = ROOT / "build" / "krew"
PYTHONS = ("3.11", "3.12", "3.13", "3.14")
PLATFORMS: Mapping[str, str] = {
    "linux-amd64": "x86_64-manylinux_2_28",
    "linux-arm64": "aarch64-manylinux_2_28",
    "darwin-amd64": "x86_64-apple-darwin",
    "darwin-arm64": "aarch64-apple-darwin",
}
"""Names that krew has for platforms, each with uv's."""
PROGRAM = "kubectl-podtune"
_ARCHITECTURES = {"x86_64": "amd64", "aarch64": "arm64", "arm64": "arm64"}
_EPOCH = (1980, 1, 1, 0, 0, 0)
Files = Mapping[str, bytes]


def find_platform() -> str:
    """This machine's."""
    return f"{platform.system().lower()}-{_ARCHITECTURES.get(platform.machine(), platform.machine())}"


def fetch_packages(name: str, work: Path, pythons: Iterable[str]) -> dict[str, Files]:
    """The files of the command line's packages on a platform, by version of Python."""
    found = {}
    for python in pythons:
        target = work / f"{name}-{python}"
        command = [
            *(Path(sys.executable).parent / "uv", "pip", "install", "--quiet", "--no-deps", "--require-hashes"),
            *("--only-binary", ":all:", "--python", sys.executable, "--python-version", python),
            *("--python-platform", PLATFORMS[name], "--target", target, "-r", ROOT / "requirements" / "cli.txt"),
        ]
        subprocess.run([str(word) for word in command], check=True)
        found[python] = read_files(target)
    return found


def read_files(folder: Path) -> Files:
    """The files of a folder by their paths, without what only runs leave."""
    return {
        str(path.relative_to(folder)): path.read_bytes()
        for path in sorted(folder.rglob("*"))
        if path.is_file() and not {"__pycache__", "bin"} & set(path.relative_to(folder).parts) and path.name != ".lock"
    }


def build_program(packages: Mapping[str, Files], product: Files) -> bytes:
    """The one file: what all versions of Python share is in there once.

    Args:
        packages: Files of the packages, by version of Python.
        product: Files of podtune itself.
    """
    (first, *others) = packages.values()
    shared = {path for path, content in first.items() if all(other.get(path) == content for other in others)}
    files = {f"lib/any/{path}": first[path] for path in shared}
    files |= {f"lib/any/podtune/{path}": content for path, content in product.items()}
    for python, own in packages.items():
        files |= {f"lib/{python}/{path}": content for path, content in own.items() if path not in shared}
        files.setdefault(f"lib/{python}/.for-this-python", b"")
    digest = hashlib.sha256()
    for path, content in sorted(files.items()):
        digest.update(f"{path}:{len(content)}:".encode() + content)
    files |= {"digest.txt": digest.hexdigest()[:16].encode(), "__main__.py": (HERE / "bootstrap.py").read_bytes()}
    written = io.BytesIO(b"#!/usr/bin/env python3\n")
    written.seek(0, os.SEEK_END)
    with zipfile.ZipFile(written, "a") as archive:
        for path, content in sorted(files.items()):
            info = zipfile.ZipInfo(path, _EPOCH)
            info.external_attr = 0o644 << 16
            archive.writestr(info, content, zipfile.ZIP_DEFLATED, 9)
    return written.getvalue()


def pack(program: bytes) -> bytes:
    """The archive that krew downloads: the program and the licence."""
    written = io.BytesIO()
    with tarfile.open(fileobj=written, mode="w") as archive:
        for name, content, mode in ((PROGRAM, program, 0o755), ("LICENSE", (ROOT / "LICENSE").read_bytes(), 0o644)):
            info = tarfile.TarInfo(name)
            info.size, info.mode = len(content), mode
            archive.addfile(info, io.BytesIO(content))
    return gzip.compress(written.getvalue(), compresslevel=1, mtime=0)


def build_manifest(archives: Mapping[str, bytes], version: str, releases: str) -> str:
    """What krew reads: where the archive of each platform is, and its digest."""
    manifest = yaml.safe_load((HERE / "podtune.yaml").read_text(encoding="utf-8"))
    platforms = []
    for name, archive in archives.items():
        system, _, architecture = name.partition("-")
        platforms.append(
            {
                "selector": {"matchLabels": {"os": system, "arch": architecture}},
                "uri": f"{releases}/v{version}/{PROGRAM}-{name}.tar.gz",
                "sha256": hashlib.sha256(archive).hexdigest(),
                "bin": PROGRAM,
            }
        )
    manifest["spec"] = {"version": f"v{version}", "homepage": releases, **manifest["spec"], "platforms": platforms}
    text: str = yaml.dump(manifest, Dumper=_Dumper, sort_keys=False, width=110)
    return text


class _Dumper(yaml.SafeDumper):
    """Writes texts of several lines as people do."""


_Dumper.add_representer(
    str,
    lambda dumper, text: dumper.represent_scalar("tag:yaml.org,2002:str", text, style="|" if "\n" in text else None),
)


def main() -> int:
    """Builds what the command line asks for."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--all", action="store_true", help="for all platforms")
    parser.add_argument("--python", action="append", help="only for this version of Python; may be repeated")
    parser.add_argument("--releases", default="https://podtune.example.com/releases", help="where archives will be")
    parser.add_argument("--output", type=Path, default=BUILD, help="folder to write to")
    options = parser.parse_args()
    here = find_platform()
    if here not in PLATFORMS and not options.all:
        print(f"error: {here} is none of {', '.join(PLATFORMS)}; use --all", file=sys.stderr)
        return 1
    version = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]["version"]
    product = read_files(ROOT / "operator" / "podtune")
    options.output.mkdir(parents=True, exist_ok=True)
    archives = {}
    with tempfile.TemporaryDirectory() as work:
        for name in PLATFORMS if options.all else (here,):
            program = build_program(fetch_packages(name, Path(work), options.python or PYTHONS), product)
            archives[name] = pack(program)
            (options.output / f"{PROGRAM}-{name}.tar.gz").write_bytes(archives[name])
            if name == here:
                (options.output / PROGRAM).write_bytes(program)
                (options.output / PROGRAM).chmod(0o755)
            print(f"{name}: {len(program) / 1e6:.1f} MB")
    manifest = build_manifest(archives, version, options.releases)
    (options.output / "podtune.yaml").write_text(manifest, encoding="utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main())
