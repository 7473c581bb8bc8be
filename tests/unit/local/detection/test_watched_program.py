from __future__ import annotations

import os
import signal
import sys
from collections.abc import Mapping
from pathlib import Path

import pytest

from podtune.local.detection import watched_program
from podtune.local.detection.watched_program import WatchedProgram, list_marked_processes
from tests.unit.agent.stub_operator import wait_until

ENVIRONMENT: Mapping[str, str] = {"PATH": os.environ["PATH"]}
linux = pytest.mark.skipif(not Path("/proc/self").exists(), reason="only here systems tell of processes' variables")


def start(tmp_path: Path, *command: str, echoed: bytearray | None = None) -> WatchedProgram:
    passed = bytearray() if echoed is None else echoed
    return WatchedProgram(command, ENVIRONMENT, tmp_path, passed.extend)


def shell(tmp_path: Path, text: str) -> WatchedProgram:
    return start(tmp_path, "sh", "-c", text)


def test_what_it_prints_is_kept_and_passed_on(tmp_path: Path) -> None:
    echoed = bytearray()
    program = start(tmp_path, "sh", "-c", "echo a; echo b >&2; printf c", echoed=echoed)
    assert program.wait(60)
    program.end()
    assert program.lines == ["a", "b", "c"]
    assert echoed == b"a\nb\nc"
    assert program.exit_code == 0


def test_python_is_not_kept_waiting_by_its_own_buffer(tmp_path: Path) -> None:
    program = start(tmp_path, sys.executable, "-c", "import time; print('here'); time.sleep(600)")
    try:
        wait_until(lambda: program.lines == ["here"])
    finally:
        program.end()
    assert program.exit_code is not None


def test_it_is_ended_as_by_ctrl_c_so_that_it_can_finish_its_files(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(watched_program, "_GRACE", ((signal.SIGINT, 60.0),))
    # Where the tests themselves run in the background of a shell, programs ignore Ctrl-C unless they say otherwise.
    heeding = "import signal, time\nsignal.signal(signal.SIGINT, signal.default_int_handler)\n"
    body = "try:\n print('go', flush=True)\n time.sleep(600)\nexcept KeyboardInterrupt: print('finished')"
    program = start(tmp_path, sys.executable, "-c", heeding + body)
    wait_until(lambda: program.lines == ["go"])
    program.end()
    assert program.lines == ["go", "finished"]


@linux
def test_it_leaves_nothing_behind_neither_what_ignores_signals_nor_what_has_gone_away(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(watched_program, "_GRACE", ((signal.SIGTERM, 0.1),))
    program = shell(tmp_path, "trap '' INT TERM; setsid sleep 600 & sleep 601 & echo ready; wait; sleep 602")
    wait_until(lambda: program.lines == ["ready"])
    wait_until(lambda: len(list(list_marked_processes(tmp_path))) >= 3)
    program.end()
    wait_until(lambda: not list(list_marked_processes(tmp_path)))
    assert program.exit_code == 128 + 9


@linux
def test_what_it_has_left_running_ends_with_it(tmp_path: Path) -> None:
    program = shell(tmp_path, "sleep 600 & echo done")
    assert program.wait(60)
    program.end()
    wait_until(lambda: not list(list_marked_processes(tmp_path)))


def test_a_program_that_is_not_there_can_not_be_started(tmp_path: Path) -> None:
    with pytest.raises(FileNotFoundError, match="no-such-program"):
        start(tmp_path, "no-such-program")


def test_of_many_lines_the_first_are_kept(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(watched_program, "_MOST_LINES", 3)
    program = shell(tmp_path, "for i in 1 2 3 4 5; do echo $i; done")
    assert program.wait(60)
    program.end()
    assert program.lines == ["1", "2", "3"]
    assert program.is_full
