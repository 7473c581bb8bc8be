"""The source of a function in the store."""

from __future__ import annotations

import pytest

from podtune.protocol.snapshot import SnapshotRecord
from podtune.storage.snapshots.function_store import DamagedFunction, has_function, read_function, store_function
from podtune.storage.snapshots.record_store import RecordName, find_experiments, list_records, store_record
from tests.unit.storage.memory_store import MemoryStore

PREFIX = "demo/uid/"
FILES = {"function.py": "def train(config):\n    return {'größe': '\x00'}\n", "mine/__init__.py": ""}


def test_what_is_stored_is_read_under_its_own_name_alone() -> None:
    store = MemoryStore()
    store_function(store, PREFIX, "train-1", FILES)
    assert has_function(store, PREFIX, "train-1")
    assert read_function(store, PREFIX, "train-1") == FILES
    assert not has_function(store, PREFIX, "train")
    assert read_function(store, PREFIX, "train") is None


def test_it_is_taken_for_no_record() -> None:
    store = MemoryStore()
    store_function(store, PREFIX, "00000000000000000007", FILES)
    store_record(store, PREFIX, SnapshotRecord("", 5, "{}"))
    assert list_records(store, PREFIX) == {"": [RecordName("", 5)]}
    assert list(find_experiments(store, "demo/")) == [PREFIX]


@pytest.mark.parametrize("damage", [b"", b"[]", b'{"files": 3}', b'{"files": {"a.py": 3}}', b"\xff", b"[" * 100_000])
def test_damage_is_named_with_its_key(damage: bytes) -> None:
    store = MemoryStore()
    store_function(store, PREFIX, "train-1", FILES)
    [key] = store.objects
    store.put_bytes(key, damage)
    with pytest.raises(DamagedFunction, match=f"the function's source {key} is damaged"):
        read_function(store, PREFIX, "train-1")
