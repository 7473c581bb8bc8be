"""Faults of the file system that a volume store lies on: each is what the store meets, and tells apart."""

from __future__ import annotations

import asyncio
import json
import subprocess
import sys
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest

from e2e.chaos.faults.calls import Call, classify_volume
from e2e.chaos.faults.injector import Armed, Injector
from e2e.chaos.faults.volume_faults import VolumeFaults
from e2e.chaos.perturbation import Fault, Perturbation
from e2e.chaos.pods.volumes import MountedVolume

KEY = "chaos/uid/c1-0/pod-1/2/manifest.json"
PROGRAM = """
{first}
import json
from podtune.storage.address import VolumeAddress
from podtune.storage.errors import StoreError
from podtune.storage.volume.store import VolumeStore

store = VolumeStore(VolumeAddress("weights", directory={directory!r}))
said = []
for do in (
    lambda: store.put_bytes({key!r}, b"x" * 1000),
    lambda: store.put_bytes({key!r}, b"y" * 1000),
    lambda: store.get_bytes({key!r}, 2000).decode(),
    lambda: list(store.list("")),
    lambda: list(store.list_uploads("")) and "unfinished",
    lambda: store.delete([{key!r}]),
):
    try:
        said.append(do() or "done")
    except StoreError as error:
        said.append(error.reason)
print(json.dumps(said))
"""
UNDISTURBED = ["done", "done", "y" * 1000, [KEY], "done", "done"]


class Agent:
    """Runs a program with the layer on its volume."""

    def __init__(self, volume: MountedVolume, injector: Injector) -> None:
        self._volume = volume
        self._injector = injector

    async def run(self, fault: Fault, call: Call, occurrence: int = 1) -> list[Any]:
        armed = self._injector.arm(Perturbation("stored-on-volume", call, occurrence, fault), "c1", seed=1)
        program = PROGRAM.format(first=self._volume.first, directory=str(self._volume.directory), key=KEY)
        process = await asyncio.create_subprocess_exec(
            sys.executable, "-c", program, stdout=subprocess.PIPE, env={"PYTHONPATH": ":".join(sys.path)}
        )
        printed, _ = await process.communicate()
        assert (armed.struck is not None) == (fault is not Fault.NONE)
        said: list[Any] = json.loads(printed)
        return said


@pytest.fixture
async def agent(tmp_path: Path) -> AsyncIterator[Agent]:
    volume = MountedVolume("weights", tmp_path / "volume", tmp_path / "faults.sock")
    volume.directory.mkdir()
    injector = Injector()
    faults = VolumeFaults(
        injector,
        lambda: pytest.fail("nobody is to be killed"),
        volume.faults,
        classify=classify_volume,
        lose_cluster=lambda _: pytest.fail("no cluster is to be lost"),
    )
    await faults.start()
    yield Agent(volume, injector)
    await faults.stop()


async def test_without_a_fault_a_volume_is_a_volume(agent: Agent) -> None:
    assert await agent.run(Fault.NONE, Call.OTHER) == UNDISTURBED


OLD = ["x" * 1000, [KEY], "done", "done"]
"""What comes of what follows, where the second object was not stored."""


@pytest.mark.parametrize(
    ("fault", "call", "said"),
    [
        (Fault.DISK_FULL, Call.VOLUME_WRITE_MANIFEST, ["done", "OutOfSpace", *OLD]),
        (Fault.READ_ONLY, Call.VOLUME_CREATE, ["done", "AccessDenied", *OLD[:-1], "AccessDenied"]),
        (Fault.STALE_HANDLE, Call.VOLUME_RENAME_MANIFEST, ["done", *["Unreachable"] * 5]),
        (Fault.IO_ERROR, Call.VOLUME_SYNC, ["done", "Unreachable", *OLD]),
        (Fault.DONE_BUT_IO_ERROR, Call.VOLUME_RENAME_MANIFEST, ["done", "Unreachable", "y" * 1000, *OLD[1:]]),
    ],
)
async def test_a_fault_strikes_once_or_lasts_for_what_it_concerns(
    agent: Agent, fault: Fault, call: Call, said: list[Any]
) -> None:
    assert await agent.run(fault, call, occurrence=2) == said


async def test_what_is_read_is_cut_off_or_changed(agent: Agent) -> None:
    assert (await agent.run(Fault.TRUNCATED, Call.VOLUME_READ_MANIFEST))[2] == "done", "nothing came"
    flipped = (await agent.run(Fault.BIT_FLIPPED, Call.VOLUME_READ_MANIFEST))[2]
    assert sum(one != "y" for one in flipped) == 1


async def test_a_cluster_is_lost_before_the_call_is_made(tmp_path: Path) -> None:
    lost: list[str] = []

    async def lose_cluster(armed: Armed) -> None:
        lost.append(armed.subject)

    injector = Injector()
    faults = VolumeFaults(
        injector,
        lambda: pytest.fail("nobody is to be killed"),
        tmp_path / "faults.sock",
        classify=classify_volume,
        lose_cluster=lose_cluster,
    )
    injector.arm(Perturbation("recorded-on-volume", Call.VOLUME_WRITE_MANIFEST, 1, Fault.LOSE_CLUSTER), "c1", seed=1)
    await faults.start()
    try:
        reader, writer = await asyncio.open_unix_connection(tmp_path / "faults.sock")
        writer.write(json.dumps({"operation": "pwrite", "path": f"/{KEY}"}).encode() + b"\n")
        assert await reader.read() == b"", "the agent is not told to go on"
        writer.close()
    finally:
        await faults.stop()
    assert lost == ["c1"]


def test_calls_are_told_apart_by_what_the_file_is_going_to_be() -> None:
    place = "/chaos/uid/c1-0/pod-1/2"
    assert classify_volume("pwrite", f"{place}/.podtune-0123456789abcdef-manifest.json") == (
        Call.VOLUME_WRITE_MANIFEST,
        "c1",
    )
    assert classify_volume("pwrite", f"{place}/data/.podtune-0123456789abcdef-weights") == (Call.VOLUME_WRITE, "c1")
    assert classify_volume("create", f"{place}/.podtune-0123456789abcdef-Probe") == (Call.OTHER, "c1")
    assert classify_volume("fsync", f"{place}/a")[0] is Call.VOLUME_SYNC


def test_records_of_the_snapshot_are_told_from_other_files() -> None:
    folder = "/chaos/uid/_snapshot"
    unfinished = f"{folder}/trials/c1-0/.podtune-0123456789abcdef-00000000000000000007.json"
    assert classify_volume("pwrite", unfinished) == (Call.VOLUME_WRITE_RECORD, "c1")
    assert classify_volume("rename", f"{folder}/experiment/7.json") == (Call.VOLUME_RENAME_RECORD, "")
    assert classify_volume("scandir", f"{folder}/trials/c1-0/") == (Call.VOLUME_LIST_RECORDS, "c1")
    assert classify_volume("unlink", f"{folder}/trials/c1-0/7.json") == (Call.VOLUME_DELETE_RECORD, "c1")
    assert classify_volume("create", unfinished) == (Call.VOLUME_CREATE, "c1")
