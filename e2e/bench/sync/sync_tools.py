"""The tools that the benchmark of transfers sets side by side, as commands."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

from e2e.bench.sync.sync_server import BUCKET

ROOT = Path(__file__).resolve().parents[3]
TRANSFERS = 16
"""Of rclone, as its manual advises for many small files."""
AWS = "aws s3 sync"
RCLONE = "rclone"
COPY = "cp + SHA-256"
FLOOR = "cp + SHA-256 in parallel"
LAYOUTS = ("Plain", "Packed")


@dataclass(frozen=True)
class Tool:
    """How a tool copies a directory to the bucket, and from there to another one."""

    name: str
    up: Callable[[Path, str], list[str]]
    down: Callable[[str, Path], list[str]]


def podtune(layout: str) -> str:
    """What our own transfers with a layout are called."""
    return f"podtune {layout}"


def tools(endpoint: str, directory: Path) -> Iterator[Tool]:
    """All tools that can be had on this machine.

    Args:
        endpoint: URL of the S3 server.
        directory: Where they may be installed, and where copies go that go to no server.
    """
    for layout in LAYOUTS:
        yield _podtune(layout, endpoint)
    copies = directory / "copies"
    yield _copying(FLOOR, [sys.executable, "-m", "e2e.bench.sync.sync_floor"], copies)
    yield _copying(COPY, [sys.executable, "-c", _COPY], copies)
    if aws := install_aws(directory):
        sync = [aws, "--endpoint-url", endpoint, "--region", "us-east-1", "s3", "sync", "--only-show-errors"]
        yield Tool(
            AWS,
            lambda source, prefix: [*sync, str(source), f"s3://{BUCKET}/{prefix}"],
            lambda prefix, target: [*sync, f"s3://{BUCKET}/{prefix}", str(target)],
        )
    if rclone := shutil.which("rclone"):
        copy = [rclone, "--config", os.devnull, "--transfers", str(TRANSFERS), "--s3-no-check-bucket", "copy"]
        remote = f":s3,provider=Other,env_auth=true,endpoint='{endpoint}':{BUCKET}"
        yield Tool(
            RCLONE,
            lambda source, prefix: [*copy, str(source), f"{remote}/{prefix}"],
            lambda prefix, target: [*copy, f"{remote}/{prefix}", str(target)],
        )


def _podtune(layout: str, endpoint: str) -> Tool:
    worker = [sys.executable, "-m", "e2e.bench.sync.sync_worker"]
    return Tool(
        podtune(layout),
        lambda source, prefix: [*worker, "up", str(source), endpoint, BUCKET, prefix, layout],
        lambda prefix, target: [*worker, "down", str(target), endpoint, BUCKET, prefix, layout],
    )


_COPY = """
import hashlib, os, shutil, sys
shutil.copytree(sys.argv[1], sys.argv[2], dirs_exist_ok=True)
for root, _, names in os.walk(sys.argv[2]):
    for name in names:
        with open(os.path.join(root, name), "rb") as file:
            hashlib.file_digest(file, "sha256")
"""


def _copying(name: str, command: list[str], copies: Path) -> Tool:
    return Tool(
        name,
        lambda source, prefix: [*command, str(source), str(copies / prefix)],
        lambda prefix, target: [*command, str(copies / prefix), str(target)],
    )


def install_aws(directory: Path) -> str | None:
    """The AWS command line in an environment of its own; None where it can't be had."""
    beside = Path(sys.executable).with_name("uv")
    uv, python = str(beside) if beside.exists() else shutil.which("uv"), directory / "aws" / "bin" / "python"
    if uv is None:
        print("aws is left out: there is no uv", file=sys.stderr)
        return None
    requirements = ROOT / "requirements" / "bench-awscli.txt"
    make = [uv, "venv", "--quiet", "--python", sys.executable, str(directory / "aws")]
    install = [uv, "pip", "install", "--quiet", "--python", str(python), "--require-hashes", "-r", str(requirements)]
    done = _run(make)
    if done.returncode == 0:
        done = _run(install)
        if done.returncode != 0:  # as beside the local cluster, whose network ends there: what is cached may do
            done = _run([*install, "--offline"])
    if done.returncode != 0:
        print(f"aws is left out: {done.stderr.strip()[-300:]}", file=sys.stderr)
        return None
    return str(python.with_name("aws"))


def _run(command: list[str]) -> subprocess.CompletedProcess[str]:
    return subprocess.run(command, capture_output=True, text=True, timeout=600, check=False)
