"""Dashboards in processes of their own."""

from __future__ import annotations

import json
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from e2e.bench import processor_time
from e2e.bench.dashboard.trial_maker import NAME, NAMESPACE, make_experiment, make_trial
from podtune.api.names import API_VERSION
from podtune.cli.archives.archive import KIND, make_archive, seal

MEGABYTE = 1_000_000


@dataclass(frozen=True)
class Served:
    """A dashboard that answers.

    Attributes:
        address: Where its first page is.
        process: Its /proc folder.
    """

    address: str
    process: Path

    @property
    def page(self) -> str:
        """The overview of the experiment."""
        return f"{self.address}experiments/{NAMESPACE}/{NAME}/"

    @property
    def seconds(self) -> float:
        """Processor seconds that it has used so far."""
        return processor_time.seconds_of(self.process)

    @property
    def megabytes(self) -> float:
        """Its resident memory."""
        return processor_time.resident_bytes_of(self.process) / MEGABYTE


def write_archive(trials: int, file: Path) -> None:
    """Writes what `podtune export` would of so many trials that have ended, as JSON, which is YAML too."""
    made = [make_trial(index) for index in range(trials)]
    archive = make_archive(make_experiment(trials, is_running=False), made, {})
    body = {
        "apiVersion": API_VERSION,
        "kind": KIND,
        "version": 1,
        "source": dict(archive.source),
        "experiment": {"metadata": archive.metadata, "spec": archive.spec, "status": archive.status},
        "warmStart": {},
        "trials": list(archive.trials),
    }
    file.write_text(json.dumps(seal(body)), encoding="utf-8")


@contextmanager
def serve_archive(file: Path) -> Iterator[Served]:
    """`podtune dashboard FILE`."""
    command = [str(Path(sys.executable).with_name("kubectl-podtune")), "dashboard", str(file), "--port", "0"]
    with _run(command) as process:
        address = next(word for line in _read_lines(process) for word in line.split() if word.startswith("http://"))
        yield Served(address, Path("/proc", str(process.pid)))


@contextmanager
def serve_changes(trials: int, changes_a_second: int) -> Iterator[Served]:
    """A cluster's experiment of so many trials, of which so many change in a second."""
    module = "e2e.bench.dashboard.live_server"
    with _run([sys.executable, "-m", module, str(trials), str(changes_a_second)]) as process:
        yield _read_told(process)


@contextmanager
def serve_told(command: Sequence[str], environment: dict[str, str] | None = None) -> Iterator[Served]:
    """A program that prints its address and its process as JSON."""
    with _run(command, environment) as process:
        yield _read_told(process)


@contextmanager
def _run(command: Sequence[str], environment: dict[str, str] | None = None) -> Iterator[subprocess.Popen[str]]:
    pipe = subprocess.PIPE
    with tempfile.TemporaryFile("w+") as errors:
        process = subprocess.Popen(command, env=environment, stdin=pipe, stdout=pipe, stderr=errors, text=True)
        try:
            yield process
        except RuntimeError as error:
            errors.seek(0)
            error.add_note(errors.read()[-2000:])
            raise
        finally:
            process.terminate()
            process.wait(60)
            for end in (process.stdin, process.stdout):
                if end is not None:
                    end.close()


def _read_told(process: subprocess.Popen[str]) -> Served:
    told = next(json.loads(line) for line in _read_lines(process) if line.startswith("{"))
    return Served(told["address"], Path("/proc", str(told["process"])))


def _read_lines(process: subprocess.Popen[str]) -> Iterator[str]:
    if process.stdout is not None:
        yield from process.stdout
    raise RuntimeError(f"it ended before it had an address: {process.args!r}")
