"""The source of a function, from a mounted ConfigMap to the store."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from podtune.agent.checkpoints import store_retry
from podtune.storage.errors import Unreachable
from podtune.storage.snapshots.function_store import read_function, store_function
from tests.unit.agent.running_agent import STORE, StartAgent
from tests.unit.agent.stub_operator import wait_until
from tests.unit.storage.memory_store import MemoryStore

PREFIX = "demo/experiment-1/"
FILES = {"function.py": "def train(config): ...\n", "mine/__init__.py": "", "mine/ä.py": "ä = 1\n"}


@pytest.fixture
def directory(tmp_path: Path) -> Path:
    """What the kubelet makes of a ConfigMap: links to a folder that it may replace."""
    mounted = tmp_path / "train-1"
    for path, text in FILES.items():
        file = mounted / "..2026_11_26" / path
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(text, encoding="utf-8")
    (mounted / "..data").symlink_to("..2026_11_26")
    for name in ("function.py", "mine"):
        (mounted / name).symlink_to(f"..data/{name}")
    return mounted


@pytest.fixture
def store(monkeypatch: pytest.MonkeyPatch) -> MemoryStore:
    monkeypatch.setattr(store_retry, "FIRST_WAIT", 0.02)
    return MemoryStore()


def configure(directory: Path, **sync: object) -> dict[str, str]:
    settings = json.dumps({"segmentPeriod": 0.05, **sync})
    return STORE | {"PODTUNE_SYNC": settings, "PODTUNE_FUNCTION": str(directory), "PODTUNE_DRAIN_SECONDS": "60"}


def test_it_is_stored_while_the_program_runs(start_agent: StartAgent, store: MemoryStore, directory: Path) -> None:
    agent = start_agent(configure(directory), make_store=lambda _: store)
    wait_until(lambda: read_function(store, PREFIX, "train-1") == FILES)
    agent.end()
    assert read_function(store, PREFIX, "train-1") == FILES


def test_a_short_program_is_in_time(start_agent: StartAgent, store: MemoryStore, directory: Path) -> None:
    start_agent(configure(directory, segmentPeriod=3600), make_store=lambda _: store).end()
    assert read_function(store, PREFIX, "train-1") == FILES


def test_what_another_agent_has_stored_is_left(start_agent: StartAgent, store: MemoryStore, directory: Path) -> None:
    store_function(store, PREFIX, "train-1", {"function.py": "the same, by another agent"})
    before = list(store.operations)
    start_agent(configure(directory), make_store=lambda _: store).end()
    assert read_function(store, PREFIX, "train-1") == {"function.py": "the same, by another agent"}
    assert [done for done in store.operations[len(before) :] if done.startswith("put")] == []


def test_a_store_that_comes_back_has_it(start_agent: StartAgent, store: MemoryStore, directory: Path) -> None:
    store.failure = Unreachable("bucket 'models' does not answer")
    agent = start_agent(configure(directory), make_store=lambda _: store)
    wait_until(lambda: '"stream": "function"' in agent.log.getvalue())
    store.failure = None
    wait_until(lambda: read_function(store, PREFIX, "train-1") == FILES)
    agent.end()


def test_without_snapshots_it_is_not_stored(start_agent: StartAgent, store: MemoryStore, directory: Path) -> None:
    start_agent(configure(directory, snapshotPeriod=0), make_store=lambda _: store).end()
    assert store.operations == []


@pytest.mark.parametrize("damage", ["gone", "no text"])
def test_where_it_can_not_be_read_that_is_said_and_the_program_goes_on(
    start_agent: StartAgent, store: MemoryStore, directory: Path, damage: str
) -> None:
    if damage == "gone":
        directory = directory.with_name("train-2")
    else:
        (directory / "function.py").write_bytes(b"\xff")
    agent = start_agent(configure(directory), make_store=lambda _: store)
    wait_until(lambda: "so no snapshot holds it" in agent.log.getvalue())
    agent.end()
    assert f"ConfigMap {directory.name} can't be read as text" in agent.log.getvalue()
    assert store.objects == {}
