"""Checkpoints in a store that takes no parts: a large file goes as one stream, and is the same object in the end."""

from __future__ import annotations

import json
import time
from pathlib import Path
from random import Random

import pytest

from podtune.protocol.checkpoint import CheckpointRef
from podtune.storage import plugins
from podtune.storage.address import PluginAddress
from podtune.storage.backoff import ExponentialBackoff
from podtune.storage.checkpoint import file_upload
from podtune.storage.checkpoint.address import TrialAddress
from podtune.storage.checkpoint.local_tree import LocalFile, UnusableTree, open_tree
from podtune.storage.checkpoint.manifest import ManifestFile
from podtune.storage.checkpoint.restore import Restorer
from podtune.storage.checkpoint.syncer import CheckpointInfo, upload_checkpoint
from podtune.storage.cleanup.prune import abort_uploads
from podtune.storage.directory import Directory
from podtune.storage.errors import Unreachable
from podtune.storage.object_store import MultipartStore, ObjectStore, Reader
from podtune.storage.stores import make_store
from tests.unit.storage.memory_store import MemoryStore

TRIAL = TrialAddress(PluginAddress("shelf"), "uid", "digits-7")
WEIGHTS = "uid/digits-7/pod-1/9/data/weights"


@pytest.fixture
def kept() -> MemoryStore:
    return MemoryStore()


@pytest.fixture
def store(kept: MemoryStore, monkeypatch: pytest.MonkeyPatch) -> ObjectStore:
    monkeypatch.setattr(plugins, "load_store", lambda address: kept)
    store = make_store(TRIAL.store)
    assert not isinstance(store, MultipartStore)
    return store


@pytest.fixture
def source(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setattr(file_upload, "WHOLE", 100)
    monkeypatch.setattr(file_upload, "CHUNK", 100)
    directory = tmp_path / "shared" / "c1"
    directory.mkdir(parents=True)
    (directory / "weights").write_bytes(bytes(range(250)) * 4 + b"end")
    (directory / "small").write_bytes(b"1")
    return directory


def upload(store: ObjectStore, source: Path, done: dict[LocalFile, ManifestFile] | None = None) -> CheckpointRef:
    address = TRIAL.checkpoint("pod-1", "9")
    with open_tree(Directory(source.parent), (source.name,)) as tree:
        digest = upload_checkpoint(store, tree, address, CheckpointInfo("pod-1", 9, 9, "0.5"), done=done)
    return CheckpointRef(address.uri, digest, 9)


def test_a_large_file_becomes_one_object_with_the_manifest_that_any_store_has(
    store: ObjectStore, kept: MemoryStore, source: Path, tmp_path: Path
) -> None:
    candidate = upload(store, source)
    assert kept.objects[WEIGHTS] == (source / "weights").read_bytes()
    assert kept.uploads == {}
    with_parts = MemoryStore()
    assert upload(with_parts, source).digest != "", "it stores the same files"
    manifests = [json.loads(found.objects["uid/digits-7/pod-1/9/manifest.json"]) for found in (kept, with_parts)]
    assert manifests[0]["files"] == manifests[1]["files"]
    restorer = Restorer(
        store, TRIAL.store, backoff=ExponentialBackoff(1.0, 4.0, Random(0)), patience=1.0, clock=time.monotonic,
        sleep=time.sleep,
    )  # fmt: skip
    assert restorer.restore([candidate], Directory(tmp_path), "restored").checkpoint == candidate
    assert (tmp_path / "restored" / "weights").read_bytes() == (source / "weights").read_bytes()


def test_a_file_that_changes_while_it_is_sent_is_no_checkpoint(
    store: ObjectStore, kept: MemoryStore, source: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    real = MemoryStore.put

    def meddle(self: MemoryStore, key: str, content: Reader, size: int) -> None:
        (source / "weights").write_bytes(b"short")
        real(self, key, content, size)

    monkeypatch.setattr(MemoryStore, "put", meddle)
    with pytest.raises(UnusableTree, match="weights changed while it was being stored"):
        upload(store, source)
    assert WEIGHTS not in kept.objects


def test_what_was_stored_before_a_failure_is_not_sent_again(
    store: ObjectStore, kept: MemoryStore, source: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    done: dict[LocalFile, ManifestFile] = {}
    real = MemoryStore.put_bytes

    def fail(self: MemoryStore, key: str, data: bytes) -> None:
        if key.endswith("manifest.json"):
            raise Unreachable("gone")
        real(self, key, data)

    monkeypatch.setattr(MemoryStore, "put_bytes", fail)
    with pytest.raises(Unreachable):
        upload(store, source, done)
    monkeypatch.setattr(MemoryStore, "put_bytes", real)
    kept.operations.clear()
    upload(store, source, done)
    assert kept.operations == ["put uid/digits-7/pod-1/9/manifest.json"]


def test_there_is_nothing_unfinished_to_be_found(store: ObjectStore) -> None:
    assert abort_uploads(store, "uid/") is None
