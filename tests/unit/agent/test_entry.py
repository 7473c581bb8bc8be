"""Being asked to end, as process 1 of a container: the kernel keeps from it what it neither handles nor blocks."""

from __future__ import annotations

import json
import os
import signal
import socket
import subprocess
import sys
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path

import pytest

from podtune.protocol import agent_environment as env
from podtune.protocol.messages import parse_final_commit
from tests.unit.agent.stub_operator import StubOperator, dumps
from tests.unit.process_1 import AS_PROCESS_1, send_signal, start_as_process_1

PROGRAM = f"""{AS_PROCESS_1}
import sys
from podtune.agent.entry import start

moment = sys.argv.pop(1)

class AskedToEnd:
    def find_spec(self, name, path=None, target=None):
        if name == moment:
            os.kill(os.getpid(), signal.SIGTERM)

sys.meta_path.insert(0, AskedToEnd())
raise SystemExit(start())
"""
"""Is asked to end when the module of its first argument is imported."""
NEVER = "-"


def start_agent(environ: dict[str, str], asked_at: str, command: str) -> subprocess.Popen[bytes]:
    """Starts the agent."""
    environ = environ | {"PYTHONPATH": os.pathsep.join(sys.path)}
    return start_as_process_1([sys.executable, "-c", PROGRAM, asked_at, command], environ)


@pytest.fixture
def deaf_store() -> Iterator[socket.socket]:
    """A server that takes connections and never answers."""
    with socket.create_server(("127.0.0.1", 0)) as server:
        server.settimeout(60)
        yield server


@pytest.fixture
def bucket_work(environ: dict[str, str], deaf_store: socket.socket) -> dict[str, str]:
    """The environment of both commands that work in the bucket."""
    endpoint = f"http://127.0.0.1:{deaf_store.getsockname()[1]}"
    candidates = [{"uri": "s3://bucket/p/e/digits-7/pod/1", "digest": "sha256:0", "step": 1}]
    job = {"purpose": "Purge", "namespace": "ml", "experiment": "digits", "experiment_uid": "e", "chunks": 0}
    return environ | {
        env.STORE: json.dumps({"bucket": "bucket", "endpoint": endpoint}),
        env.RESTORE_FROM: json.dumps(candidates),
        env.STORAGE_JOB: json.dumps(job),
        "AWS_ACCESS_KEY_ID": "key",
        "AWS_SECRET_ACCESS_KEY": "secret",
    }


def test_who_is_asked_while_it_starts_still_delivers_what_there_is(
    operator: StubOperator, environ: dict[str, str]
) -> None:
    Path(environ["PODTUNE_DIR"], "results.jsonl").write_bytes(dumps(epoch=1, accuracy=0.5))
    process = start_agent(environ, "podtune.agent.main", "run")
    _, log = process.communicate(timeout=60)
    assert process.returncode == 0, log
    commit = parse_final_commit(Path(environ["PODTUNE_TERMINATION_LOG"]).read_text())
    assert (commit.seq, commit.acked_seq) == (1, 1)


@pytest.mark.parametrize("command", ["restore", "storage"])
@pytest.mark.parametrize("asked_at", ["podtune.agent.main", NEVER], ids=["at its start", "while it waits"])
def test_work_that_can_be_done_again_is_broken_off(
    bucket_work: dict[str, str], deaf_store: socket.socket, command: str, asked_at: str
) -> None:
    process = start_agent(bucket_work, asked_at, command)
    with ExitStack() as connections:
        if asked_at is NEVER:
            connections.enter_context(deaf_store.accept()[0])
            send_signal(process, signal.SIGTERM)
        _, log = process.communicate(timeout=60)
    assert process.returncode == 128 + signal.SIGTERM, log
