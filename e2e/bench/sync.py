"""Podtune's transfers of checkpoints beside those of other tools, against a real S3 server on the loopback interface.

python -m e2e.bench.sync [--repeats 3] [--scale 1.0] [--directory DIR] [--json FILE]

Each tool does the same work in a process of its own, in turn, several times; the median counts. What a tool makes of a
transfer depends on the machine, so only figures of one run are to be compared. `cp` with SHA-256 is what hashing and
writing alone take.
"""

from __future__ import annotations

import argparse
import hashlib
import json
import os
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from pathlib import Path
from statistics import median

from rich.console import Console
from rich.table import Table

from e2e.bench.measurement import Figure, Measurement
from e2e.bench.sync_server import BUCKET, environment, running_server

ROOT = Path(__file__).resolve().parents[2]
TRANSFERS = 16
"""Of rclone, as its manual advises for many small files."""
TOOLS = ("aws s3 sync", "rclone")
FLOOR = "cp + SHA-256"


@dataclass(frozen=True)
class Load:
    """What is transferred."""

    name: str
    files: int
    size: int


LOADS = (Load("1 GiB in one file", 1, 1 << 30), Load("16 × 64 MiB", 16, 64 << 20), Load("5,000 × 20 kB", 5000, 20_000))


@dataclass(frozen=True)
class Measured:
    """What one tool took for one load: medians over the repeats; processor time is of the tool alone, both ways."""

    load: str
    tool: str
    up_seconds: float
    down_seconds: float
    resident_mib: float
    processor_seconds: float


@dataclass(frozen=True)
class Tool:
    """How a tool copies a directory to the bucket, and from there to another one."""

    name: str
    up: Callable[[Path, str], list[str]]
    down: Callable[[str, Path], list[str]]


def measure(full: bool) -> Measurement:
    """Transfers all loads; in brief a tenth of each, once."""
    options = _parser().parse_args([] if full else ["--repeats", "1", "--scale", "0.1"])
    found = run(options)
    extent = "" if full else ", a tenth of it"
    figures: list[Figure] = []
    for load in LOADS:
        figures += _limits(load, extent, [item for item in found if item.load == load.name])
    for item in found:
        name = f"{item.load}{extent}, {item.tool}"
        figures += [Figure(f"{name}, up", item.up_seconds, "s"), Figure(f"{name}, down", item.down_seconds, "s")]
        figures.append(Figure(f"{name}, resident", item.resident_mib, "MiB"))
    repeats = "median of 3 transfers" if full else "one transfer"
    return Measurement(f"versitygw on loopback, {repeats}, each tool in a process of its own", figures)


def _limits(load: Load, extent: str, found: list[Measured]) -> Iterator[Figure]:
    """Our time to that of the fastest other tool, or of copying and hashing alone where that is longer."""
    if not found:
        return
    ours = [item for item in found if item.tool.startswith("podtune")]
    tools = [item for item in found if item.tool in TOOLS]
    floor = next(item for item in found if item.tool == FLOOR)
    for name, seconds in (("up", _up), ("down", _down)):
        limit = max(min(map(seconds, tools), default=0.0), seconds(floor))
        yield Figure(f"{load.name}{extent}: {name}, to what is possible", min(map(seconds, ours)) / limit)


def _up(item: Measured) -> float:
    return item.up_seconds


def _down(item: Measured) -> float:
    return item.down_seconds


def main() -> int:
    """Runs the benchmark; returns the exit code."""
    options = _parser().parse_args()
    found = run(options)
    _print(found)
    if options.json is not None:
        figures = {"processors": os.cpu_count(), "repeats": options.repeats, "scale": options.scale}
        options.json.write_text(json.dumps({**figures, "measured": [asdict(item) for item in found]}, indent=2) + "\n")
    return 0


def run(options: argparse.Namespace) -> list[Measured]:
    """Has each tool transfer each load."""
    with tempfile.TemporaryDirectory(dir=options.directory, prefix="podtune-bench-") as name:
        directory = Path(name)
        with running_server(directory) as endpoint:
            tools = list(_tools(endpoint, directory))
            return [
                measured
                for load in LOADS
                if options.load in load.name
                for measured in _measure(load, tools, directory, endpoint, options)
            ]


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="python -m e2e.bench.sync", description="Transfers beside other tools.")
    parser.add_argument("--repeats", type=int, default=3)
    parser.add_argument("--scale", type=float, default=1.0, help="of the loads' sizes, for a quick look")
    parser.add_argument("--load", default="", help="only those whose name holds this")
    parser.add_argument("--directory", type=Path, help="where 5 GiB are free; the system's temporary directory")
    parser.add_argument("--json", type=Path, help="where to write the figures")
    return parser


def _tools(endpoint: str, directory: Path) -> Iterator[Tool]:
    for layout in ("Plain", "Packed"):
        yield _podtune(layout, endpoint)
    yield Tool(FLOOR, _copy_to(directory / "copies"), _copy_from(directory / "copies"))
    if aws := _install_aws(directory):
        sync = [aws, "--endpoint-url", endpoint, "--region", "us-east-1", "s3", "sync", "--only-show-errors"]
        yield Tool(
            "aws s3 sync",
            lambda source, prefix: [*sync, str(source), f"s3://{BUCKET}/{prefix}"],
            lambda prefix, target: [*sync, f"s3://{BUCKET}/{prefix}", str(target)],
        )
    if rclone := shutil.which("rclone"):
        copy = [rclone, "--config", os.devnull, "--transfers", str(TRANSFERS), "--s3-no-check-bucket", "copy"]
        remote = f":s3,provider=Other,env_auth=true,endpoint='{endpoint}':{BUCKET}"
        yield Tool(
            "rclone",
            lambda source, prefix: [*copy, str(source), f"{remote}/{prefix}"],
            lambda prefix, target: [*copy, f"{remote}/{prefix}", str(target)],
        )


def _podtune(layout: str, endpoint: str) -> Tool:
    worker = [sys.executable, "-m", "e2e.bench.sync_worker"]
    return Tool(
        f"podtune {layout}",
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


def _copy_to(copies: Path) -> Callable[[Path, str], list[str]]:
    return lambda source, prefix: [sys.executable, "-c", _COPY, str(source), str(copies / prefix)]


def _copy_from(copies: Path) -> Callable[[str, Path], list[str]]:
    return lambda prefix, target: [sys.executable, "-c", _COPY, str(copies / prefix), str(target)]


def _install_aws(directory: Path) -> str | None:
    """The AWS command line in an environment of its own; None where it can't be had."""
    beside = Path(sys.executable).with_name("uv")
    uv, python = str(beside) if beside.exists() else shutil.which("uv"), directory / "aws" / "bin" / "python"
    if uv is None:
        print("aws is left out: there is no uv", file=sys.stderr)
        return None
    requirements = ROOT / "requirements" / "bench-awscli.txt"
    for command in (
        [uv, "venv", "--quiet", "--python", sys.executable, str(directory / "aws")],
        [uv, "pip", "install", "--quiet", "--python", str(python), "--require-hashes", "-r", str(requirements)],
    ):
        done = subprocess.run(command, capture_output=True, text=True, timeout=600, check=False)
        if done.returncode != 0:
            print(f"aws is left out: {done.stderr.strip()[-300:]}", file=sys.stderr)
            return None
    return str(python.with_name("aws"))


def _measure(
    load: Load, tools: list[Tool], directory: Path, endpoint: str, options: argparse.Namespace
) -> Iterator[Measured]:
    source = directory / "source"
    taken: dict[str, list[tuple[float, float, float, float]]] = {tool.name: [] for tool in tools}
    with _removed(source):
        expected = _write(load, source, options.scale)
        for repeat in range(options.repeats):
            for tool in tools:
                prefix, target = f"{tool.name.replace(' ', '-')}-{repeat}", directory / "target"
                with (
                    _removed(target),
                    _removed(directory / "buckets" / BUCKET / prefix),
                    _removed(directory / "copies"),
                ):
                    up, resident_up, busy_up = _run(tool.up(source, prefix), endpoint)
                    down, resident_down, busy_down = _run(tool.down(prefix, target), endpoint)
                    if _digest(target) != expected:
                        raise SystemExit(f"{tool.name} did not bring back what it was given")
                print(f"{load.name}, {tool.name}: up {up:.1f} s, down {down:.1f} s", file=sys.stderr, flush=True)
                taken[tool.name].append((up, down, max(resident_up, resident_down), busy_up + busy_down))
    for tool in tools:
        ups, downs, residents, busy = zip(*taken[tool.name], strict=True)
        yield Measured(load.name, tool.name, median(ups), median(downs), max(residents), median(busy))


def _write(load: Load, source: Path, scale: float) -> str:
    source.mkdir()
    size = max(1, int(load.size * scale))
    for number in range(load.files):
        with (source / f"{number:05}").open("wb") as file:
            for start in range(0, size, 1 << 20):
                file.write(os.urandom(min(1 << 20, size - start)))
    return _digest(source)


def _digest(directory: Path) -> str:
    whole = hashlib.sha256()
    for path in sorted(directory.iterdir()):
        with path.open("rb") as file:
            whole.update(path.name.encode() + hashlib.file_digest(file, "sha256").digest())
    return whole.hexdigest()


def _run(command: list[str], endpoint: str) -> tuple[float, float, float]:
    """Seconds, MiB that were resident at most, and seconds of processor time."""
    started = time.monotonic()
    process = subprocess.Popen(command, env=environment(endpoint), cwd=ROOT, stdout=subprocess.DEVNULL)
    _, status, usage = os.wait4(process.pid, 0)
    seconds = time.monotonic() - started
    process.returncode = os.waitstatus_to_exitcode(status)
    if process.returncode != 0:
        raise SystemExit(f"{command[0]} failed with {process.returncode}")
    return seconds, usage.ru_maxrss / 1024, usage.ru_utime + usage.ru_stime


@contextmanager
def _removed(directory: Path) -> Iterator[None]:
    """Removes a directory afterwards."""
    try:
        yield
    finally:
        shutil.rmtree(directory, ignore_errors=True)


def _print(found: list[Measured]) -> None:
    table = Table(title=f"Transfers on loopback, {os.cpu_count()} processors: medians")
    for column in ("load", "tool", "up, s", "down, s", "up / best tool", "down / best tool", "resident, MiB", "CPU, s"):
        table.add_column(column, justify="left" if column in ("load", "tool") else "right")
    for item in found:
        others = [other for other in found if other.load == item.load and other.tool in TOOLS]
        up = item.up_seconds / min((other.up_seconds for other in others), default=item.up_seconds)
        down = item.down_seconds / min((other.down_seconds for other in others), default=item.down_seconds)
        times = (f"{item.up_seconds:.1f}", f"{item.down_seconds:.1f}", f"{up:.2f}", f"{down:.2f}")
        table.add_row(item.load, item.tool, *times, f"{item.resident_mib:.0f}", f"{item.processor_seconds:.1f}")
    Console(width=110).print(table)


if __name__ == "__main__":
    sys.exit(main())
