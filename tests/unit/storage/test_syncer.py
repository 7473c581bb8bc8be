"""Storing, restoring and deleting checkpoints."""

from pathlib import Path
from random import Random

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from podtune.storage import syncer
from podtune.storage.address import CheckpointAddress, StoreAddress, TrialAddress
from podtune.storage.backoff import Backoff
from podtune.storage.errors import StoreSettingsError, Unreachable
from podtune.storage.garbage import GarbageCollector, delete_checkpoint
from podtune.storage.local_tree import UnusableTree, open_tree
from podtune.storage.memory_store import MemoryStore
from podtune.storage.restore import Candidate, Restorer
from podtune.storage.syncer import Taken, stored_digest, upload_checkpoint

TRIAL = TrialAddress(StoreAddress("models", "demo"), "uid", "digits-7")
TAKEN = Taken("pod-1", step=9, iteration=9, metric="0.5")


@pytest.fixture
def store():
    return MemoryStore()


@pytest.fixture
def source(tmp_path):
    directory = tmp_path / "shared" / "c1"
    (directory / "many").mkdir(parents=True)
    (directory / "weights").write_bytes(b"w" * 1000)
    (directory / "empty").write_bytes(b"")
    (directory / "manifest.json").write_text("the program's own")
    for number in range(20):
        (directory / "many" / f"{number}").write_text(str(number))
    return directory


def upload(store, source, attempt="pod-1", step=9):
    address = TRIAL.checkpoint(attempt, str(step))
    with open_tree(source.parent, (source.name,)) as tree:
        digest = upload_checkpoint(store, tree, address, Taken(attempt, step, step, "0.5"))
    return Candidate(address.uri, digest, step)


def restorer(store, sleeps=None, patience=10.0):
    clock = iter(range(1000))
    return Restorer(
        store, "models", backoff=Backoff(1.0, 4.0, Random(0)), patience=patience,
        clock=lambda: float(next(clock)), sleep=(sleeps if sleeps is not None else []).append,
    )  # fmt: skip


def contents(directory):
    return {str(path.relative_to(directory)): path.read_bytes() for path in directory.rglob("*") if path.is_file()}


def test_what_was_stored_is_restored(store, source, tmp_path):
    candidate = upload(store, source)
    outcome = restorer(store).restore([candidate], tmp_path / "restored")
    assert contents(tmp_path / "restored") == contents(source)
    assert (outcome.candidate, outcome.manifest.step, outcome.message) == (candidate, 9, "")


def test_the_manifest_comes_last(store, source):
    upload(store, source)
    assert store.operations[-1] == "put demo/uid/digits-7/pod-1/9/manifest.json"
    assert len(store.operations) == len(contents(source)) + 1


def test_storing_it_again_gives_the_same_digest(store, source):
    assert upload(store, source) == upload(store, source)
    address = TRIAL.checkpoint("pod-1", "9")
    assert stored_digest(store, address) == upload(store, source).digest
    assert stored_digest(store, TRIAL.checkpoint("pod-1", "10")) is None


@given(fails_at=st.integers(0, 23))
@settings(max_examples=24, deadline=None)
def test_a_broken_upload_leaves_no_checkpoint(fails_at, tmp_path_factory):
    source = tmp_path_factory.mktemp("shared") / "c1"
    source.mkdir()
    for number in range(fails_at + 1):
        (source / str(number)).write_text("x")

    class Failing(MemoryStore):
        def put_bytes(self, key, data):
            if len(self.objects) >= fails_at:
                raise Unreachable("gone")
            super().put_bytes(key, data)

    store = Failing()
    with pytest.raises(Unreachable):
        upload(store, source)
    assert not any(key.endswith("manifest.json") for key in store.objects)


@pytest.mark.parametrize("change", ["grows", "shrinks"])
def test_a_file_that_changes_while_it_is_stored_is_noticed(store, source, monkeypatch, change):
    real = MemoryStore.put

    def meddle(self, key, reader, size):
        if key.endswith("/weights"):
            with (source / "weights").open("ab") as file:
                file.truncate(500) if change == "shrinks" else file.write(b"more")
        real(self, key, reader, size)

    monkeypatch.setattr(MemoryStore, "put", meddle)
    with pytest.raises(UnusableTree, match="weights was changed while it was stored"):
        upload(store, source)
    assert not any(key.endswith("9/manifest.json") for key in store.objects)


def test_large_files_are_stored_one_by_one(store, source, monkeypatch, tmp_path):
    monkeypatch.setattr(syncer, "SMALL", 2)
    candidate = upload(store, source)
    restorer(store).restore([candidate], tmp_path / "restored")
    assert contents(tmp_path / "restored") == contents(source)


def test_a_store_that_comes_back_is_waited_for_and_nothing_is_fetched_twice(store, source, tmp_path):
    candidate = upload(store, source)
    fetched = []

    class Flaky(MemoryStore):
        def get(self, key):
            if key.endswith("/weights") and fetched.count(key) < 2:
                fetched.append(key)
                raise Unreachable("try again")
            fetched.append(key)
            return super().get(key)

    flaky = Flaky()
    flaky.objects = store.objects
    sleeps = []
    restorer(flaky, sleeps, patience=500.0).restore([candidate], tmp_path / "restored")
    assert contents(tmp_path / "restored") == contents(source)
    assert len(sleeps) == 2
    assert all(fetched.count(key) == 1 for key in fetched if not key.endswith("/weights"))


def test_a_store_that_stays_away_is_given_up(store, source, tmp_path):
    candidate = upload(store, source)
    store.failure = Unreachable("gone")
    sleeps = []
    outcome = restorer(store, sleeps).restore([candidate], tmp_path / "restored")
    assert outcome.candidate is None
    assert "gone" in outcome.message
    assert 0 < len(sleeps) < 10


def test_what_was_there_before_is_not_mixed_in(store, source, tmp_path):
    (tmp_path / "restored").mkdir()
    (tmp_path / "restored" / "old").write_text("old")
    restorer(store).restore([upload(store, source)], tmp_path / "restored")
    assert contents(tmp_path / "restored") == contents(source)


def test_a_manifest_that_leads_out_of_the_directory_is_refused(store, source, tmp_path):
    candidate = upload(store, source)
    key = "demo/uid/digits-7/pod-1/9/manifest.json"
    evil = store.objects[key].replace(b'"path":"weights"', b'"path":"../../w"')
    store.objects[key] = evil
    outcome = restorer(store).restore(
        [Candidate(candidate.uri, syncer.digest_of(evil), 9)], tmp_path / "deep" / "restored"
    )
    assert "not a plain path" in outcome.message
    assert not (tmp_path / "w").exists()


class TestDeletion:
    def test_the_manifest_goes_first_and_then_all_the_rest(self, store, source):
        candidate = upload(store, source)
        upload(store, source, step=90)
        store.operations.clear()
        delete_checkpoint(store, CheckpointAddress.from_uri(candidate.uri))
        assert store.operations[0] == "delete demo/uid/digits-7/pod-1/9/manifest.json"
        assert {key.split("/")[4] for key in store.objects} == {"90"}

    def test_only_what_is_older_than_the_newest_kept_and_not_kept_goes(self, store, source):
        uris = {step: upload(store, source, step=step).uri for step in (1, 2, 3, 4)}
        collector = GarbageCollector(store, TRIAL, "pod-1")
        assert collector.collect([uris[1], uris[3]], []) == [uris[2]]
        assert collector.collect([uris[3]], [uris[1]]) == []
        assert collector.collect([uris[3]], []) == [uris[1]]
        assert collector.collect([], []) == []
        assert {key.split("/")[4] for key in store.objects} == {"3", "4"}

    def test_earlier_attempts_are_cleaned_up_with_what_they_left_unfinished(self, store, source):
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

    @pytest.mark.parametrize("prefix", ["", "2024/data", "data"])
    def test_other_trials_are_never_touched_whatever_the_prefix(self, store, source, prefix):
        trial = TrialAddress(StoreAddress("models", prefix), "uid", "digits-7")
        other = TrialAddress(StoreAddress("models", prefix), "uid", "digits-70")
        for place in (trial, other):
            for step in ("1", "2"):
                store.put_bytes(place.checkpoint("pod-1", step).manifest, b"{}")
                store.put_bytes(place.checkpoint("pod-1", step).data("x"), b"")
        store.put_bytes("2024/manifest.json", b"")
        collector = GarbageCollector(store, trial, "pod-2")
        donor = other.checkpoint("pod-1", "9").uri
        deleted = collector.collect([trial.checkpoint("pod-1", "2").uri, donor, "s3://other/x/9", "nonsense"], [])
        assert deleted == [trial.checkpoint("pod-1", "1").uri]
        assert len([key for key in store.objects if "digits-70/" in key]) == 4
        assert "2024/manifest.json" in store.objects


class TestAddress:
    @pytest.mark.parametrize("prefix", ["", "a", "a/b"])
    def test_an_uri_comes_back(self, prefix):
        address = TrialAddress(StoreAddress("models", prefix), "uid", "t").checkpoint("pod/2", "9")
        assert CheckpointAddress.from_uri(address.uri) == address
        assert address.step == 9
        assert address.uri == f"s3://models/{prefix}{'/' if prefix else ''}uid/t/pod-2/9"

    @pytest.mark.parametrize("uri", ["", "s3://", "s3://b", "s3://b/", "http://b/k", "s3://b/k/"])
    def test_anything_else_is_refused(self, uri):
        with pytest.raises(StoreSettingsError, match="is not the URI"):
            CheckpointAddress.from_uri(uri)

    @pytest.mark.parametrize(
        ("text", "said"),
        [("{", "not JSON"), ("[]", "object"), ("{}", "bucket is missing"), ('{"bucket": "b", "region": 1}', "region")],
    )
    def test_bad_settings_name_the_field(self, text, said):
        with pytest.raises(StoreSettingsError, match=said):
            StoreAddress.from_json(text)


def test_backoff_doubles_within_its_bounds():
    backoff = Backoff(1.0, 8.0, Random(1))
    for step in (1, 2, 4, 8, 8):
        assert step / 2 <= backoff.next() <= step
    backoff.reset()
    assert backoff.next() <= 1.0


def test_no_descriptor_is_left_open(store, source):
    before = len(list(Path("/proc/self/fd").iterdir()))
    upload(store, source)
    assert len(list(Path("/proc/self/fd").iterdir())) == before
