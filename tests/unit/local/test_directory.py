"""The directory of a run, which one process at a time works in."""

from __future__ import annotations

import subprocess
import threading
from pathlib import Path

import pytest

from podtune.local.directory import ProcessIdentity, RunDirectory, RunDirectoryError, RunSettings
from tests.unit.local.experiments import PATIENCE


def test_a_directory_with_something_in_it_is_left_alone(tmp_path: Path) -> None:
    (tmp_path / "notes.txt").write_text("mine")
    with pytest.raises(RunDirectoryError, match=r"exists already; go on with it by --resume .*--directory"):
        RunDirectory(tmp_path).create(RunSettings("/work"))
    assert [path.name for path in tmp_path.iterdir()] == ["notes.txt"]


def test_two_processes_never_work_in_one_directory(tmp_path: Path) -> None:
    first, second = RunDirectory(tmp_path), RunDirectory(tmp_path)
    first.create(RunSettings("/work", 2))
    with pytest.raises(RunDirectoryError, match="another podtune run works in"):
        second.lock()
    first.close()
    second.lock()
    assert second.read_settings() == RunSettings("/work", 2)
    second.close()


def test_what_a_killed_process_has_left_in_the_midst_of_a_start_is_waited_for(tmp_path: Path) -> None:
    first, second = RunDirectory(tmp_path), RunDirectory(tmp_path)
    first.create(RunSettings("/work"))
    lock = first._lock
    assert lock is not None
    with subprocess.Popen(["cat"], stdin=subprocess.PIPE, pass_fds=[lock]) as left:
        first.close()
        with pytest.raises(RunDirectoryError, match="another podtune run works in"):
            second.lock()
        waiting = threading.Thread(target=second.lock, args=[PATIENCE])
        waiting.start()
        assert left.stdin is not None
        left.stdin.close()
        waiting.join(PATIENCE)
    assert not waiting.is_alive()
    assert second._lock is not None
    second.close()


@pytest.mark.parametrize("content", [None, "", "[]", '{"pid'])
def test_what_is_no_runs_directory_is_told(tmp_path: Path, content: str | None) -> None:
    if content is not None:
        (tmp_path / "run.json").write_text(content)
    with pytest.raises(RunDirectoryError, match=r"run\.json: .*name the directory of a run"):
        RunDirectory(tmp_path).read_settings()


def test_a_write_that_was_cut_off_leaves_what_was_there(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    directory = RunDirectory(tmp_path)
    directory.create(RunSettings("/work"))
    directory.write_experiment({"spec": 1})

    def fail(*_: object) -> None:
        raise OSError("killed")

    with monkeypatch.context() as patched:
        patched.setattr(Path, "replace", fail)
        with pytest.raises(OSError, match="killed"):
            directory.write_experiment({"spec": 2})
    assert directory.read_experiment() == {"spec": 1}
    assert directory.read_trials() == []


def test_an_attempt_without_a_process_was_never_started(tmp_path: Path) -> None:
    directory = RunDirectory(tmp_path)
    directory.create(RunSettings("/work"))
    directory.find_attempt("a-0-1").mkdir()
    assert directory.read_process("a-0-1") is None
    directory.write_process("a-0-1", ProcessIdentity(7, "now"))
    assert directory.read_process("a-0-1") == ProcessIdentity(7, "now")
