"""A checkpoint of several ranks counts once all of them have stored their shards, and holds the files of all."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from random import Random
from typing import Any

import pytest

from podtune.protocol.checkpoint import CheckpointRef
from podtune.storage.address import S3Address
from podtune.storage.backoff import ExponentialBackoff
from podtune.storage.checkpoint.address import CheckpointAddress, TrialAddress
from podtune.storage.checkpoint.local_tree import open_tree
from podtune.storage.checkpoint.manifest import digest_of, parse_manifest
from podtune.storage.checkpoint.restore import Restorer
from podtune.storage.checkpoint.shards import Commit, GatherShards, ShardsConflict, ShardsMissing, StoreShard
from podtune.storage.checkpoint.syncer import CheckpointInfo, upload_checkpoint
from podtune.storage.directory import Directory
from podtune.storage.errors import Unreachable
from tests.unit.storage.memory_store import MemoryStore

TRIAL = TrialAddress(S3Address("bucket"), "uid", "t")


class Clock:
    """Time that passes only by waiting; something may happen meanwhile."""

    def __init__(self) -> None:
        self.now = 0.0
        self.meanwhile: Callable[[], object] = lambda: None

    def sleep(self, seconds: float) -> None:
        self.now += seconds
        self.meanwhile()


class Gang:
    """Ranks that store checkpoints of one attempt."""

    def __init__(self, directory: Path, replicas: int = 3) -> None:
        self.store = MemoryStore()
        self.directory = directory
        self.replicas = replicas
        self.clock = Clock()

    def place(self, step: int, attempt: str = "leader") -> CheckpointAddress:
        return TRIAL.checkpoint(attempt, str(step))

    def upload(self, rank: int, step: int = 1, attempt: str = "leader", **files: str) -> str:
        source = self.directory / f"{rank}-{step}"
        source.mkdir(exist_ok=True)
        for name, content in files.items():
            (source / name).write_text(content)
        commit: Commit = StoreShard(rank)
        if rank == 0:
            commit = GatherShards(self.replicas, patience=10.0, clock=lambda: self.clock.now, sleep=self.clock.sleep)
        info = CheckpointInfo(attempt, step, step, "0.5")
        with open_tree(Directory(self.directory), (source.name,)) as tree:
            return upload_checkpoint(self.store, tree, self.place(step, attempt), info, commit=commit)

    def restore(self, digest: str, step: int = 1) -> Path:
        target = self.directory / "restored"
        restorer = Restorer(
            self.store,
            TRIAL.store,
            backoff=ExponentialBackoff(0.1, 1.0, Random(1)),
            patience=1.0,
            clock=lambda: self.clock.now,
            sleep=self.clock.sleep,
        )
        restorer.restore([CheckpointRef(self.place(step).uri, digest, step)], Directory(target.parent), target.name)
        return target


@pytest.fixture
def gang(tmp_path: Path) -> Gang:
    return Gang(tmp_path)


def test_every_rank_restores_the_files_of_all(gang: Gang) -> None:
    gang.upload(1, shard1="one")
    gang.upload(2, shard2="two")
    digest = gang.upload(0, shard0="zero", metadata="all")
    manifest = gang.store.objects[gang.place(1).manifest]
    assert digest == digest_of(manifest)
    assert [file.path for file in parse_manifest(manifest).files] == ["metadata", "shard0", "shard1", "shard2"]
    restored = gang.restore(digest)
    assert {path.name: path.read_text() for path in restored.iterdir()} == {
        "metadata": "all",
        "shard0": "zero",
        "shard1": "one",
        "shard2": "two",
    }


def test_without_all_shards_there_is_no_checkpoint(gang: Gang) -> None:
    gang.upload(1, shard1="one")
    with pytest.raises(ShardsMissing, match=r"step 1 has come from rank 2 yet; .* set checkpoints.ranks to RankZero"):
        gang.upload(0, shard0="zero")
    assert gang.place(1).manifest not in gang.store.objects


def test_a_slow_rank_is_waited_for(gang: Gang) -> None:
    gang.upload(1, shard1="one")

    def late() -> None:
        if gang.clock.now > 5 and gang.place(1).shard(2) not in gang.store.objects:
            gang.upload(2, shard2="two")

    gang.clock.meanwhile = late
    gang.upload(0, shard0="zero")
    assert gang.clock.now < 10
    assert gang.place(1).manifest in gang.store.objects


def test_a_shard_of_another_attempt_is_none_of_this_one(gang: Gang) -> None:
    """A pod that was given up comes back and writes; it writes below its own attempt's prefix."""
    for rank in (1, 2):
        gang.upload(rank, attempt="zombie", weights="old")
        gang.store.objects[gang.place(1).shard(rank)] = gang.store.objects[gang.place(1, "zombie").shard(rank)]
    with pytest.raises(ShardsMissing):
        gang.upload(0, weights="new")


def test_ranks_that_write_different_things_to_one_path_are_told(gang: Gang) -> None:
    gang.upload(1, weights="mine", same="same")
    gang.upload(2, same="same")
    with pytest.raises(ShardsConflict, match="ranks 0 and 1 have both written 'weights'"):
        gang.upload(0, weights="yours", same="same")


def test_a_rank_that_can_not_reach_the_store_goes_back_no_further_than_the_others(gang: Gang) -> None:
    for rank in (1, 2, 0):
        files: dict[str, Any] = {f"shard{rank}": "content"}
        digest = gang.upload(rank, **files)
    gang.store.failure = Unreachable("bucket 'bucket' does not answer")
    with pytest.raises(Unreachable):
        gang.restore(digest)
