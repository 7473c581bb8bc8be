"""A pod has two users: what the program hands over, the agent must be able to read, and to delete."""

import json
import multiprocessing
import os
import shutil
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

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

pytestmark = [
    pytest.mark.skipif(os.geteuid() != 0, reason="only root can become two users"),
    pytest.mark.filterwarnings("ignore:.*fork.*:DeprecationWarning"),  # threads of other tests may still linger
]


@pytest.fixture
def shared() -> Iterator[Path]:
    """As the kubelet makes an emptyDir: open to everyone."""
    directory = Path(tempfile.mkdtemp())
    directory.chmod(0o777)
    yield directory
    shutil.rmtree(directory)


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
    process.join(60)
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


def test_the_agent_starts_first(shared: Path) -> None:
    as_user(AGENT, start, shared)
    as_user(PROGRAM, program, shared)
    as_user(AGENT, finish, shared)
    assert list((shared / "checkpoints").iterdir()) == []


def test_the_program_is_quicker(shared: Path) -> None:
    as_user(AGENT, lambda: ControlFileWriter(Directory(shared)).write({"shouldStop": True}))
    as_user(PROGRAM, program, shared)
    as_user(AGENT, start, shared)
    as_user(AGENT, finish, shared)
    assert list((shared / "checkpoints").iterdir()) == []


def test_the_program_learns_what_was_restored(shared: Path) -> None:
    as_user(AGENT, RestoreInfo(Restored(CheckpointRef("s3://b/9", "sha256:9", 9)), 9).write, Directory(shared))
    as_user(PROGRAM, lambda: read_restore_info(Directory(shared)).restored.uri + "")
