"""Deleting all that is in the bucket of an experiment."""

from collections.abc import Iterable

import pytest

from podtune.storage.cleanup.prune import purge
from podtune.storage.errors import RequestRejected
from tests.unit.storage.memory_store import MemoryStore


def test_nothing_of_the_experiment_is_left_and_all_of_others() -> None:
    store = MemoryStore()
    mine = [f"demo/uid/e-0/a/{step}/{what}" for step in range(600) for what in ("data/weights", "manifest.json")]
    others = ["demo/uid-2/e-0/a/1/manifest.json", "demo/exports/e/best/manifest.json"]
    store.objects = dict.fromkeys([*mine, "demo/uid/e-0/a/results.jsonl", *others], b"x")
    store.start_upload("demo/uid/e-0/a/9/data/weights", 5 << 20)
    assert purge(store, "demo/uid/") == len(mine) + 1
    assert sorted(store.objects) == sorted(others)
    assert list(store.list_uploads("")) == []
    assert purge(store, "demo/uid/") == 0


def test_manifests_go_first() -> None:
    store = MemoryStore()
    store.objects = dict.fromkeys(["p/t/a/1/data/manifest.json", "p/t/a/1/manifest.json"], b"x")
    purge(store, "p/")
    assert store.operations[0] == "delete p/t/a/1/manifest.json"


def test_who_goes_on_storing_is_named() -> None:
    class Growing(MemoryStore):
        def delete(self, keys: Iterable[str]) -> None:
            super().delete(keys)
            self.objects["p/more"] = b""

    with pytest.raises(RequestRejected, match="new objects keep appearing below p/"):
        purge(Growing(), "p/")
