"""Processes that are ended as a kubelet does, and known again after a restart."""

from __future__ import annotations

import os
import signal
import time
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from podtune.local.directory import ProcessIdentity
from podtune.local.processes import ChildProcess, FoundProcess, find_process, read_start_time
from tests.unit.local.experiments import FOREVER, PATIENCE


@pytest.fixture
def started(tmp_path: Path) -> Iterator[list[ChildProcess]]:
    processes: list[ChildProcess] = []
    yield processes
    for process in processes:
        process.kill()
        assert process.wait(PATIENCE)


def _start(started: list[ChildProcess], path: Path, script: str) -> ChildProcess:
    environment = {"PATH": os.environ["PATH"], "PLACE": str(path)}
    process = ChildProcess(("/bin/sh", "-c", script), environment, path, path / "output.log")
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


def _read_child(path: Path) -> int:
    """The number of the process that one has started, and written to a file."""
    deadline = time.monotonic() + PATIENCE
    while not path.exists() or not path.read_text().endswith("\n"):
        assert time.monotonic() < deadline
        time.sleep(0.01)
    return int(path.read_text())


@pytest.mark.parametrize("is_found", [False, True])
def test_what_a_process_has_started_ends_with_it(
    started: list[ChildProcess], tmp_path: Path, *, is_found: bool
) -> None:
    process = _start(started, tmp_path, f"({FOREVER}) & echo $! > child; wait")
    number = _read_child(tmp_path / "child")
    child = FoundProcess(ProcessIdentity(number, read_start_time(number)))
    assert child.is_alive
    found = FoundProcess(process.identity)
    process.terminate()
    assert process.wait(PATIENCE)
    assert child.is_alive
    (found if is_found else process).kill()
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


def test_a_process_is_found_by_a_variable_though_its_children_have_it_too(
    started: list[ChildProcess], tmp_path: Path
) -> None:
    process = _start(started, tmp_path, f"({FOREVER}) & echo $! > child; wait")
    _read_child(tmp_path / "child")
    assert find_process(f"PLACE={tmp_path}") == process.identity
    assert find_process(f"PLACE={tmp_path}/other") is None
