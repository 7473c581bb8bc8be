"""Decisions that no agent has stored."""

import json

from podtune.storage.cleanup.orphan_ledger import store_orphan_decisions
from tests.unit.storage.memory_store import MemoryStore

KEY = "demo/uid/e-0/ledger.jsonl"


def entry(number: int) -> str:
    return json.dumps({"number": number, "action": "STOP"})


def lines(store: MemoryStore) -> list[int]:
    return [json.loads(line)["number"] for line in store.objects[KEY].splitlines()]


def test_they_are_stored_once_and_in_their_order() -> None:
    store = MemoryStore()
    assert store_orphan_decisions(store, KEY, [entry(3), entry(4)]) == 2
    assert store_orphan_decisions(store, KEY, [entry(3), entry(4)]) == 0
    assert lines(store) == [3, 4]


def test_what_the_status_has_forgotten_stays() -> None:
    store = MemoryStore()
    store_orphan_decisions(store, KEY, [entry(1), entry(2)])
    assert store_orphan_decisions(store, KEY, [entry(2), entry(3)]) == 1
    assert lines(store) == [1, 2, 3]


def test_where_there_are_none_nothing_is_written() -> None:
    store = MemoryStore()
    assert store_orphan_decisions(store, KEY, []) == 0
    assert store.objects == {}


def test_a_damaged_file_is_added_to() -> None:
    store = MemoryStore()
    store.objects[KEY] = b"half a li"
    assert store_orphan_decisions(store, KEY, [entry(1)]) == 1
    assert store.objects[KEY].startswith(b"half a li\n{")
