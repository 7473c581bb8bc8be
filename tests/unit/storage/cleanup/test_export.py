"""Copies of checkpoints in a place of their own."""

import json
from pathlib import Path
from random import Random
from typing import Any

import pytest

from podtune.protocol.checkpoint import CheckpointRef
from podtune.storage.address import S3Address
from podtune.storage.backoff import ExponentialBackoff
from podtune.storage.checkpoint import file_upload
from podtune.storage.checkpoint.address import CheckpointAddress
from podtune.storage.checkpoint.download import CorruptCheckpoint
from podtune.storage.checkpoint.local_tree import open_tree
from podtune.storage.checkpoint.restore import Restorer
from podtune.storage.checkpoint.syncer import DEFAULTS, CheckpointInfo, Options, upload_checkpoint
from podtune.storage.cleanup.export import Exported, Exporter, NotOurs
from podtune.storage.directory import Directory
from podtune.storage.errors import RequestRejected
from tests.unit.storage.memory_store import MemoryStore

ROOT = "demo/uid/e-3"
PLACE = CheckpointAddress("s3://models", "demo/exports/e/best")
CARD: dict[str, Any] = {"version": 1, "experiment": {"namespace": "team", "name": "e", "uid": "uid"}, "trial": "e-3"}


@pytest.fixture
def store() -> MemoryStore:
    return MemoryStore()


@pytest.fixture
def files(tmp_path: Path) -> Path:
    directory = tmp_path / "shared" / "c1"
    (directory / "many").mkdir(parents=True)
    (directory / "weights").write_bytes(Random(1).randbytes(21 << 20))
    (directory / "empty").write_bytes(b"")
    for number in range(20):
        (directory / "many" / f"{number}").write_text(str(number))
    return directory


def upload(
    store: MemoryStore, directory: Path, step: int = 7, options: Options = DEFAULTS
) -> tuple[CheckpointAddress, str]:
    address = CheckpointAddress("s3://models", f"{ROOT}/pod-1/{step}")
    with open_tree(Directory(directory.parent), (directory.name,)) as tree:
        info = CheckpointInfo("pod-1", step, step, "0.5")
        return address, upload_checkpoint(store, tree, address, info, options=options)


def contents(directory: Path) -> dict[str, bytes]:
    return {str(path.relative_to(directory)): path.read_bytes() for path in directory.rglob("*") if path.is_file()}


def restored(store: MemoryStore, exported: Exported, tmp_path: Path) -> dict[str, bytes]:
    clock = iter(range(1000))
    restorer = Restorer(
        store, S3Address("models"), backoff=ExponentialBackoff(1.0, 4.0, Random(0)), patience=10.0,
        clock=lambda: float(next(clock)), sleep=lambda _: None,
    )  # fmt: skip
    outcome = restorer.restore([CheckpointRef(exported.uri, exported.digest, 7)], Directory(tmp_path), "restored")
    assert outcome.checkpoint is not None, outcome.message
    return contents(tmp_path / "restored")


@pytest.mark.parametrize("same_store", [True, False])
def test_an_export_is_whole_when_nothing_else_is_left(
    store: MemoryStore, files: Path, tmp_path: Path, same_store: bool
) -> None:
    address, digest = upload(store, files)
    target = store if same_store else MemoryStore()
    exported = Exporter(store, target, same_store=same_store).export(address, digest, PLACE, CARD)
    assert any(operation.startswith("copy") for operation in target.operations) is same_store
    for key in [key for key in store.objects if key.startswith(ROOT)]:
        del store.objects[key]
    assert exported.uri == "s3://models/demo/exports/e/best"
    assert restored(target, exported, tmp_path) == contents(files)


def test_a_split_file_is_whole_again_in_an_export(
    store: MemoryStore, files: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(file_upload, "WHOLE", 16 << 20)
    address, digest = upload(store, files, options=Options(packs=True))
    assert address.data("weights/00001") in store.objects
    exported = Exporter(store, store, same_store=True).export(address, digest, PLACE, CARD)
    assert store.objects[PLACE.data("weights")] == (files / "weights").read_bytes()
    assert restored(store, exported, tmp_path) == contents(files)


def test_the_manifest_comes_last_and_the_card_says_what_it_is(store: MemoryStore, files: Path) -> None:
    address, digest = upload(store, files)
    exported = Exporter(store, store, same_store=True).export(address, digest, PLACE, CARD)
    assert store.operations[-1] == f"put {PLACE.manifest}"
    card = json.loads(store.objects[f"{PLACE.root}/model-card.json"])
    assert card["checkpoint"]["uri"] == address.uri
    assert card["checkpoint"]["digest"] == digest
    assert (card["manifest"], card["files"], card["trial"]) == (exported.digest, 22, "e-3")
    assert card["bytes"] == sum(map(len, contents(files).values()))


def test_exporting_the_same_again_copies_nothing(store: MemoryStore, files: Path) -> None:
    address, digest = upload(store, files)
    exporter = Exporter(store, store, same_store=True)
    first = exporter.export(address, digest, PLACE, CARD)
    store.operations.clear()
    assert exporter.export(address, digest, PLACE, CARD) == first
    assert store.operations == []


def test_a_later_export_takes_the_place_of_the_earlier_one(store: MemoryStore, files: Path, tmp_path: Path) -> None:
    exporter = Exporter(store, store, same_store=True)
    exporter.export(*upload(store, files), PLACE, CARD)
    (files / "empty").unlink()
    address, digest = upload(store, files, step=8)
    later = exporter.export(address, digest, PLACE, {**CARD, "experiment": {**CARD["experiment"], "uid": "uid-2"}})
    assert restored(store, later, tmp_path) == contents(files)
    assert f"{PLACE.root}/data/empty" not in store.objects


def test_what_another_experiment_has_exported_is_left_alone(store: MemoryStore, files: Path) -> None:
    address, digest = upload(store, files)
    exporter = Exporter(store, store, same_store=True)
    exporter.export(address, digest, PLACE, {**CARD, "experiment": {"namespace": "other", "name": "e"}})
    with pytest.raises(NotOurs, match=r"of namespace 'other'; name another address in checkpoints\.export\.to"):
        exporter.export(address, digest, PLACE, CARD)


@pytest.mark.parametrize("same_store", [True, False])
@pytest.mark.parametrize("damage", ["flip", "cut", "lose"])
def test_a_damaged_checkpoint_is_never_exported(store: MemoryStore, files: Path, same_store: bool, damage: str) -> None:
    address, digest = upload(store, files)
    key = address.data("weights")
    data = store.objects.pop(key)
    if damage != "lose":
        store.objects[key] = data[:-1] if damage == "cut" else bytes([data[0] ^ 1]) + data[1:]
    target = store if same_store else MemoryStore()
    with pytest.raises((CorruptCheckpoint, Exception), match=r"damaged|missing|no object"):
        Exporter(store, target, same_store=same_store).export(address, digest, PLACE, CARD)
    assert PLACE.manifest not in target.objects


def test_another_manifest_than_was_committed_is_refused(store: MemoryStore, files: Path) -> None:
    address, _ = upload(store, files)
    with pytest.raises(CorruptCheckpoint, match="not the one that was committed"):
        Exporter(store, store, same_store=True).export(address, "sha256:" + "0" * 64, PLACE, CARD)


def test_a_store_that_can_not_copy_is_read_from_and_written_to(files: Path, tmp_path: Path) -> None:
    class Plain(MemoryStore):
        def copy(self, source: str, key: str) -> None:
            raise RequestRejected("not implemented")

    store = Plain()
    exported = Exporter(store, store, same_store=True).export(*upload(store, files), PLACE, CARD)
    assert restored(store, exported, tmp_path) == contents(files)
