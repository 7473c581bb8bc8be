"""A checkpoint's whole life in real stores."""

import os
import tracemalloc
from dataclasses import replace
from pathlib import Path
from random import Random

import pytest

from podtune.protocol.checkpoint import CheckpointRef
from podtune.storage.address import S3Address
from podtune.storage.backoff import ExponentialBackoff
from podtune.storage.checkpoint import file_upload
from podtune.storage.checkpoint.address import CheckpointAddress, TrialAddress
from podtune.storage.checkpoint.file_upload import CHUNK, WHOLE
from podtune.storage.checkpoint.local_tree import open_tree
from podtune.storage.checkpoint.restore import Restorer
from podtune.storage.checkpoint.syncer import CheckpointInfo, Options, upload_checkpoint
from podtune.storage.cleanup.export import Exporter
from podtune.storage.cleanup.garbage import GarbageCollector
from podtune.storage.cleanup.prune import prune_checkpoints, purge
from podtune.storage.content import PIECE
from podtune.storage.directory import Directory
from podtune.storage.object_store import ObjectStore
from podtune.storage.parallel import WORKERS
from podtune.storage.stores import make_store


@pytest.fixture
def s3_bucket(s3_server: tuple[str, Path], bucket: str) -> S3Address:
    return S3Address(bucket, "demo", s3_server[0])


@pytest.fixture(params=["s3_bucket", "google_bucket", "azure_container"])
def trial(request: pytest.FixtureRequest) -> TrialAddress:
    """Of an experiment in each kind of store."""
    return TrialAddress(request.getfixturevalue(request.param), "uid", "digits-7")


def restorer(store: ObjectStore, trial: TrialAddress) -> Restorer:
    return Restorer(
        store,
        trial.store,
        backoff=ExponentialBackoff(0.1, 0.1, Random(0)),
        patience=0,
        clock=lambda: 0.0,
        sleep=lambda _: None,
    )


def test_stored_restored_and_deleted(trial: TrialAddress, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("WHOLE", "CHUNK"):
        monkeypatch.setattr(file_upload, name, 5 << 20)
    source = tmp_path / "shared" / "c1"
    (source / "sub").mkdir(parents=True)
    for number in range(30):
        (source / "sub" / f"file {number}.bin").write_bytes(bytes([number]) * number)
    (source / "large").write_bytes(bytes(range(256)) * (20 << 12))  # 20 MiB: in several chunks
    store = make_store(trial.store)

    candidates: list[CheckpointRef] = []
    for step in (1, 2):
        address = trial.checkpoint("pod-1", str(step))
        with open_tree(Directory(tmp_path / "shared"), ("c1",)) as tree:
            digest = upload_checkpoint(store, tree, address, CheckpointInfo("pod-1", step, step, ""))
        candidates.insert(0, CheckpointRef(address.uri, digest, step))

    store.put_bytes(trial.checkpoint("pod-1", "2").data("large"), b"damaged")
    outcome = restorer(store, trial).restore(candidates, Directory(tmp_path), "restored")
    assert outcome.checkpoint.step == 1
    assert "large is damaged" in outcome.message
    for path in source.rglob("*"):
        if path.is_file():
            assert (tmp_path / "restored" / path.relative_to(source)).read_bytes() == path.read_bytes()

    deleted = GarbageCollector(store, trial, "pod-1").collect([candidates[0].uri], [])
    assert deleted == [candidates[1].uri]
    assert {key.split("/")[4] for key in store.list(trial.prefix)} == {"2"}


def test_what_no_record_tells_of_is_found_and_restored(trial: TrialAddress, tmp_path: Path) -> None:
    """As of a Trial that was deleted while no operator ran."""
    (tmp_path / "shared" / "c1").mkdir(parents=True)
    store, ours, others = make_store(trial.store), "a" * 64, "b" * 64
    of_namesake = replace(trial, experiment_uid="uid-of-an-earlier-one")
    info = [(trial, 4, ours), (trial, 12, ours), (trial, 16, others), (trial, 20, ""), (of_namesake, 24, ours)]
    for place, step, configuration in info:
        (tmp_path / "shared" / "c1" / "step").write_text(str(step))
        with open_tree(Directory(tmp_path / "shared"), ("c1",)) as tree:
            what = CheckpointInfo(f"pod-{step}", step, step, "0.5", 0.0, configuration)
            upload_checkpoint(store, tree, place.checkpoint(f"pod-{step}", str(step)), what)

    whole = restorer(store, trial)
    candidates = whole.find(trial, ours)
    assert [candidate.step for candidate in candidates] == [12, 4]
    outcome = whole.restore(candidates, Directory(tmp_path), "restored")
    assert (outcome.manifest.iteration, outcome.message) == (12, "")
    assert (tmp_path / "restored" / "step").read_text() == "12"


@pytest.mark.parametrize("packs", [False, True], ids=["plain", "packed"])
def test_exported_pruned_and_purged(
    trial: TrialAddress, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, packs: bool
) -> None:
    for name in ("WHOLE", "CHUNK"):
        monkeypatch.setattr(file_upload, name, 5 << 20)
    (tmp_path / "shared" / "c1").mkdir(parents=True)
    (tmp_path / "shared" / "c1" / "large").write_bytes(os.urandom(1 << 20) * 12)
    (tmp_path / "shared" / "c1" / "small").write_bytes(b"1")
    store, digest = make_store(trial.store), ""
    addresses = [trial.checkpoint("pod-1", str(step)) for step in (1, 2)]
    for step, address in enumerate(addresses, 1):
        with open_tree(Directory(tmp_path / "shared"), ("c1",)) as tree:
            info = CheckpointInfo("pod-1", step, step, "")
            digest = upload_checkpoint(store, tree, address, info, options=Options(packs=packs, reuses=False))

    target = CheckpointAddress(trial.store.uri, "demo/exports/digits/best")
    exported = Exporter(store, store, same_store=True).export(addresses[1], digest, target, {"experiment": {}})
    found = prune_checkpoints(store, "demo/uid/", {"digits-7": frozenset([addresses[1].root])})
    assert (found.checkpoints, {key.split("/")[4] for key in store.list(trial.prefix)}) == (1, {"2"})
    assert purge(store, "demo/uid/") > 1
    assert list(store.list("demo/uid/")) == []

    whole = CheckpointRef(exported.uri, exported.digest, -1)
    assert restorer(store, trial).restore([whole], Directory(tmp_path), "restored").checkpoint == whole
    for name in ("large", "small"):
        assert (tmp_path / "restored" / name).read_bytes() == (tmp_path / "shared" / "c1" / name).read_bytes()


def test_of_large_files_a_few_pieces_are_in_memory_at_a_time(s3_bucket: S3Address, tmp_path: Path) -> None:
    trial = TrialAddress(s3_bucket, "uid", "digits-7")
    (tmp_path / "c1").mkdir()
    (tmp_path / "c1" / "in chunks").write_bytes(os.urandom(CHUNK) * (WHOLE // CHUNK + 1))
    (tmp_path / "c1" / "whole").write_bytes(os.urandom(CHUNK))
    store, address = make_store(trial.store), trial.checkpoint("pod-1", "1")
    store.check()  # which imports the SDK
    tracemalloc.start()
    try:
        with open_tree(Directory(tmp_path), ("c1",)) as tree:
            digest = upload_checkpoint(store, tree, address, CheckpointInfo("pod-1", 1, 1, ""))
        restorer(store, trial).restore([CheckpointRef(address.uri, digest, 1)], Directory(tmp_path), "restored")
        _, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert peak < 3 * PIECE * WORKERS < CHUNK
