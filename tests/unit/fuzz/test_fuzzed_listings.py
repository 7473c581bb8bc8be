"""What a server says is in a bucket: other servers than ours, other people's objects, answers cut off on their way."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from itertools import islice
from xml.sax.saxutils import escape

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from podtune.storage.address import S3Address
from podtune.storage.checkpoint.address import TrialAddress
from podtune.storage.cleanup.garbage import GarbageCollector
from podtune.storage.cleanup.prune import prune_checkpoints, purge
from podtune.storage.errors import StoreError
from podtune.storage.s3.store import S3Store
from tests.unit.fuzz.junk import assert_one_sentence, fuzzed
from tests.unit.runner.world.examples import draw
from tests.unit.storage.memory_store import MemoryStore
from tests.unit.storage.web_server import WebServer

PREFIX = "p/uid/"
KEPT = f"{PREFIX}e-0/a/8"
parts = st.sampled_from(
    ["e-0", "e-1", "a", "b", "8", "8.1", "12", "data", "packs", "manifest.json", "x", "", "..", "²"]
)
keys_below = st.lists(parts | st.text(max_size=6), max_size=7).map(lambda names: PREFIX + "/".join(names))
keys = keys_below | st.text(max_size=20) | st.sampled_from(["q/other", f"{PREFIX}e-0/{'9' * 900}/8/manifest.json"])
elements = st.one_of(
    keys.map(lambda key: f"<Contents><Key>{escape(key)}</Key><Size>1</Size></Contents>"),
    keys.map(lambda key: f"<Upload><Key>{escape(key)}</Key><UploadId>1</UploadId></Upload>"),
    st.sampled_from(
        [
            "<Contents/>",
            "<Contents><Key/></Contents>",
            "<Contents><Size>many</Size></Contents>",
            "<Contents><Key>p/uid/x</Key><LastModified>never</LastModified></Contents>",
            "<Upload/>",
            "<Upload><Key>p/uid/x</Key></Upload>",
            "<IsTruncated>true</IsTruncated>",
            "<IsTruncated>perhaps</IsTruncated>",
            "<NextContinuationToken>again</NextContinuationToken>",
            "<NextKeyMarker>again</NextKeyMarker>",
            "<EncodingType>url</EncodingType>",
            "<KeyCount>-1</KeyCount>",
            "<Contents>",
            "&bomb;",
            "\x00",
        ]
    ),
)
DOCTYPE = '<!DOCTYPE l [<!ENTITY a "aaaaaaaaaa"><!ENTITY bomb "&a;&a;&a;&a;&a;&a;&a;&a;">]>'
listings = st.builds(
    lambda head, inner, cut: f"{head}<ListBucketResult>{''.join(inner)}</ListBucketResult>".encode(
        "utf-8", "surrogatepass"
    )[:cut],
    st.sampled_from(["", '<?xml version="1.0"?>', DOCTYPE]),
    st.lists(elements, max_size=6),
    st.sampled_from([None, -1, 40]),
)


@pytest.fixture(scope="module")
def answering() -> Iterator[Callable[[bytes], S3Store]]:
    """A store whose server gives the same answer to everything."""
    with pytest.MonkeyPatch.context() as patches:
        patches.setattr("botocore.retries.standard.ExponentialBackoff.delay_amount", lambda *_: 0.0)
        patches.setenv("AWS_ACCESS_KEY_ID", "AKID")
        patches.setenv("AWS_SECRET_ACCESS_KEY", "secret")
        server = WebServer()
        store = S3Store(S3Address("models", endpoint=server.url))

        def answer(body: bytes) -> S3Store:
            server.answer = lambda _: (200, {"Content-Type": "application/xml"}, body)
            return store

        yield answer
        server.close()


@settings(fuzzed, max_examples=draw(60))  # each is some requests to a server
@given(listings | st.binary(max_size=60))
def test_a_listing_names_objects_below_what_was_asked_for_or_is_refused(
    answering: Callable[[bytes], S3Store], body: bytes
) -> None:
    store = answering(body)
    for look in (store.list, lambda prefix: (upload.key for upload in store.list_uploads(prefix))):
        try:
            found = list(islice(look(PREFIX), 100))
        except StoreError as error:
            assert_one_sentence(error)
            continue
        assert all(key.startswith(PREFIX) for key in found)


class Bucket(MemoryStore):
    """A bucket with any objects, whose manifests are none."""

    def __init__(self, there: list[str]) -> None:
        super().__init__()
        self.objects = dict.fromkeys(there, b"{}")
        self.before = set(there)

    @property
    def deleted(self) -> set[str]:
        return self.before - self.objects.keys()


@fuzzed
@given(st.lists(keys, max_size=12).map(lambda others: [*others, f"{KEPT}/manifest.json", f"{KEPT}/data/x"]))
def test_only_checkpoints_of_known_trials_that_are_not_kept_are_pruned(there: list[str]) -> None:
    bucket = Bucket(there)
    prune_checkpoints(bucket, PREFIX, {"e-0": frozenset([KEPT])})
    for key in bucket.deleted:
        assert key.startswith(f"{PREFIX}e-0/")
        assert not key.startswith(f"{KEPT}/")


@fuzzed
@given(st.lists(keys, max_size=12).map(lambda others: [*others, f"{KEPT}/manifest.json", f"{KEPT}/data/x"]))
def test_an_agent_deletes_nothing_but_what_its_trial_does_not_keep(there: list[str]) -> None:
    bucket = Bucket(there)
    collector = GarbageCollector(bucket, TrialAddress(S3Address("models", prefix="p"), "uid", "e-0"), "a")
    collector.collect([f"s3://models/{KEPT}"], [])
    for key in bucket.deleted:
        assert key.startswith(f"{PREFIX}e-0/")
        assert not key.startswith(f"{KEPT}/")


@fuzzed
@given(st.lists(keys, max_size=12))
def test_all_below_a_prefix_is_deleted_and_nothing_else(there: list[str]) -> None:
    bucket = Bucket(there)
    purge(bucket, PREFIX)
    assert bucket.objects.keys() == {key for key in there if not key.startswith(PREFIX)}
