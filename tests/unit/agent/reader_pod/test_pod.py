"""The pod through which a person reads a volume: its two commands."""

from __future__ import annotations

import io
import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from podtune.agent.event_log import EventLog
from podtune.agent.reader_pod import pod
from podtune.agent.reader_pod.pod import READERLESS_SECONDS, count_other_processes, run_reader_pod
from podtune.agent.settings import AgentSettingsError
from podtune.protocol import agent_environment as env
from podtune.storage.volume import reading_protocol as protocol
from podtune.storage.volume.reading_protocol import ReadRequest, read_pieces


def test_the_pod_ends_when_nobody_has_read_for_a_while() -> None:
    """Readers come and go; the last one leaves after 100 seconds."""
    now = 0.0

    def sleep(seconds: float) -> None:
        nonlocal now
        now += seconds

    log = EventLog(lambda: now, stream=io.StringIO())
    assert run_reader_pod(log, count_readers=lambda: 20 < now <= 100, clock=lambda: now, sleep=sleep) == 0
    assert now == 100 + READERLESS_SECONDS


def test_readers_are_the_other_processes(tmp_path: Path) -> None:
    for name in (str(os.getpid()), "17", "self", "sys"):
        (tmp_path / name).mkdir()
    assert count_other_processes(tmp_path) == 1


def test_what_is_asked_on_standard_input_is_answered_on_standard_output(tmp_path: Path) -> None:
    program = (
        "import sys; from podtune.agent.reader_pod import pod; from podtune.agent.event_log import EventLog\n"
        "from podtune.storage.volume.store import VolumeStore; from podtune.storage.address import VolumeAddress\n"
        f"pod.VolumeStore = lambda address: VolumeStore(VolumeAddress(address.claim, directory={str(tmp_path)!r}))\n"
        "import os; sys.exit(pod.run_volume_reading(os.environ, EventLog(lambda: 0.0)))"
    )
    (tmp_path / "a").write_bytes(b"\0binary\n")
    store = json.dumps({"kind": "volume", "claim": "checkpoints"})
    asked = ReadRequest(protocol.GET, "a").encode() + ReadRequest(protocol.LIST, "").encode()
    done = subprocess.run(
        [sys.executable, "-c", program],
        input=asked,
        capture_output=True,
        check=True,
        env={env.STORE: store, "PYTHONPATH": os.pathsep.join(sys.path)},
    )
    assert done.stdout.startswith(protocol.GREETING)
    with (tmp_path / "answer").open("w+b") as answer:
        answer.write(done.stdout.removeprefix(protocol.GREETING))
        answer.seek(0)
        assert list(read_pieces(answer)) == [b"\0binary\n"]
        assert list(read_pieces(answer)) == [b'["a"]']


@pytest.mark.parametrize(
    ("store", "problem"),
    [("", "is wrong"), ('{"bucket": "models"}', "is of bucket 'models' at AWS .* which is no volume")],
)
def test_settings_that_are_wrong_are_named(store: str, problem: str) -> None:
    with pytest.raises(AgentSettingsError, match=f"{env.STORE} {problem}"):
        pod.run_volume_reading({env.STORE: store}, EventLog(lambda: 0.0))
