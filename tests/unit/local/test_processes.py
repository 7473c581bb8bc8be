"""Processes that are ended as a kubelet does, and known again after a restart."""

from __future__ import annotations

import os
import signal
import time
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from podtune.local.processes import ChildProcess, FoundProcess
from tests.unit.local.experiments import PATIENCE

FOREVER = "while :; do sleep 1; done"


@pytest.fixture
def started(tmp_path: Path) -> Iterator[list[ChildProcess]]:
    processes: list[ChildProcess] = []
    yield processes
    for process in processes:
        process.kill()
        assert process.wait(PATIENCE)


def _start(started: list[ChildProcess], path: Path, script: str) -> ChildProcess:
    process = ChildProcess(("/bin/sh", "-c", script), {"PATH": os.environ["PATH"]}, path, path / "output.log")
    started.append(process)
    return process


def test_a_process_ends_with_the_exit_code_of_a_container(started: list[ChildProcess], tmp_path: Path) -> None:
    process = _start(started, tmp_path, "echo hello; echo oops >&2; exit 3")
    assert process.wait(PATIENCE)
    assert process.exit_code == 3
    assert (tmp_path / "output.log").read_text() == "hello\noops\n"
    killed = _start(started, tmp_path, f"{FOREVER}")
    killed.terminate()
    assert killed.wait(PATIENCE)
    assert killed.exit_code == 128 + signal.SIGTERM


def test_what_a_process_has_started_ends_with_it(started: list[ChildProcess], tmp_path: Path) -> None:
    process = _start(started, tmp_path, f"({FOREVER}) & echo $! > child; wait")
    deadline = time.monotonic() + PATIENCE
    while not (tmp_path / "child").exists() or not (tmp_path / "child").read_text().endswith("\n"):
        assert time.monotonic() < deadline
        time.sleep(0.01)
    child = FoundProcess(replace(process.identity, pid=int((tmp_path / "child").read_text())))
    process.kill()
    assert process.wait(PATIENCE)
    assert child.wait(PATIENCE)


def test_a_later_process_with_the_same_number_is_left_alone(started: list[ChildProcess], tmp_path: Path) -> None:
    process = _start(started, tmp_path, FOREVER)
    same, other = FoundProcess(process.identity), FoundProcess(replace(process.identity, started="before"))
    assert (same.is_alive, other.is_alive) == (True, False)
    other.kill()
    other.terminate()
    assert other.wait(0)
    assert same.is_alive
    same.kill()
    assert process.wait(PATIENCE)
    assert not same.is_alive
