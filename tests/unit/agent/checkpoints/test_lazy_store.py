"""The bucket is looked at by a process of its own until there is something to store."""

import socket
import subprocess
import sys
from pathlib import Path

import pytest

from podtune.agent.checkpoints.lazy_store import LazyStore
from podtune.storage.address import S3Address
from podtune.storage.errors import InvalidCredentials, Unreachable


@pytest.fixture(autouse=True)
def credentials(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("AWS_ACCESS_KEY_ID", "a")
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", "b")
    monkeypatch.setenv("AWS_EC2_METADATA_DISABLED", "true")
    monkeypatch.setenv("AWS_SHARED_CREDENTIALS_FILE", str(tmp_path / "none"))


def test_what_is_wrong_with_the_bucket_is_told_as_if_it_had_been_looked_at_here(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.delenv("AWS_ACCESS_KEY_ID")
    monkeypatch.delenv("AWS_SECRET_ACCESS_KEY")
    with pytest.raises(InvalidCredentials, match="no credentials for bucket 'models'"):
        LazyStore(S3Address("models", endpoint="http://127.0.0.1:9")).check()


def test_a_process_that_can_not_be_started_says_nothing_against_the_bucket(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "executable", "/no/such/python")
    with pytest.raises(Unreachable, match="could not be checked"):
        LazyStore(S3Address("models")).check()


def test_an_agent_that_stores_nothing_does_not_hold_the_sdk() -> None:
    program = "import sys, podtune.agent.main; print('boto3' in sys.modules, 'botocore' in sys.modules)"
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert done.stdout.split() == ["False", "False"]


def test_once_it_is_in_use_it_is_asked_here() -> None:
    with socket.socket() as server:
        server.bind(("127.0.0.1", 0))
        store = LazyStore(S3Address("models", endpoint=f"http://127.0.0.1:{server.getsockname()[1]}"))
        assert not store.is_in_use
        store._connect()
        assert store.is_in_use
