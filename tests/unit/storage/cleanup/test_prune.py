"""What is left in the bucket of an experiment that has ended."""

from collections.abc import Iterator

from podtune.storage.checkpoint.manifest import CheckpointManifest, ManifestFile
from podtune.storage.cleanup.prune import prune_checkpoints
from podtune.storage.errors import RequestRejected
from podtune.storage.object_store import PartialUpload
from tests.unit.storage.memory_store import MemoryStore

PREFIX = "demo/uid/"


def filled() -> MemoryStore:
    store = MemoryStore()
    for trial, attempt, steps in (("e-1", "a", (1, 2, 3)), ("e-10", "b", (1,))):
        for step in steps:
            for what in ("manifest.json", "data/weights", "data/deep/manifest.json"):
                store.objects[f"{PREFIX}{trial}/{attempt}/{step}/{what}"] = b"x"
        store.objects[f"{PREFIX}{trial}/{attempt}/results.jsonl"] = b"x"
    store.objects[f"{PREFIX}e-1/killed/4.17/data/weights"] = b"half"
    store.objects["demo/other-uid/e-1/a/1/manifest.json"] = b"of another experiment"
    return store


def test_only_what_is_kept_stays_and_what_is_no_checkpoint() -> None:
    store = filled()
    kept = {"e-1": frozenset({f"{PREFIX}e-1/a/3"}), "e-10": frozenset({f"{PREFIX}e-10/b/1"})}
    found = prune_checkpoints(store, PREFIX, kept)
    assert (found.checkpoints, found.objects) == (2, 7)
    assert sorted(store.objects) == [
        "demo/other-uid/e-1/a/1/manifest.json",
        "demo/uid/e-1/a/3/data/deep/manifest.json",
        "demo/uid/e-1/a/3/data/weights",
        "demo/uid/e-1/a/3/manifest.json",
        "demo/uid/e-1/a/results.jsonl",
        "demo/uid/e-10/b/1/data/deep/manifest.json",
        "demo/uid/e-10/b/1/data/weights",
        "demo/uid/e-10/b/1/manifest.json",
        "demo/uid/e-10/b/results.jsonl",
    ]


def test_what_a_kept_one_refers_to_stays() -> None:
    store = filled()
    files = (ManifestFile("w", 1, "0" * 64, object="a/1/data/weights"),)
    store.objects[f"{PREFIX}e-1/a/3/manifest.json"] = CheckpointManifest("a", 3, 3, "", "", files).to_bytes()
    store.objects[f"{PREFIX}e-1/a/2/packs/0"] = b"x"
    prune_checkpoints(store, PREFIX, {"e-1": frozenset({f"{PREFIX}e-1/a/3"})})
    left = {key.removeprefix(f"{PREFIX}e-1/") for key in store.objects if key.startswith(f"{PREFIX}e-1/")}
    assert {key for key in left if not key.startswith("a/3/")} == {"a/1/data/weights", "a/results.jsonl"}


def test_manifests_go_first() -> None:
    store = filled()
    prune_checkpoints(store, PREFIX, {"e-1": frozenset()})
    deletions = [operation.removeprefix("delete ") for operation in store.operations]
    data = [i for i, key in enumerate(deletions) if "/data/" in key]
    manifests = [i for i, key in enumerate(deletions) if key.endswith("/manifest.json") and "/data/" not in key]
    assert min(manifests) < min(data)
    assert manifests[2] < min(data), "each checkpoint loses its manifest before any loses data"


def test_a_trial_that_nobody_knows_of_is_left_alone() -> None:
    store = filled()
    before = dict(store.objects)
    prune_checkpoints(store, PREFIX, {})
    assert store.objects == before


def test_unfinished_uploads_are_aborted_those_of_others_are_not() -> None:
    store = filled()
    store.start_upload(f"{PREFIX}e-1/a/9/data/weights", 5 << 20)
    others = store.start_upload("demo/other-uid/e-1/a/9/data/weights", 5 << 20)
    assert prune_checkpoints(store, PREFIX, {}).uploads == 1
    assert list(store.list_uploads("")) == [others]


def test_a_store_without_a_list_of_uploads_will_do() -> None:
    class Plain(MemoryStore):
        def list_uploads(self, prefix: str) -> Iterator[PartialUpload]:
            raise RequestRejected("not implemented")

    assert prune_checkpoints(Plain(), PREFIX, {}).uploads is None


def test_it_may_be_repeated() -> None:
    store = filled()
    kept = {"e-1": frozenset({f"{PREFIX}e-1/a/3"})}
    prune_checkpoints(store, PREFIX, kept)
    assert prune_checkpoints(store, PREFIX, kept).objects == 0
