"""What a volume that outlives the attempt saves."""

from collections.abc import Iterator
from pathlib import Path
from random import Random

import pytest

from podtune.protocol.checkpoint import CheckpointRef
from podtune.storage.address import S3Address
from podtune.storage.backoff import ExponentialBackoff
from podtune.storage.checkpoint import file_upload
from podtune.storage.checkpoint.address import TrialAddress
from podtune.storage.checkpoint.content_index import ContentIndex
from podtune.storage.checkpoint.local_cache import LocalCache
from podtune.storage.checkpoint.local_tree import open_tree
from podtune.storage.checkpoint.restore import RestoreOutcome, Restorer
from podtune.storage.checkpoint.syncer import CheckpointInfo, Options, upload_checkpoint
from podtune.storage.directory import Directory
from tests.unit.storage.memory_store import MemoryStore

TRIAL = TrialAddress(S3Address("models"), "uid", "digits-7")


class Counting(MemoryStore):
    fetched = 0

    def get(self, key: str, start: int = 0, size: int | None = None) -> Iterator[bytes]:
        for piece in super().get(key, start, size):
            self.fetched += len(piece)
            yield piece


class World:
    def __init__(self, directory: Path, packs: bool) -> None:
        self.directory = directory
        self.source = directory / "shared" / "c1"
        self.store = Counting()
        self.cache = LocalCache(directory / "scratch")
        self.packs = packs

    def save(self, step: int = 1) -> CheckpointRef:
        address, content_index = TRIAL.checkpoint("pod-1", str(step)), ContentIndex(TRIAL.prefix)
        with open_tree(Directory(self.directory / "shared"), ("c1",)) as tree:
            info = CheckpointInfo("pod-1", step, step, "")
            options = Options(packs=self.packs)
            digest = upload_checkpoint(self.store, tree, address, info, content_index=content_index, options=options)
            manifest = content_index.get(address)
            assert manifest is not None
            self.cache.keep(tree, manifest)
        return CheckpointRef(address.uri, digest, step)

    def restore(self, candidate: CheckpointRef) -> RestoreOutcome:
        self.store.fetched = 0
        restorer = Restorer(
            self.store, TRIAL.store, backoff=ExponentialBackoff(1.0, 1.0, Random(0)), patience=0.0, clock=lambda: 0.0,
            sleep=lambda _: None, local=self.cache,
        )  # fmt: skip
        outcome = restorer.restore([candidate], Directory(self.directory), "restored")
        assert outcome.checkpoint == candidate, outcome.message
        for path in self.source.rglob("*"):
            if path.is_file():
                assert (self.directory / "restored" / path.relative_to(self.source)).read_bytes() == path.read_bytes()
        return outcome

    @property
    def held(self) -> list[Path]:
        return list((self.directory / "scratch" / "by-content").iterdir())


@pytest.fixture(params=[False, True], ids=["plain", "packed"])
def world(request: pytest.FixtureRequest, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> World:
    monkeypatch.setattr(file_upload, "WHOLE", 100)
    monkeypatch.setattr(file_upload, "CHUNK", 100)
    (tmp_path / "scratch").mkdir()
    (tmp_path / "shared" / "c1" / "sub").mkdir(parents=True)
    for name, content in {"large": b"w" * 950, "empty": b"", "sub/small": b"small"}.items():
        (tmp_path / "shared" / "c1" / name).write_bytes(content)
    return World(tmp_path, packs=request.param)


def test_nothing_is_fetched_that_is_on_the_volume(world: World) -> None:
    outcome = world.restore(world.save())
    assert world.store.fetched == 0
    assert outcome.local_bytes == 955


def test_what_was_damaged_on_the_volume_comes_from_the_bucket(world: World) -> None:
    candidate = world.save()
    (large,) = [path for path in world.held if path.stat().st_size == 950]
    large.write_bytes(b"w" * 500 + b"?" + b"w" * 449)
    assert world.restore(candidate).local_bytes == 5
    assert world.store.fetched == 950
    assert not large.exists()


def test_what_is_cut_off_or_gone_comes_from_the_bucket_too(world: World) -> None:
    candidate = world.save()
    for path in world.held:
        path.unlink() if path.stat().st_size == 5 else path.write_bytes(path.read_bytes()[:100])
    assert world.restore(candidate).local_bytes == 0


def test_only_the_last_checkpoint_takes_up_space_and_what_has_not_changed_is_not_copied_again(world: World) -> None:
    world.save(1)
    (kept,) = [path for path in world.held if path.stat().st_size == 5]
    before = kept.stat().st_ino
    (world.source / "large").write_bytes(b"v" * 950)
    candidate = world.save(2)
    assert len(world.held) == 3
    assert kept.stat().st_ino == before
    assert world.restore(candidate).local_bytes == 955


def test_a_volume_that_is_not_there_costs_nothing_but_time(world: World) -> None:
    candidate = world.save()
    world.cache = LocalCache(world.directory / "gone")
    world.restore(candidate)
    assert world.store.fetched == 955
