"""Records of the snapshot, from the operator's replies to the bucket."""

import json
from collections.abc import Callable, Iterator

import pytest

from podtune.agent.checkpoints import store_retry
from podtune.protocol.snapshot import WARM_START, SnapshotRecord
from podtune.storage.errors import Unreachable
from podtune.storage.snapshots.record_store import RecordName, list_records, store_record
from tests.unit.agent.running_agent import STORE, RunningAgent, StartAgent
from tests.unit.agent.stub_operator import StubOperator, dumps, wait_until
from tests.unit.storage.memory_store import MemoryStore

PREFIX = "demo/experiment-1/"
TRIAL = "digits-7"


@pytest.fixture
def store() -> MemoryStore:
    return MemoryStore()


@pytest.fixture
def agent(start_agent: StartAgent, store: MemoryStore, monkeypatch: pytest.MonkeyPatch) -> Iterator[RunningAgent]:
    """An agent that stores records as soon as there are newer ones."""
    monkeypatch.setattr(store_retry, "FIRST_WAIT", 0.02)
    sync = json.dumps({"segmentPeriod": 0.05, "snapshotPeriod": 0.01, "results": 0})
    started = start_agent(STORE | {"PODTUNE_SYNC": sync, "PODTUNE_DRAIN_SECONDS": "5"}, make_store=lambda _: store)
    yield started
    started.end()


def stored(store: MemoryStore) -> dict[str, list[int]]:
    return {trial: [name.version for name in names] for trial, names in list_records(store, PREFIX).items()}


def test_what_a_reply_brings_is_stored_as_it_is(
    agent: RunningAgent, operator: StubOperator, store: MemoryStore
) -> None:
    operator.records = [SnapshotRecord(TRIAL, 5, '{"a":1}'), SnapshotRecord("", 6, '{"b":2}')]
    agent.write(dumps(accuracy=0.5))
    report_until(agent, lambda: stored(store) == {TRIAL: [5], "": [6]})
    assert sorted(store.objects.values()) == [b'{"a":1}', b'{"b":2}']


def test_only_newer_ones_are_asked_for(agent: RunningAgent, operator: StubOperator, store: MemoryStore) -> None:
    operator.records = [SnapshotRecord(TRIAL, 5, "{}")]
    report_until(agent, lambda: stored(store) == {TRIAL: [5]})
    report_until(agent, lambda: _asks_after(operator, 5))
    operator.records = [SnapshotRecord(TRIAL, 8, "{}")]
    report_until(agent, lambda: stored(store) == {TRIAL: [8]})


def test_a_store_that_comes_back_has_the_newest(
    agent: RunningAgent, operator: StubOperator, store: MemoryStore
) -> None:
    store.failure = Unreachable("bucket 'models' does not answer")
    operator.records = [SnapshotRecord(TRIAL, 5, "{}")]
    report_until(agent, lambda: any(report.stored for report in operator.reports))
    operator.records = [SnapshotRecord(TRIAL, 7, "{}")]
    store.failure = None
    report_until(agent, lambda: stored(store) == {TRIAL: [7]})
    assert list_records(store, PREFIX)[TRIAL] == [RecordName(TRIAL, 7)]


def test_a_warm_start_that_the_store_lacks_is_asked_for(
    agent: RunningAgent, operator: StubOperator, store: MemoryStore
) -> None:
    operator.records = [SnapshotRecord("", 6, "{}", has_warm_start=True), SnapshotRecord(WARM_START, 1, '{"data":{}}')]
    report_until(agent, lambda: stored(store) == {"": [6], WARM_START: [1]})


def test_a_warm_start_that_the_store_has_is_not_asked_for(
    agent: RunningAgent, operator: StubOperator, store: MemoryStore
) -> None:
    store_record(store, PREFIX, SnapshotRecord(WARM_START, 1, "{}"))
    operator.records = [SnapshotRecord("", 6, "{}", has_warm_start=True)]
    report_until(agent, lambda: stored(store) == {"": [6], WARM_START: [1]})
    operator.records = [SnapshotRecord("", 7, "{}", has_warm_start=True)]
    report_until(agent, lambda: stored(store) == {"": [7], WARM_START: [1]})
    assert not any(report.stored.lacks_warm_start for report in operator.reports if report.stored)


def report_until(agent: RunningAgent, condition: Callable[[], object]) -> None:
    """Has the program report until something has come about: each report may ask for records."""

    def is_so() -> bool:
        agent.write(dumps(accuracy=0.5))
        return bool(condition())

    wait_until(is_so)


def _asks_after(operator: StubOperator, version: int) -> bool:
    stored = operator.reports[-1].stored
    return stored is not None and stored.trial == version
