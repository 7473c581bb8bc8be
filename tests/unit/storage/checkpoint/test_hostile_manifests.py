"""Manifests that somebody has put into the bucket to keep a trial from going on, or to fill its node's disk."""

import json
import os
from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from podtune.protocol.checkpoint import CheckpointRef
from podtune.storage.address import S3Address
from podtune.storage.checkpoint.address import TrialAddress
from podtune.storage.checkpoint.download import CheckpointTooLarge
from podtune.storage.checkpoint.local_tree import open_tree
from podtune.storage.checkpoint.manifest import MAX_FILES, ManifestFile, digest_of
from podtune.storage.checkpoint.restore import RestoreOutcome
from podtune.storage.checkpoint.syncer import CheckpointInfo, upload_checkpoint
from podtune.storage.content import BytesContent
from podtune.storage.directory import Directory
from tests.unit.storage.checkpoint.test_syncer import restorer
from tests.unit.storage.memory_store import MemoryStore

TRIAL = TrialAddress(S3Address("models", "demo"), "uid", "digits-7")
CONFIGURATION = "a" * 64
PACK = "pod-1/9/packs/0-0"


class Bucket(MemoryStore):
    """With a good checkpoint at iteration 8; remembers what is fetched."""

    def __init__(self, source: Path) -> None:
        super().__init__()
        self.fetched: list[str] = []
        source.mkdir()
        (source / "weights").write_bytes(b"good")
        info = CheckpointInfo("pod-1", 8, 8, "0.5", configuration=CONFIGURATION)
        address = TRIAL.checkpoint("pod-1", "8")
        with open_tree(Directory(source.parent), (source.name,)) as tree:
            self.good = CheckpointRef(address.uri, upload_checkpoint(self, tree, address, info), 8)

    def get(self, key: str, start: int = 0, size: int | None = None) -> Iterator[bytes]:
        self.fetched.append(key)
        return super().get(key, start, size)

    def plant(self, *files: dict[str, Any]) -> CheckpointRef:
        """Stores a manifest of iteration 9 as an attacker writes it."""
        address = TRIAL.checkpoint("pod-1", "9")
        body = {
            "version": 3,
            "attempt": "pod-1",
            "step": 9,
            "iteration": 9,
            "metric": "0.9",
            "created": "2026-01-01T00:00:00+00:00",
            "files": list(files),
            "configuration": CONFIGURATION,
        }
        data = json.dumps(body).encode()
        self.put_bytes(address.manifest, data)
        return CheckpointRef(address.uri, digest_of(data), 9)


@pytest.fixture
def bucket(tmp_path: Path) -> Bucket:
    return Bucket(tmp_path / "good")


@pytest.fixture
def shared(tmp_path: Path) -> Path:
    directory = tmp_path / "shared"
    directory.mkdir()
    return directory


def restore(bucket: Bucket, shared: Path, *candidates: CheckpointRef) -> RestoreOutcome:
    return restorer(bucket).restore(candidates, Directory(shared), "restored")


def measure_disk(directory: Path) -> int:
    """Bytes that its files take up on the disk, holes aside."""
    return sum(path.lstat().st_blocks * 512 for path in directory.rglob("*"))


def claim(size: int, **fields: Any) -> dict[str, Any]:
    return ManifestFile("weights", size, "0" * 64).to_json() | fields


@pytest.mark.parametrize("size", [1 << 40, (1 << 60) - 1, 1 << 60, 1 << 70])
@pytest.mark.parametrize("fields", [{}, {"object": PACK, "offset": 0}], ids=["an object of its own", "in a pack"])
def test_one_that_claims_any_size_falls_back_to_the_one_before(
    bucket: Bucket, shared: Path, size: int, fields: dict[str, Any]
) -> None:
    bucket.put_bytes("demo/uid/digits-7/pod-1/9/data/weights", b"little")
    bucket.put_bytes(f"demo/uid/digits-7/{PACK}", b"little")
    planted = bucket.plant(claim(size, **fields))
    outcome = restore(bucket, shared, planted, bucket.good)
    assert outcome.checkpoint == bucket.good
    assert outcome.message.startswith("step 9 was not restored: ")
    assert (shared / "restored" / "weights").read_bytes() == b"good"
    assert measure_disk(shared) < 1 << 20


def test_one_that_was_planted_where_no_record_is_left_falls_back_too(bucket: Bucket, shared: Path) -> None:
    """It is found before the good one, by an attempt that looks for checkpoints by itself."""
    planted = bucket.plant(claim((1 << 60) - 1))
    found = restorer(bucket).find(TRIAL, CONFIGURATION)
    assert found == (planted, bucket.good)
    assert restore(bucket, shared, *found).checkpoint == bucket.good


def plant_bomb(bucket: Bucket, entries: int, size: int) -> CheckpointRef:
    """Many files with the content of one object, each right by itself."""
    content = b"x" * size
    bucket.put_bytes(f"demo/uid/digits-7/{PACK}", content)
    entry = {"size": size, "sha256": BytesContent(content).sha256, "object": PACK, "offset": 0}
    return bucket.plant(*({"path": str(number), **entry} for number in range(entries)))


def test_as_many_entries_as_there_may_be_of_one_object_do_not_fill_the_disk(bucket: Bucket, shared: Path) -> None:
    """4 MiB in the bucket would be 400 GB on the node."""
    system = os.statvfs(shared)
    room = system.f_bavail * system.f_frsize
    size = max(4 << 20, room // MAX_FILES + 1)
    if size > 64 << 20:
        pytest.skip(f"the disk has room for {room} bytes, which such a bomb does not fill")
    planted = plant_bomb(bucket, MAX_FILES, size)
    outcome = restore(bucket, shared, planted, bucket.good)
    assert outcome.checkpoint == bucket.good
    assert f"it has {MAX_FILES * size:,} bytes, and there is room for " in outcome.message
    assert bucket.fetched == ["demo/uid/digits-7/pod-1/8/data/weights"]
    assert measure_disk(shared) < 1 << 20


@pytest.fixture
def small_disk(monkeypatch: pytest.MonkeyPatch) -> None:
    """There is room for a megabyte."""
    monkeypatch.setattr(os, "fstatvfs", lambda _: SimpleNamespace(f_bavail=256, f_frsize=4096, f_blocks=1000))


@pytest.mark.usefixtures("small_disk")
def test_what_does_not_fit_is_an_error_where_there_is_no_other(bucket: Bucket, shared: Path) -> None:
    """It may be whole, and another node may have room for it: to start afresh would throw it away."""
    planted = plant_bomb(bucket, 17, 1 << 16)
    with pytest.raises(CheckpointTooLarge, match="it has 1,114,112 bytes, and there is room for 1,048,576; free disk"):
        restore(bucket, shared, planted)
    assert bucket.fetched == []
    assert list(shared.iterdir()) == []


@pytest.mark.usefixtures("small_disk")
def test_what_fits_is_restored_however_often_an_object_is_named(bucket: Bucket, shared: Path) -> None:
    planted = plant_bomb(bucket, 16, 1 << 16)
    outcome = restore(bucket, shared, planted, bucket.good)
    assert (outcome.checkpoint, outcome.message) == (planted, "")
    assert {path.stat().st_size for path in (shared / "restored").iterdir()} == {1 << 16}


def test_a_file_system_that_does_not_tell_its_size_is_tried(
    bucket: Bucket, shared: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(os, "fstatvfs", lambda _: SimpleNamespace(f_bavail=0, f_frsize=4096, f_blocks=0))
    assert restore(bucket, shared, bucket.good).checkpoint == bucket.good
