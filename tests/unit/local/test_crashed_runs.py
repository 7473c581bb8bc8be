"""What `podtune run` may leave when it is killed at a bad moment, and that a resumed run copes with it."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from podtune.api.names import TrialState
from podtune.local.directory import ProcessIdentity, RunDirectory
from podtune.local.local_run import LocalRun
from podtune.local.processes import FoundProcess, find_process
from podtune.local.starting import resume_run
from tests.unit.local.experiments import COUNT, FOREVER, PATIENCE, REPORT, STORE, follow, make_manifest, make_run


def _finish(path: Path) -> None:
    run = resume_run(path, environ=os.environ)
    follow(run)
    (trial,) = run.progress.trials.values()
    assert (trial.state, trial.status.failures, trial.status.disruptions) == (TrialState.TERMINATED, 0, 0)


@pytest.fixture
def left_program(tmp_path: Path) -> Iterator[FoundProcess]:
    """The program of a trial that waits after its second step, and whose `podtune run` was killed."""
    waiting = f'if [ $i = 2 ] && [ "$PODTUNE_ATTEMPT" = 1 ]; then echo waits > waits; {FOREVER}; fi'
    (tmp_path / "tiny.yaml").write_text(json.dumps(make_manifest(COUNT % waiting, trials=1, checkpoints=STORE)))
    words = [sys.executable, "-m", "podtune.cli.main", "run", "tiny.yaml", "--directory", "run"]
    shared = RunDirectory(tmp_path / "run").find_shared("tiny-0-1")
    process = subprocess.Popen(words, cwd=tmp_path, stdout=subprocess.DEVNULL)
    try:
        deadline = time.monotonic() + PATIENCE
        while not (tmp_path / "waits").exists():
            assert time.monotonic() < deadline
            time.sleep(0.01)
        process.kill()
        process.wait()
        identity = find_process(f"PODTUNE_DIR={shared}")
        assert identity is not None
        yield FoundProcess(identity)
    finally:
        with process:
            process.kill()
        if (left := find_process(f"PODTUNE_DIR={shared}")) is not None:
            FoundProcess(left).kill()


def test_a_program_is_found_whose_number_was_not_written_down(tmp_path: Path, left_program: FoundProcess) -> None:
    assert left_program.is_alive
    RunDirectory(tmp_path / "run").write_process("tiny-0-1", ProcessIdentity(0, ""))
    _finish(tmp_path / "run")
    assert not left_program.is_alive
    assert (tmp_path / "tiny-0.txt").read_text().splitlines() == ["from 0", "from 2"]


def test_a_pod_is_gone_whose_program_was_not_started_before_it_was_to_be_deleted(tmp_path: Path) -> None:
    run = make_run(make_manifest(f'[ "$PODTUNE_ATTEMPT" = 2 ] || {FOREVER}; {REPORT}', trials=1), tmp_path)
    directory = RunDirectory(tmp_path / "run")

    def is_being_deleted(run: LocalRun) -> bool:
        if directory.read_process("tiny-0-1") is not None:
            run.interrupt()
        return any(pod.record.deleting for pod in directory.read_pods())

    follow(run, is_being_deleted)
    directory.find_attempt("tiny-0-1").joinpath("process.json").unlink()
    _finish(tmp_path / "run")
