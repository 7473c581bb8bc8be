"""Storing, restoring and deleting checkpoints."""

import json
from collections.abc import Iterator
from pathlib import Path
from random import Random
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from podtune.protocol.checkpoint import CheckpointRef
from podtune.storage.address import S3Address
from podtune.storage.backoff import ExponentialBackoff
from podtune.storage.cancel import CancelToken
from podtune.storage.checkpoint import file_upload
from podtune.storage.checkpoint.address import TrialAddress, parse_checkpoint_uri
from podtune.storage.checkpoint.content_index import ContentIndex
from podtune.storage.checkpoint.download import read_file
from podtune.storage.checkpoint.local_tree import LocalFile, UnusableTree, open_tree
from podtune.storage.checkpoint.manifest import CheckpointManifest, ManifestFile, digest_of, parse_manifest
from podtune.storage.checkpoint.restore import Restorer
from podtune.storage.checkpoint.syncer import CheckpointInfo, Options, read_stored_digest, upload_checkpoint
from podtune.storage.cleanup.garbage import GarbageCollector
from podtune.storage.cleanup.prune import delete_objects
from podtune.storage.content import PIECE, Content
from podtune.storage.directory import Directory
from podtune.storage.errors import (
    AccessDenied,
    BucketNotFound,
    InvalidCredentials,
    RequestRejected,
    StoreError,
    TimedOut,
    Unreachable,
)
from podtune.storage.object_store import PartialUpload, StoredPart
from tests.unit.storage.memory_store import MemoryStore

TRIAL = TrialAddress(S3Address("models", "demo"), "uid", "digits-7")
INFO = CheckpointInfo("pod-1", step=9, iteration=9, metric="0.5")


@pytest.fixture
def store() -> MemoryStore:
    return MemoryStore()


@pytest.fixture
def source(tmp_path: Path) -> Path:
    directory = tmp_path / "shared" / "c1"
    (directory / "many").mkdir(parents=True)
    (directory / "weights").write_bytes(b"w" * 1000)
    (directory / "empty").write_bytes(b"")
    (directory / "manifest.json").write_text("the program's own")
    for number in range(20):
        (directory / "many" / f"{number}").write_text(str(number))
    return directory


ROOT = "demo/uid/digits-7"


def manifest(store: MemoryStore, root: str = f"{ROOT}/pod-1/9") -> dict[str, Any]:
    found: dict[str, Any] = json.loads(store.objects[f"{root}/manifest.json"])
    return found


def entry(store: MemoryStore, path: str) -> dict[str, Any]:
    return next(file for file in manifest(store)["files"] if file["path"] == path)


def upload(store: MemoryStore, source: Path, attempt: str = "pod-1", step: int = 9, **options: Any) -> CheckpointRef:
    address = TRIAL.checkpoint(attempt, str(step))
    with open_tree(Directory(source.parent), (source.name,)) as tree:
        digest = upload_checkpoint(store, tree, address, CheckpointInfo(attempt, step, step, "0.5"), **options)
    return CheckpointRef(address.uri, digest, step)


def restorer(store: MemoryStore, sleeps: list[float] | None = None, patience: float = 10.0, **options: Any) -> Restorer:
    clock = iter(range(1000))
    return Restorer(
        store, TRIAL.store, backoff=ExponentialBackoff(1.0, 4.0, Random(0)), patience=patience,
        clock=lambda: float(next(clock)), sleep=(sleeps if sleeps is not None else []).append, **options,
    )  # fmt: skip


def contents(directory: Path) -> dict[str, bytes]:
    return {str(path.relative_to(directory)): path.read_bytes() for path in directory.rglob("*") if path.is_file()}


def test_what_was_stored_is_restored(store: MemoryStore, source: Path, tmp_path: Path) -> None:
    candidate = upload(store, source)
    outcome = restorer(store).restore([candidate], Directory(tmp_path), "restored")
    assert contents(tmp_path / "restored") == contents(source)
    assert (outcome.checkpoint, outcome.manifest.step, outcome.message) == (candidate, 9, "")


def test_a_checkpoint_without_files_is_restored_as_a_directory_without_any(store: MemoryStore, tmp_path: Path) -> None:
    (tmp_path / "shared" / "nothing").mkdir(parents=True)
    candidate = upload(store, tmp_path / "shared" / "nothing")
    assert restorer(store).restore([candidate], Directory(tmp_path), "restored").checkpoint == candidate
    assert list((tmp_path / "restored").iterdir()) == []


def test_a_restore_ends_when_its_time_is_up_and_leaves_nothing_half(
    store: MemoryStore, source: Path, tmp_path: Path
) -> None:
    """The checkpoint may be whole: neither is the one before tried, nor is it begun afresh."""
    earlier, latest = upload(store, source, step=8), upload(store, source)
    with pytest.raises(TimedOut, match=r"longer than checkpoints\.sync\.timeout of 2 s; raise it"):
        restorer(store, timeout=2.0).restore([latest, earlier], Directory(tmp_path), "restored")
    assert list(tmp_path.glob("*restored*")) == []
    assert (
        restorer(store, timeout=900.0).restore([latest, earlier], Directory(tmp_path), "restored").checkpoint == latest
    )


class Locked(MemoryStore):
    """It does not let us read some of its objects."""

    def __init__(self, error: StoreError, *locked: str) -> None:
        super().__init__()
        self.error = error
        self.locked = locked

    def get_bytes(self, key: str, limit: int) -> bytes:
        if any(part in key for part in self.locked):
            raise self.error
        return super().get_bytes(key, limit)


DENIED = AccessDenied("bucket 'models' does not allow it")


def test_one_that_may_not_be_read_falls_back_to_the_one_before(source: Path, tmp_path: Path) -> None:
    store = Locked(DENIED, "/9/data/weights")
    earlier, latest = upload(store, source, step=8), upload(store, source)
    outcome = restorer(store).restore([latest, earlier], Directory(tmp_path), "restored")
    assert (outcome.checkpoint, outcome.message) == (earlier, f"step 9 was not restored: {DENIED}")


@pytest.mark.parametrize("locked", ["/9/manifest.json", "/9/data/many/7"])
def test_one_that_may_not_be_read_is_not_lost_where_those_before_are(source: Path, tmp_path: Path, locked: str) -> None:
    """It may be whole, and to start afresh would throw it away."""
    store = Locked(DENIED, locked)
    earlier, latest = upload(store, source, step=8), upload(store, source)
    del store.objects[f"{ROOT}/pod-1/8/manifest.json"]
    with pytest.raises(AccessDenied, match="does not allow it"):
        restorer(store).restore([latest, earlier], Directory(tmp_path), "restored")
    assert list(tmp_path.glob("*restored*")) == []


@pytest.mark.parametrize("error", [InvalidCredentials("revoked"), BucketNotFound("gone")])
def test_where_none_can_be_read_the_one_before_is_not_tried(source: Path, tmp_path: Path, error: StoreError) -> None:
    """Nothing is wrong with the latest: it can be read again when the store is mended."""
    store = Locked(error, "/9/")
    earlier, latest = upload(store, source, step=8), upload(store, source)
    with pytest.raises(type(error)):
        restorer(store).restore([latest, earlier], Directory(tmp_path), "restored")


def test_the_manifest_comes_last(store: MemoryStore, source: Path) -> None:
    upload(store, source)
    assert store.operations[-1] == "put demo/uid/digits-7/pod-1/9/manifest.json"
    assert len(store.operations) == len(contents(source)) + 1


def test_storing_it_again_gives_the_same_digest(store: MemoryStore, source: Path) -> None:
    assert upload(store, source) == upload(store, source)
    address = TRIAL.checkpoint("pod-1", "9")
    assert read_stored_digest(store, address) == upload(store, source).digest
    assert read_stored_digest(store, TRIAL.checkpoint("pod-1", "10")) is None


@given(fails_at=st.integers(0, 23))
@settings(max_examples=24, deadline=None)
def test_a_broken_upload_leaves_no_checkpoint(fails_at: int, tmp_path_factory: pytest.TempPathFactory) -> None:
    source = tmp_path_factory.mktemp("shared") / "c1"
    source.mkdir()
    for number in range(fails_at + 1):
        (source / str(number)).write_text("x")

    class Failing(MemoryStore):
        def put_bytes(self, key: str, data: bytes) -> None:
            if len(self.objects) >= fails_at:
                raise Unreachable("gone")
            super().put_bytes(key, data)

    store = Failing()
    with pytest.raises(Unreachable):
        upload(store, source)
    assert not any(key.endswith("manifest.json") for key in store.objects)


@pytest.mark.parametrize("change", ["grows", "shrinks"])
def test_a_file_that_changes_while_it_is_stored_is_noticed(
    store: MemoryStore, source: Path, monkeypatch: pytest.MonkeyPatch, change: str
) -> None:
    (source / "weights").write_bytes(bytes(PIECE + 1000))
    real = MemoryStore.put_content

    def meddle(self: MemoryStore, key: str, content: Content) -> None:
        if key.endswith("/weights"):
            with (source / "weights").open("ab") as file:
                file.truncate(500) if change == "shrinks" else file.write(b"more")
        real(self, key, content)

    monkeypatch.setattr(MemoryStore, "put_content", meddle)
    with pytest.raises(UnusableTree, match="weights changed while it was being stored"):
        upload(store, source)
    assert not any(key.endswith("9/manifest.json") for key in store.objects)


@pytest.fixture
def small_chunks(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(file_upload, "WHOLE", 100)
    monkeypatch.setattr(file_upload, "CHUNK", 100)
    monkeypatch.setattr(file_upload, "PACK", 30)


def test_large_files_are_stored_and_restored_in_chunks(
    store: MemoryStore, source: Path, small_chunks: None, tmp_path: Path
) -> None:
    candidate = upload(store, source)
    assert store.objects[f"{ROOT}/pod-1/9/data/weights"] == b"w" * 1000
    assert (manifest(store)["version"], len(entry(store, "weights")["parts"])) == (2, 10)
    restorer(store).restore([candidate], Directory(tmp_path), "restored")
    assert contents(tmp_path / "restored") == contents(source)
    assert store.uploads == {}


def test_small_files_are_packed_when_that_is_asked_for(
    store: MemoryStore, source: Path, small_chunks: None, tmp_path: Path
) -> None:
    candidate = upload(store, source, options=Options(packs=True))
    packs = [key for key in store.objects if "/packs/" in key]
    assert 1 < len(packs) < 20
    assert len(store.objects) == len(packs) + 11  # the chunks of the large file, and the manifest
    place = entry(store, "many/7")
    packed = store.objects[f"{ROOT}/{place['object']}"]
    assert packed[place["offset"] : place["offset"] + place["size"]] == b"7"
    restorer(store).restore([candidate], Directory(tmp_path), "restored")
    assert contents(tmp_path / "restored") == contents(source)


def test_a_large_file_is_split_in_the_packed_layout(
    store: MemoryStore, source: Path, small_chunks: None, tmp_path: Path
) -> None:
    candidate = upload(store, source, options=Options(packs=True))
    assert (manifest(store)["version"], entry(store, "weights")["split"]) == (3, True)
    chunks = sorted(key for key in store.objects if "/data/weights/" in key)
    assert chunks[0] == f"{ROOT}/pod-1/9/data/weights/00000"
    assert b"".join(store.objects[chunk] for chunk in chunks) == b"w" * 1000
    assert f"{ROOT}/pod-1/9/data/weights" not in store.objects
    restorer(store).restore([candidate], Directory(tmp_path), "restored")
    assert contents(tmp_path / "restored") == contents(source)


@pytest.mark.parametrize(("damage", "said"), [("lose", "weights is missing"), ("cut", "weights is damaged")])
@pytest.mark.usefixtures("small_chunks")
def test_a_split_file_of_which_a_chunk_is_gone_is_named(
    store: MemoryStore, source: Path, tmp_path: Path, damage: str, said: str
) -> None:
    candidate = upload(store, source, options=Options(packs=True))
    data = store.objects.pop(f"{ROOT}/pod-1/9/data/weights/00004")
    if damage == "cut":
        store.objects[f"{ROOT}/pod-1/9/data/weights/00004"] = data[:-1]
    outcome = restorer(store).restore([candidate], Directory(tmp_path), "restored")
    assert outcome.checkpoint is None
    assert said in outcome.message


def test_a_split_file_stays_as_long_as_a_checkpoint_refers_to_it(
    store: MemoryStore, source: Path, small_chunks: None, tmp_path: Path
) -> None:
    content_index = ContentIndex(TRIAL.prefix)
    first = upload(store, source, step=1, content_index=content_index, options=Options(packs=True))
    again = upload(store, source, step=2, content_index=content_index, options=Options(packs=True))
    collector = GarbageCollector(store, TRIAL, "pod-1", content_index)
    assert collector.collect([again.uri], []) == [first.uri]
    restorer(store).restore([again], Directory(tmp_path), "restored")
    assert contents(tmp_path / "restored") == contents(source)
    (source / "weights").write_bytes(b"other")
    last = upload(store, source, step=3, content_index=content_index, options=Options(packs=True))
    collector.learn([last.uri])
    collector.collect([last.uri], [])
    assert not [key for key in store.objects if "/1/data/" in key]


def test_a_packed_file_is_restored_beside_an_empty_one_whatever_they_are_called(
    store: MemoryStore, tmp_path: Path
) -> None:
    source = tmp_path / "shared" / "renamed"
    source.mkdir(parents=True)
    for name, content in {"a": b"", "b": b"small"}.items():
        (source / name).write_bytes(content)
    content_index, options = ContentIndex(TRIAL.prefix), Options(packs=True)
    upload(store, source, step=1, options=options, content_index=content_index)
    for name, content in {"a": b"small", "b": b""}.items():
        (source / name).write_bytes(content)
    candidate = upload(store, source, step=2, options=options, content_index=content_index)
    assert restorer(store).restore([candidate], Directory(tmp_path), "restored").checkpoint == candidate
    assert contents(tmp_path / "restored") == contents(source)


@pytest.mark.parametrize("packs", [False, True])
def test_what_has_not_changed_is_not_stored_again(
    store: MemoryStore, source: Path, small_chunks: None, tmp_path: Path, packs: bool
) -> None:
    content_index = ContentIndex(TRIAL.prefix)
    options = Options(packs=packs)
    upload(store, source, content_index=content_index, options=options)
    (source / "many" / "7").write_text("changed")
    store.operations.clear()
    again = upload(store, source, step=10, content_index=content_index, options=options)
    assert len(store.operations) == 2  # the one file and the manifest
    restorer(store).restore([again], Directory(tmp_path), "restored")
    assert contents(tmp_path / "restored") == contents(source)


def test_every_checkpoint_is_whole_by_itself_where_nothing_is_to_be_reused(store: MemoryStore, source: Path) -> None:
    content_index = ContentIndex(TRIAL.prefix)
    upload(store, source, content_index=content_index)
    store.operations.clear()
    upload(store, source, step=10, content_index=content_index, options=Options(reuses=False))
    assert len(store.operations) == len(contents(source)) + 1


def test_a_large_file_whose_middle_has_changed_is_stored(
    store: MemoryStore, source: Path, small_chunks: None, tmp_path: Path
) -> None:
    content_index = ContentIndex(TRIAL.prefix)
    upload(store, source, content_index=content_index)
    (source / "weights").write_bytes(b"w" * 500 + b"W" * 500)
    again = upload(store, source, step=10, content_index=content_index)
    restorer(store).restore([again], Directory(tmp_path), "restored")
    assert (tmp_path / "restored" / "weights").read_bytes() == b"w" * 500 + b"W" * 500


@pytest.mark.parametrize(
    ("patterns", "left_out"),
    [
        (["many"], {f"many/{number}" for number in range(20)}),
        (["many/1?"], {f"many/{number}" for number in range(10, 20)}),
        (["w*", "*.json"], {"weights", "manifest.json"}),
        (["any/*"], set()),
    ],
)
def test_excluded_files_are_left_out(store: MemoryStore, source: Path, patterns: list[str], left_out: set[str]) -> None:
    upload(store, source, options=Options(exclude=tuple(patterns)))
    assert {file["path"] for file in manifest(store)["files"]} == set(contents(source)) - left_out


def test_an_excluded_link_does_no_harm(store: MemoryStore, source: Path) -> None:
    (source / "latest").symlink_to(source / "weights")
    upload(store, source, options=Options(exclude=("latest",)))


@pytest.mark.parametrize("fails_at", range(1, 11))
def test_a_broken_upload_in_parts_is_aborted_and_goes_on_where_it_was(
    store: MemoryStore, source: Path, small_chunks: None, fails_at: int
) -> None:
    done: dict[LocalFile, ManifestFile] = {}
    real = store.put_part

    def fail(upload: PartialUpload, number: int, content: Content) -> StoredPart:
        if number == fails_at:
            raise Unreachable("gone")
        return real(upload, number, content)

    store.put_part = fail
    with pytest.raises(Unreachable):
        upload(store, source, done=done)
    assert store.uploads == {}
    store.put_part = real
    left = len(contents(source)) - len(done)
    store.operations.clear()
    upload(store, source, done=done)
    assert len(store.operations) == left + 1  # and the manifest


@pytest.mark.parametrize("how", ["broken off", "too slow"])
def test_an_upload_is_cancelled(store: MemoryStore, source: Path, small_chunks: None, how: str) -> None:
    clock = iter(range(1000))
    cancel_token = CancelToken(lambda: next(clock))
    if how == "broken off":
        cancel_token.cancel()
    else:
        cancel_token.set_deadline(5, "checkpoints.sync.timeout")
    with pytest.raises(TimedOut, match=r"checkpoints.drain|checkpoints.sync.timeout of 5 s"):
        upload(store, source, cancel_token=cancel_token)
    assert store.uploads == {}
    assert not any(key.endswith("9/manifest.json") for key in store.objects)


def test_a_checkpoint_of_version_1_is_restored(store: MemoryStore, source: Path, tmp_path: Path) -> None:
    candidate = upload(store, source)
    assert manifest(store)["version"] == 1
    assert set(entry(store, "weights")) == {"path", "size", "sha256"}
    restorer(store).restore([candidate], Directory(tmp_path), "restored")
    assert contents(tmp_path / "restored") == contents(source)


@pytest.mark.parametrize(("packs", "times"), [(False, 1), (False, 2), (True, 1), (True, 2)])
@pytest.mark.usefixtures("small_chunks")
def test_what_was_damaged_on_the_way_is_fetched_once_more(
    store: MemoryStore, source: Path, tmp_path: Path, packs: bool, times: int
) -> None:
    candidate = upload(store, source, options=Options(packs=packs))
    flips: dict[tuple[str, int], int] = {}
    real = store.get

    def flip(key: str, start: int = 0, size: int | None = None) -> Iterator[bytes]:
        data = b"".join(real(key, start, size))
        flips[key, start] = flips.get((key, start), 0) + 1
        return iter([bytes([data[0] ^ 1]) + data[1:] if flips[key, start] <= times and data else data])

    store.get = flip
    outcome = restorer(store).restore([candidate], Directory(tmp_path), "restored")
    assert (outcome.checkpoint == candidate) == (times == 1)
    assert ("is damaged" in outcome.message) == (times == 2)


def test_one_file_is_read_by_itself_wherever_it_lies(store: MemoryStore, source: Path, small_chunks: None) -> None:
    candidate = upload(store, source, options=Options(packs=True))
    address = parse_checkpoint_uri(TRIAL.store, candidate.uri)
    files = parse_manifest(store.objects[address.manifest]).files
    assert {file.path: b"".join(read_file(store, address, file)) for file in files} == contents(source)


def test_a_store_that_comes_back_is_waited_for_and_nothing_is_fetched_twice(
    store: MemoryStore, source: Path, tmp_path: Path
) -> None:
    candidate = upload(store, source)
    fetched: list[str] = []

    class Flaky(MemoryStore):
        def get(self, key: str, start: int = 0, size: int | None = None) -> Iterator[bytes]:
            if key.endswith("/weights") and fetched.count(key) < 2:
                fetched.append(key)
                raise Unreachable("try again")
            fetched.append(key)
            return super().get(key, start, size)

    flaky = Flaky()
    flaky.objects = store.objects
    sleeps: list[float] = []
    restorer(flaky, sleeps, patience=500.0).restore([candidate], Directory(tmp_path), "restored")
    assert contents(tmp_path / "restored") == contents(source)
    assert len(sleeps) == 2
    assert all(fetched.count(key) == 1 for key in fetched if not key.endswith("/weights"))


def test_a_store_that_stays_away_is_given_up(store: MemoryStore, source: Path, tmp_path: Path) -> None:
    candidate = upload(store, source)
    store.failure = Unreachable("gone")
    sleeps: list[float] = []
    with pytest.raises(Unreachable, match="gone"):
        restorer(store, sleeps).restore([candidate], Directory(tmp_path), "restored")
    assert not (tmp_path / "restored").exists()
    assert 0 < len(sleeps) < 10


def test_what_was_there_before_is_not_mixed_in(store: MemoryStore, source: Path, tmp_path: Path) -> None:
    (tmp_path / "restored").mkdir()
    (tmp_path / "restored" / "old").write_text("old")
    restorer(store).restore([upload(store, source)], Directory(tmp_path), "restored")
    assert contents(tmp_path / "restored") == contents(source)


def test_a_manifest_that_leads_out_of_the_directory_is_refused(
    store: MemoryStore, source: Path, tmp_path: Path
) -> None:
    candidate = upload(store, source)
    key = "demo/uid/digits-7/pod-1/9/manifest.json"
    evil = store.objects[key].replace(b'"path":"weights"', b'"path":"../../w"')
    store.objects[key] = evil
    outcome = restorer(store).restore(
        [CheckpointRef(candidate.uri, digest_of(evil), 9)], Directory(tmp_path), "restored"
    )
    assert "not a plain path" in outcome.message
    assert not (tmp_path.parent / "w").exists()


class TestDeletion:
    def test_the_manifest_goes_first_and_then_all_the_rest(self, store: MemoryStore, source: Path) -> None:
        candidate = upload(store, source)
        upload(store, source, step=90)
        store.operations.clear()
        delete_objects(store, store.list(f"{parse_checkpoint_uri(TRIAL.store, candidate.uri).root}/"))
        assert store.operations[0] == "delete demo/uid/digits-7/pod-1/9/manifest.json"
        assert {key.split("/")[4] for key in store.objects} == {"90"}

    def test_only_what_is_older_than_the_newest_kept_and_not_kept_goes(self, store: MemoryStore, source: Path) -> None:
        uris = {step: upload(store, source, step=step).uri for step in (1, 2, 3, 4)}
        collector = GarbageCollector(store, TRIAL, "pod-1")
        assert collector.collect([uris[1], uris[3]], []) == [uris[2]]
        assert collector.collect([uris[3]], [uris[1]]) == []
        assert collector.collect([uris[3]], []) == [uris[1]]
        assert collector.collect([], []) == []
        assert {key.split("/")[4] for key in store.objects} == {"3", "4"}

    def test_earlier_attempts_are_cleaned_up_with_what_they_left_unfinished(
        self, store: MemoryStore, source: Path
    ) -> None:
        upload(store, source, attempt="pod-0", step=1)
        kept = upload(store, source, attempt="pod-0", step=2)
        store.put_bytes("demo/uid/digits-7/pod-0/1.5/data/leaving", b"")
        store.put_bytes("demo/uid/digits-7/pod-0/3/data/maybe still coming", b"")
        store.put_bytes("demo/uid/digits-7/pod-0/results.jsonl", b"")
        store.put_bytes("demo/uid/digits-7/pod-1/1/data/in flight", b"")
        collector = GarbageCollector(store, TRIAL, "pod-1")
        collector.collect([kept.uri], [])
        left = {key.removeprefix("demo/uid/digits-7/") for key in store.objects if "/2/" not in key}
        assert left == {"pod-0/3/data/maybe still coming", "pod-0/results.jsonl", "pod-1/1/data/in flight"}

    def test_where_nothing_is_recorded_any_more_what_is_newer_goes_too(self, store: MemoryStore, source: Path) -> None:
        for step in (1, 2, 3):
            ref = upload(store, source, step=step)
        collector = GarbageCollector(store, TRIAL, "pod-1")
        assert collector.collect([], [ref.uri]) == []
        gone = [TRIAL.checkpoint("pod-1", str(step)).uri for step in (1, 2)]
        assert collector.collect([], [ref.uri], discards=True) == gone
        assert collector.collect([], [], discards=True) == [ref.uri]
        assert store.objects == {}

    def test_what_a_kept_one_refers_to_stays_until_that_goes_too(
        self, store: MemoryStore, source: Path, tmp_path: Path
    ) -> None:
        content_index = ContentIndex(TRIAL.prefix)
        uris = {}
        for step in (1, 2, 3):
            (source / "many" / "7").write_text(f"changed {step}")
            uris[step] = upload(store, source, step=step, content_index=content_index)
        collector = GarbageCollector(store, TRIAL, "pod-1", content_index)
        assert collector.collect([uris[2].uri, uris[3].uri], []) == [uris[1].uri]
        left = {key.removeprefix(f"{ROOT}/pod-1/1/") for key in store.objects if "/1/" in key}
        assert left == {f"data/{path}" for path in contents(source)} - {"data/many/7"}
        restorer(store).restore([uris[3]], Directory(tmp_path), "restored")
        assert contents(tmp_path / "restored") == contents(source)
        for path in source.rglob("*"):
            if path.is_file():
                path.write_text(f"all new {path}")
        newest = upload(store, source, step=4, content_index=content_index)
        assert collector.collect([newest.uri], []) == [uris[2].uri, uris[3].uri]
        assert {key.split("/")[4] for key in store.objects} == {"4"}

    def test_another_attempt_learns_of_references_from_the_bucket(
        self, store: MemoryStore, source: Path, tmp_path: Path
    ) -> None:
        content_index = ContentIndex(TRIAL.prefix)
        for step in (1, 2):
            (source / "many" / "7").write_text(f"changed {step}")
            kept = upload(store, source, step=step, content_index=content_index)
        GarbageCollector(store, TRIAL, "pod-2").collect([kept.uri], [])
        restorer(store).restore([kept], Directory(tmp_path), "restored")
        assert contents(tmp_path / "restored") == contents(source)

    def test_nothing_is_deleted_while_it_is_unknown_what_is_needed(self, store: MemoryStore, source: Path) -> None:
        upload(store, source, step=1)
        second = upload(store, source, step=2)
        store.objects[f"{ROOT}/pod-1/2/manifest.json"] = b'{"version": 4}'
        with pytest.raises(RequestRejected, match="version is 4"):
            GarbageCollector(store, TRIAL, "pod-2").collect([second.uri], [])
        assert f"{ROOT}/pod-1/1/manifest.json" in store.objects

    @pytest.mark.parametrize("prefix", ["", "2024/data", "data"])
    def test_other_trials_are_never_touched_whatever_the_prefix(
        self, store: MemoryStore, source: Path, prefix: str
    ) -> None:
        trial = TrialAddress(S3Address("models", prefix), "uid", "digits-7")
        other = TrialAddress(S3Address("models", prefix), "uid", "digits-70")
        for place in (trial, other):
            for step in ("1", "2"):
                empty = CheckpointManifest("pod-1", int(step), int(step), "", "", ())
                store.put_bytes(place.checkpoint("pod-1", step).manifest, empty.to_bytes())
                store.put_bytes(place.checkpoint("pod-1", step).data("x"), b"")
        store.put_bytes("2024/manifest.json", b"")
        collector = GarbageCollector(store, trial, "pod-2")
        donor = other.checkpoint("pod-1", "9").uri
        deleted = collector.collect([trial.checkpoint("pod-1", "2").uri, donor, "s3://other/x/9", "nonsense"], [])
        assert deleted == [trial.checkpoint("pod-1", "1").uri]
        assert len([key for key in store.objects if "digits-70/" in key]) == 4
        assert "2024/manifest.json" in store.objects


def test_backoff_doubles_within_its_bounds() -> None:
    backoff = ExponentialBackoff(1.0, 8.0, Random(1))
    for step in (1, 2, 4, 8, 8):
        assert step / 2 <= backoff.draw_wait() <= step
    backoff.reset()
    assert backoff.draw_wait() <= 1.0


def test_no_descriptor_is_left_open(store: MemoryStore, source: Path) -> None:
    before = len(list(Path("/proc/self/fd").iterdir()))
    upload(store, source)
    assert len(list(Path("/proc/self/fd").iterdir())) <= before  # what tests before have left may be closed meanwhile
