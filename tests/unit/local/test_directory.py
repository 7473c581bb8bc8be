"""The directory of a run, which one process at a time works in."""

from __future__ import annotations

import subprocess
import threading
from pathlib import Path

import pytest

from podtune.local.directory import ProcessIdentity, RunDirectory, RunDirectoryError, RunSettings, StoredPod
from podtune.runner.records import Pod, PodPhase
from tests.unit.local.experiments import PATIENCE


def test_a_directory_with_something_in_it_is_left_alone(tmp_path: Path) -> None:
    (tmp_path / "notes.txt").write_text("mine")
    with pytest.raises(RunDirectoryError, match=r"exists already; go on with it by --resume .*--directory"):
        RunDirectory(tmp_path).create(RunSettings("/work"))
    assert [path.name for path in tmp_path.iterdir()] == ["notes.txt"]


def test_a_new_run_takes_the_place_of_one_that_has_ended_if_asked_to(tmp_path: Path) -> None:
    former = RunDirectory(tmp_path / "run")
    former.create(RunSettings("/work"))
    former.write_experiment({"spec": 1})
    former.append_event({"reason": "Complete"})
    former.write_archive("{}")
    (former.volumes / "code").mkdir(parents=True)
    with pytest.raises(RunDirectoryError, match="another podtune run works in"):
        RunDirectory(tmp_path / "run").create(RunSettings("/new"), overwrite=True)
    former.close()

    directory = RunDirectory(tmp_path / "run")
    directory.create(RunSettings("/new"), overwrite=True)
    assert directory.read_settings() == RunSettings("/new")
    assert not (tmp_path / "run" / "experiment.json").exists()
    directory.close()


def test_overwriting_leaves_alone_what_is_no_runs(tmp_path: Path) -> None:
    directory = RunDirectory(tmp_path)
    directory.create(RunSettings("/work"), overwrite=True)
    directory.close()
    (tmp_path / "notes.txt").write_text("mine")
    with pytest.raises(RunDirectoryError, match=r"holds more than a run, such as notes\.txt; move that"):
        RunDirectory(tmp_path).create(RunSettings("/new"), overwrite=True)
    assert directory.read_settings() == RunSettings("/work")
    (tmp_path / "run.json").unlink()
    with pytest.raises(RunDirectoryError, match=r"holds no run, and is left alone"):
        RunDirectory(tmp_path).create(RunSettings("/new"), overwrite=True)
    assert (tmp_path / "notes.txt").read_text() == "mine"


def test_overwriting_leaves_alone_a_run_whose_programs_may_still_be_there(tmp_path: Path) -> None:
    directory = RunDirectory(tmp_path)
    directory.create(RunSettings("/work"))
    directory.write_pod(StoredPod({}, Pod("a-0-1", uid="u", trial="a-0", attempt=1, phase=PodPhase.RUNNING)))
    directory.close()
    with pytest.raises(RunDirectoryError, match=r"was killed, .* end them by --resume .* and Ctrl-C"):
        RunDirectory(tmp_path).create(RunSettings("/new"), overwrite=True)
    assert directory.read_settings() == RunSettings("/work")


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


@pytest.mark.parametrize("content", [None, "", "[]", "{}", '{"pid'])
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
