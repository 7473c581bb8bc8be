"""Podtune's transfers of checkpoints beside those of other tools, against a real S3 server on the loopback interface.

python -m e2e.bench.sync.sync [--repeats 3] [--scale 1.0] [--load NAME] [--directory DIR]

Each tool does the same work in a process of its own, in turn, several times; the median counts. What a tool makes of a
transfer depends on the machine, so only figures of one run are to be compared. What is possible is the time of the
faster of the other tools, or of copying and hashing in parallel without any server where that takes longer. Processor
time is disturbed less by what else the machine does; the server's belongs to it, as the two share the machine.
"""

from __future__ import annotations

import argparse
import hashlib
import os
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from statistics import median

from rich.console import Console

from e2e.bench.measurement import Figure, Measurement
from e2e.bench.processor_time import seconds_of
from e2e.bench.sync.sync_server import BUCKET, Server, environment, running_server
from e2e.bench.sync.sync_tools import AWS, FLOOR, RCLONE, ROOT, Tool, podtune, tools


@dataclass(frozen=True)
class Load:
    """What is transferred; the layout is the one that suits it, which is held to the target."""

    name: str
    files: int
    size: int
    layout: str = "Plain"

    def scaled(self, scale: float) -> Load:
        """A share of it: fewer files, or a smaller one where there is but one."""
        if self.files == 1:
            return replace(self, size=int(self.size * scale))
        return replace(self, files=max(1, int(self.files * scale)))

    def takes(self, tool: str) -> bool:
        """Whether it is transferred by a tool: where the packed layout changes nothing, it is not measured."""
        return tool != podtune("Packed") or self.layout == "Packed"


LOADS = (
    Load("1 GiB in one file", 1, 1 << 30, "Packed"),
    Load("16 × 64 MiB", 16, 64 << 20),
    Load("5,000 × 20 kB", 5000, 20_000, "Packed"),
)


@dataclass(frozen=True)
class Run:
    """One process.

    Attributes:
        seconds: From its start to its end.
        processor_seconds: Its own.
        server_seconds: Processor time of the server meanwhile.
        resident_mib: What was resident of it at most.
    """

    seconds: float
    processor_seconds: float
    server_seconds: float
    resident_mib: float


@dataclass(frozen=True)
class Measured:
    """All that one tool did with one load."""

    load: Load
    tool: str
    up: Sequence[Run]
    down: Sequence[Run]

    def seconds(self, way: str) -> float:
        """The median of one way, `up` or `down`."""
        return median(run.seconds for run in self._runs(way))

    def figures(self, extent: str) -> Iterator[Figure]:
        """What is reported of it."""
        name = f"{self.load.name}{extent}, {self.tool}"
        for way in ("up", "down"):
            runs = self._runs(way)
            yield Figure(f"{name}, {way}", self.seconds(way), "s")
            busy = median(run.processor_seconds + run.server_seconds for run in runs)
            yield Figure(f"{name}, {way}, processor time with the server's", busy, "s")
        yield Figure(f"{name}, resident", max(run.resident_mib for run in (*self.up, *self.down)), "MiB")

    def _runs(self, way: str) -> Sequence[Run]:
        return self.up if way == "up" else self.down


def measure(full: bool) -> Measurement:
    """Transfers all loads; in brief an eighth of each, once."""
    options = _parser().parse_args([] if full else ["--repeats", "1", "--scale", "0.125"])
    repeats = "median of 3 transfers" if full else "one transfer"
    setting = f"versitygw on loopback, {repeats}, each tool in a process of its own"
    found = run(options)
    return Measurement(setting, list(_figures(found, "" if full else ", an eighth of it")))


def _figures(found: Sequence[Measured], extent: str) -> Iterator[Figure]:
    """First what is held to a target, then what it was made of."""
    for load in LOADS:
        yield from limits([item for item in found if item.load == load], extent)
    for item in found:
        yield from item.figures(extent)


def limits(found: Sequence[Measured], extent: str = "") -> Iterator[Figure]:
    """Our time of one load to what is possible, and to that of the faster tool.

    Args:
        found: What all tools did with it.
        extent: How much of the load it was.
    """
    of = {item.tool: item for item in found}
    for item in found:
        if item.tool != podtune(item.load.layout):
            continue
        for way in ("up", "down"):
            ours, floor = item.seconds(way), of[FLOOR].seconds(way)
            fastest = min((of[tool].seconds(way) for tool in (AWS, RCLONE) if tool in of), default=0.0)
            name = f"{item.load.name}{extent}: {way}"
            yield Figure(f"{name}, to what is possible", ours / max(fastest, floor))
            if fastest:
                yield Figure(f"{name}, to the faster tool", ours / fastest)


def main() -> int:
    """Runs the benchmark; returns the exit code."""
    options = _parser().parse_args()
    extent = "" if options.scale == 1 else f" × {options.scale:g}"
    setting = f"Transfers on loopback: median of {options.repeats}"
    Console(width=130).print(Measurement(setting, list(_figures(run(options), extent))).table())
    return 0


def run(options: argparse.Namespace) -> list[Measured]:
    """Has each tool transfer each load."""
    with tempfile.TemporaryDirectory(dir=options.directory, prefix="podtune-bench-") as name:
        directory = Path(name)
        with running_server(directory) as server:
            available = list(tools(server.url, directory))
            return [
                measured
                for load in LOADS
                if options.load in load.name
                for measured in _measure(load, available, directory, server, options)
            ]


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="python -m e2e.bench.sync.sync", description="Transfers beside other tools.")
    parser.add_argument("--repeats", type=int, default=3)
    parser.add_argument("--scale", type=float, default=1.0, help="of the loads' sizes, for a quick look")
    parser.add_argument("--load", default="", help="only those whose name holds this")
    parser.add_argument("--directory", type=Path, help="where 5 GiB are free; the system's temporary directory")
    return parser


def _measure(
    load: Load, available: Sequence[Tool], directory: Path, server: Server, options: argparse.Namespace
) -> Iterator[Measured]:
    source = directory / "source"
    taken: dict[str, list[tuple[Run, Run]]] = {tool.name: [] for tool in available if load.takes(tool.name)}
    with _removed(source):
        expected = _write(load.scaled(options.scale), source)
        for repeat in range(options.repeats):
            for tool in available:
                if tool.name not in taken:
                    continue
                prefix, target = f"{tool.name.replace(' ', '-')}-{repeat}", directory / "target"
                with (
                    _removed(target),
                    _removed(directory / "buckets" / BUCKET / prefix),
                    _removed(directory / "copies"),
                ):
                    os.sync()  # what the one before has left unwritten would be written while this one is timed
                    up = _run(tool.up(source, prefix), server)
                    os.sync()
                    down = _run(tool.down(prefix, target), server)
                    if _digest(target) != expected:
                        raise SystemExit(f"{tool.name} did not bring back what it was given")
                found = f"up {up.seconds:.1f} s, down {down.seconds:.1f} s"
                print(f"{load.name}, {tool.name}: {found}", file=sys.stderr, flush=True)
                taken[tool.name].append((up, down))
    for name, runs in taken.items():
        ups, downs = zip(*runs, strict=True)
        yield Measured(load, name, ups, downs)


def _write(load: Load, source: Path) -> str:
    source.mkdir()
    for number in range(load.files):
        with (source / f"{number:05}").open("wb") as file:
            for start in range(0, load.size, 1 << 20):
                file.write(os.urandom(min(1 << 20, load.size - start)))
    return _digest(source)


def _digest(directory: Path) -> str:
    whole = hashlib.sha256()
    for path in sorted(directory.iterdir()):
        with path.open("rb") as file:
            whole.update(path.name.encode() + hashlib.file_digest(file, "sha256").digest())
    return whole.hexdigest()


def _run(command: list[str], server: Server) -> Run:
    busy = seconds_of(server.process)
    # What is resident of a process begins with what was resident of the one that forked it: so a small one forks.
    small = [sys.executable, "-I", "-S", "-c", _SMALL, *command]
    ran = subprocess.run(small, env=environment(server.url), cwd=ROOT, stdout=subprocess.PIPE, check=False)
    if ran.returncode != 0:
        raise SystemExit(f"{command[0]} failed with {ran.returncode}")
    seconds, own, resident = map(float, ran.stdout.split())
    return Run(seconds, own, seconds_of(server.process) - busy, resident / 1024)


_SMALL = """
import os, sys, time
started = time.monotonic()
process = os.fork()
if not process:
    os.dup2(os.open(os.devnull, os.O_WRONLY), 1)
    os.execvp(sys.argv[1], sys.argv[1:])
_, status, usage = os.wait4(process, 0)
print(time.monotonic() - started, usage.ru_utime + usage.ru_stime, usage.ru_maxrss)
sys.exit(os.waitstatus_to_exitcode(status))
"""


@contextmanager
def _removed(directory: Path) -> Iterator[None]:
    """Removes a directory afterwards."""
    try:
        yield
    finally:
        shutil.rmtree(directory, ignore_errors=True)


if __name__ == "__main__":
    sys.exit(main())
