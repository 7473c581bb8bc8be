"""A checkpoint's whole life on a real S3 server."""

from random import Random

import pytest

from podtune.storage.address import StoreAddress, TrialAddress
from podtune.storage.backoff import Backoff
from podtune.storage.garbage import GarbageCollector
from podtune.storage.local_tree import open_tree
from podtune.storage.restore import Candidate, Restorer
from podtune.storage.s3_store import S3Store
from podtune.storage.syncer import Taken, upload_checkpoint


@pytest.fixture
def trial(s3_server, bucket):
    return TrialAddress(StoreAddress(bucket, "demo", s3_server[0]), "uid", "digits-7")


def test_stored_restored_and_deleted(trial, bucket, tmp_path):
    source = tmp_path / "shared" / "c1"
    (source / "sub").mkdir(parents=True)
    for number in range(30):
        (source / "sub" / f"file {number}.bin").write_bytes(bytes([number]) * number)
    (source / "large").write_bytes(bytes(range(256)) * (20 << 12))  # 20 MiB: in several parts
    store = S3Store(trial.store)

    candidates = []
    for step in (1, 2):
        address = trial.checkpoint("pod-1", str(step))
        with open_tree(tmp_path / "shared", ("c1",)) as tree:
            digest = upload_checkpoint(store, tree, address, Taken("pod-1", step, step, ""))
        candidates.insert(0, Candidate(address.uri, digest, step))

    store.put_bytes(trial.checkpoint("pod-1", "2").data("large"), b"damaged")
    restorer = Restorer(
        store, bucket, backoff=Backoff(0.1, 0.1, Random(0)), patience=0, clock=lambda: 0.0, sleep=lambda _: None
    )
    outcome = restorer.restore(candidates, tmp_path / "restored")
    assert outcome.candidate.step == 1
    assert "large is damaged" in outcome.message
    for path in source.rglob("*"):
        if path.is_file():
            assert (tmp_path / "restored" / path.relative_to(source)).read_bytes() == path.read_bytes()

    deleted = GarbageCollector(store, trial, "pod-1").collect([candidates[0].uri], [])
    assert deleted == [candidates[1].uri]
    assert {key.split("/")[4] for key in store.list(trial.prefix)} == {"2"}
