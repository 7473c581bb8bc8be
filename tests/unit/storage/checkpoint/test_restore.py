"""Which checkpoints of a trial are found in the bucket where no record of them is left."""

import json

import pytest

from podtune.storage.address import S3Address
from podtune.storage.checkpoint.address import TrialAddress
from podtune.storage.checkpoint.manifest import CheckpointManifest
from podtune.storage.checkpoint.restore import MAX_LOOKED_AT, find_checkpoints
from podtune.storage.errors import AccessDenied
from tests.unit.storage.memory_store import MemoryStore

TRIAL = TrialAddress(S3Address("models", "demo"), "uid", "e-1")
OURS, OTHERS = "a" * 64, "b" * 64


@pytest.fixture
def store() -> MemoryStore:
    return MemoryStore()


def put(
    store: MemoryStore,
    step: int,
    attempt: str = "pod-1",
    *,
    configuration: str = OURS,
    trial: TrialAddress = TRIAL,
    day: int = 1,
) -> str:
    manifest = CheckpointManifest(
        attempt, step, step, "0.5", f"2026-01-{day:02}T00:00:00+00:00", (), 0.0, configuration
    )
    address = trial.checkpoint(attempt, str(step))
    store.put_bytes(address.manifest, manifest.to_bytes())
    return address.uri


def found(store: MemoryStore, configuration: str = OURS) -> list[str]:
    return [candidate.uri for candidate in find_checkpoints(store, TRIAL, configuration)]


def test_the_one_that_has_come_furthest_comes_first_and_of_equals_the_newest(store: MemoryStore) -> None:
    early, old = put(store, 4, "pod-2", day=9), put(store, 12, "pod-1", day=1)
    again, middle = put(store, 12, "pod-2", day=2), put(store, 8, "pod-1")
    assert found(store) == [again, old, middle, early]


def test_its_digest_is_that_of_the_stored_manifest(store: MemoryStore) -> None:
    put(store, 4)
    candidate = find_checkpoints(store, TRIAL, OURS)[0]
    assert (candidate.step, candidate.digest[:7], len(candidate.digest)) == (4, "sha256:", 71)


def test_those_of_another_configuration_are_refused(store: MemoryStore) -> None:
    ours = put(store, 4)
    put(store, 8, configuration=OTHERS)
    assert found(store) == [ours]
    assert found(store, "c" * 64) == []


def test_those_that_do_not_say_their_configuration_are_refused(store: MemoryStore) -> None:
    """As those of earlier releases."""
    put(store, 4, configuration="")
    assert found(store) == []
    assert found(store, "") == []


@pytest.mark.parametrize(
    "other",
    [
        TrialAddress(S3Address("models", "demo"), "another-uid", "e-1"),
        TrialAddress(S3Address("models", "demo"), "uid", "e-10"),
        TrialAddress(S3Address("models"), "uid", "e-1"),
    ],
    ids=["an earlier experiment of the name", "another trial", "another prefix"],
)
def test_those_of_others_are_not_looked_at(store: MemoryStore, other: TrialAddress) -> None:
    put(store, 4, trial=other)
    assert found(store) == []


def test_what_is_no_checkpoint_is_passed_over(store: MemoryStore) -> None:
    whole = put(store, 4)
    root = "demo/uid/e-1/pod-1"
    store.put_bytes(f"{root}/8/data/manifest.json", store.objects[f"{root}/4/manifest.json"])
    store.put_bytes(f"{root}/9/parts/1.json", store.objects[f"{root}/4/manifest.json"])
    store.put_bytes(f"{root}/10/manifest.json", b"{}")
    newer = json.loads(store.objects[f"{root}/4/manifest.json"]) | {"version": 99}
    store.put_bytes(f"{root}/11/manifest.json", json.dumps(newer).encode())
    assert found(store) == [whole]


def test_so_many_manifests_are_read_and_no_more(store: MemoryStore) -> None:
    for step in range(MAX_LOOKED_AT + 20):
        put(store, step)
    assert len(found(store)) == MAX_LOOKED_AT
    assert found(store)[0].endswith(f"/{MAX_LOOKED_AT + 19}")


def test_a_store_that_does_not_let_us_look_is_no_empty_one(store: MemoryStore) -> None:
    store.failure = AccessDenied("no")
    with pytest.raises(AccessDenied):
        found(store)
