"""What a program and its agent do, each as a user of its own: run by the tests as a program without threads.

A process that forks beside threads may stand still: so the tests, which have some, fork nothing themselves.
"""

from __future__ import annotations

import json
import multiprocessing
import os
import shutil
import sys
import tempfile
from collections.abc import Callable
from pathlib import Path

from podtune.agent.delivery.sender import ControlFileWriter
from podtune.agent.results.result_reader import prepare_directory
from podtune.agent.results.results_file import ResultsFile
from podtune.agent.state.restore_info import RestoreInfo, read_restore_info
from podtune.protocol.checkpoint import CheckpointRef
from podtune.protocol.messages import Restored
from podtune.storage.address import S3Address
from podtune.storage.checkpoint.address import TrialAddress
from podtune.storage.checkpoint.local_tree import delete_tree, open_tree
from podtune.storage.checkpoint.syncer import CheckpointInfo, upload_checkpoint
from podtune.storage.directory import Directory
from podtune.trial.sessions import PodSession
from tests.unit.storage.memory_store import MemoryStore

PROGRAM, AGENT = 10001, 60532


def as_user(user: int, action: Callable[..., object], *arguments: object) -> None:
    """Runs something in a process of another user, with the strictest umask."""

    def run() -> None:
        os.setgroups([])
        os.setresgid(user, user, user)
        os.setresuid(user, user, user)
        os.umask(0o077)
        action(*arguments)

    process = multiprocessing.get_context("fork").Process(target=run)
    process.start()
    process.join()
    assert process.exitcode == 0


def program(shared: Path) -> None:
    source = shared / "mine"
    (source / "sub").mkdir(parents=True)
    (source / "sub" / "weights").write_text("w")
    session = PodSession(shared, {})
    assert session.should_stop()
    session.report({"epoch": 1}, source, done=False)


def start(shared: Path) -> None:
    prepare_directory(Directory(shared))
    ControlFileWriter(Directory(shared)).write({"shouldStop": True})


def finish(shared: Path) -> None:
    (line,) = ResultsFile(Directory(shared)).read_lines()
    parts = ("checkpoints", json.loads(line)["_checkpoint"])
    trial = TrialAddress(S3Address("b"), "uid", "t")
    with open_tree(Directory(shared), parts) as tree:
        upload_checkpoint(MemoryStore(), tree, trial.checkpoint("pod", "1"), CheckpointInfo("pod", 1, 1, ""))
    delete_tree(Directory(shared), parts)


def agent_first(shared: Path) -> None:
    as_user(AGENT, start, shared)
    as_user(PROGRAM, program, shared)
    as_user(AGENT, finish, shared)
    assert list((shared / "checkpoints").iterdir()) == []


def program_first(shared: Path) -> None:
    as_user(AGENT, lambda: ControlFileWriter(Directory(shared)).write({"shouldStop": True}))
    as_user(PROGRAM, program, shared)
    as_user(AGENT, start, shared)
    as_user(AGENT, finish, shared)
    assert list((shared / "checkpoints").iterdir()) == []


def restored(shared: Path) -> None:
    as_user(AGENT, RestoreInfo(Restored(CheckpointRef("s3://b/9", "sha256:9", 9)), 9).write, Directory(shared))
    as_user(PROGRAM, lambda: read_restore_info(Directory(shared)).restored.uri + "")


def main(scenario: str) -> None:
    """Plays a scenario in a directory as the kubelet makes an emptyDir: open to everyone."""
    directory = Path(tempfile.mkdtemp())
    try:
        directory.chmod(0o777)
        {"agent first": agent_first, "program first": program_first, "restored": restored}[scenario](directory)
    finally:
        shutil.rmtree(directory)


if __name__ == "__main__":
    main(sys.argv[1])
