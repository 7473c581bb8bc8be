"""Records of a snapshot in the store: the newest counts, whoever comes late."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from podtune.protocol.snapshot import WARM_START, SnapshotRecord
from podtune.storage.snapshots.record_store import (
    RecordName,
    find_experiments,
    format_key,
    has_warm_start,
    list_records,
    parse_key,
    store_record,
    store_records,
)
from tests.unit.storage.memory_store import MemoryStore

PREFIX = "demo/uid/"


def record(version: int, trial: str = "digits-7") -> SnapshotRecord:
    return SnapshotRecord(trial, version, f'{{"version": {version}}}')


def newest(store: MemoryStore, trial: str = "digits-7") -> int:
    return list_records(store, PREFIX)[trial][0].version


def test_a_newer_record_takes_the_place_of_the_older_one() -> None:
    store = MemoryStore()
    store_record(store, PREFIX, record(9))
    store_record(store, PREFIX, record(10))
    assert list_records(store, PREFIX) == {"digits-7": [RecordName("digits-7", 10)]}
    assert store.get_bytes(format_key(PREFIX, RecordName("digits-7", 10)), 100) == b'{"version": 10}'


@given(st.permutations(range(8, 13)))
def test_in_whatever_order_agents_store_the_newest_counts(versions: list[int]) -> None:
    store = MemoryStore()
    for version in versions:
        store_record(store, PREFIX, record(version))
    assert newest(store) == 12


def test_the_experiments_record_is_none_of_its_trials() -> None:
    store = MemoryStore()
    assert store_records(store, PREFIX, [record(3), record(4, ""), record(5, "experiment")]) == 3
    assert {trial: names[0].version for trial, names in list_records(store, PREFIX).items()} == {
        "digits-7": 3,
        "": 4,
        "experiment": 5,
    }


def test_a_warm_start_has_a_place_of_its_own() -> None:
    store = MemoryStore()
    store_records(store, PREFIX, [record(3, "warm-start"), record(4, "")])
    assert not has_warm_start(store, PREFIX)
    store_record(store, PREFIX, record(1, WARM_START))
    assert has_warm_start(store, PREFIX)
    assert list_records(store, PREFIX)[WARM_START] == [RecordName(WARM_START, 1)]


def test_what_is_stored_already_is_not_stored_again() -> None:
    store = MemoryStore()
    store_record(store, PREFIX, record(5))
    assert store_records(store, PREFIX, [record(4), record(5)]) == 0
    assert newest(store) == 5


def test_other_objects_are_no_records() -> None:
    store = MemoryStore()
    for key in ("_snapshot/trials/1.json", "_snapshot/x", "digits-7/a/00000000000000000001.json"):
        store.put_bytes(f"{PREFIX}{key}", b"")
    assert list_records(store, PREFIX) == {}
    assert parse_key(PREFIX, f"demo/other/_snapshot/experiment/{1:020d}.json") is None


def test_experiments_with_a_snapshot_are_found_below_a_prefix() -> None:
    store = MemoryStore()
    for uid in ("a", "b"):
        store_records(store, f"demo/{uid}/", [record(1), record(2, ""), record(3, "digits-8")])
    store.put_bytes("demo/c/digits-0/attempt/results/0/x", b"")
    assert list(find_experiments(store, "demo/")) == ["demo/a/", "demo/b/"]
