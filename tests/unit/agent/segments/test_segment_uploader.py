"""What is in the bucket of an attempt's results while it runs, and once it has ended."""

import json
import threading
from collections.abc import Iterator, Mapping
from pathlib import Path
from types import MappingProxyType

import pytest

from podtune.agent.checkpoints import store_retry
from podtune.agent.event_log import LogThrottle
from podtune.protocol.messages import Result
from podtune.storage.content import Content
from podtune.storage.errors import AccessDenied, Unreachable
from podtune.storage.segments.reader import read_results
from tests.unit.agent.running_agent import STORE, RunningAgent, StartAgent, take_checkpoint
from tests.unit.agent.stub_operator import FENCED, StubOperator, dumps, wait_until
from tests.unit.storage.memory_store import MemoryStore

PREFIX = "demo/experiment-1/"


@pytest.fixture
def store() -> MemoryStore:
    return MemoryStore()


@pytest.fixture
def start(start_agent: StartAgent, store: MemoryStore, monkeypatch: pytest.MonkeyPatch) -> Iterator[StartAgent]:
    """Starts an agent that stores results more often than others do."""
    monkeypatch.setattr(store_retry, "FIRST_WAIT", 0.02)
    agents: list[RunningAgent] = []

    def start(sync: Mapping[str, object] = MappingProxyType({}), **environ: str) -> RunningAgent:
        settings = {"PODTUNE_SYNC": json.dumps({"segmentPeriod": 0.05, **sync}), "PODTUNE_DRAIN_SECONDS": "60"}
        agents.append(start_agent(STORE | settings | environ, make_store=lambda _: store))
        return agents[-1]

    yield start
    for agent in agents:
        agent.end()


def read(store: MemoryStore) -> list[Result]:
    return [stored.result for stored in read_results(store, PREFIX)]


def wait_for_results(store: MemoryStore, count: int) -> None:
    wait_until(lambda: len(read(store)) == count)


def is_of_checkpoint(key: str) -> bool:
    return "/data/" in key


def list_keys(store: MemoryStore) -> list[str]:
    return [key for key in store.objects if "/results/" in key]


def test_results_are_in_the_bucket_while_the_program_runs(
    start: StartAgent, store: MemoryStore, operator: StubOperator
) -> None:
    agent = start()
    agent.write(dumps(accuracy=0.5))
    wait_for_results(store, 1)
    agent.write(dumps(accuracy=0.75))
    wait_for_results(store, 2)
    operator.wait_for(lambda: operator.acked_seq == 2)
    assert read(store) == [operator.results[1], operator.results[2]]
    (key,) = list_keys(store)
    assert key.startswith(f"{PREFIX}digits-7/pod-1/results/0/0000000001-")


def test_a_segment_says_whose_it_is(start: StartAgent, store: MemoryStore) -> None:
    agent = start(PODTUNE_ATTEMPT="3")
    agent.write(dumps(accuracy=0.5))
    agent.end()
    (stored,) = read_results(store, PREFIX)
    assert (stored.trial, stored.attempt, stored.number, stored.rank) == ("digits-7", "pod-1", 3, 0)


def test_what_is_left_at_the_end_is_stored_then(start: StartAgent, store: MemoryStore) -> None:
    agent = start({"segmentPeriod": 3600})
    agent.write(dumps(accuracy=0.5) + dumps(accuracy=0.75))
    agent.end()
    assert [result.metrics["accuracy"] for result in read(store)] == [0.5, 0.75]
    assert len([done for done in store.operations if "/results/" in done]) == 1


def test_nothing_is_asked_of_the_bucket_where_nothing_is_reported(start: StartAgent, store: MemoryStore) -> None:
    start().end()
    assert store.operations == []


def test_none_are_stored_where_none_are_to_be_kept(start: StartAgent, store: MemoryStore) -> None:
    agent = start({"results": 0})
    agent.write(dumps(accuracy=0.5))
    agent.end()
    assert store.operations == []


def test_a_checkpoint_on_its_way_holds_up_no_results(
    start: StartAgent, store: MemoryStore, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    is_storing, may_go_on = threading.Event(), threading.Event()
    put_content = store.put_content

    def put_slowly(key: str, content: Content) -> None:
        if is_of_checkpoint(key):
            is_storing.set()
            assert may_go_on.wait(120)
        put_content(key, content)

    monkeypatch.setattr(store, "put_content", put_slowly)
    agent = start()
    take_checkpoint(agent, {"weights": b"w"}, tmp_path, accuracy=0.5)
    assert is_storing.wait(60)
    agent.write(dumps(accuracy=0.75))
    wait_for_results(store, 2)
    may_go_on.set()


def test_a_store_that_comes_back_has_them_all(start: StartAgent, store: MemoryStore) -> None:
    agent = start()
    store.failure = Unreachable("bucket 'models' does not answer")
    agent.write(dumps(accuracy=0.5))
    wait_until(lambda: '"stream": "results"' in agent.log.getvalue())
    agent.write(dumps(accuracy=0.75))
    store.failure = None
    wait_for_results(store, 2)


@pytest.mark.parametrize(("failure", "times"), [(Unreachable("no answer"), 4), (AccessDenied("may not"), 4)])
def test_a_store_that_fails_at_the_end_is_tried_some_times(
    start: StartAgent, store: MemoryStore, monkeypatch: pytest.MonkeyPatch, failure: Exception, times: int
) -> None:
    failures: list[str] = []
    put_bytes = store.put_bytes

    def put_after_some_tries(key: str, data: bytes) -> None:
        if len(failures) < times:
            failures.append(key)
            raise failure
        put_bytes(key, data)

    monkeypatch.setattr(store, "put_bytes", put_after_some_tries)
    monkeypatch.setattr("podtune.agent.checkpoints.store_retry.FIRST_WAIT", 0.01)
    agent = start({"segmentPeriod": 3600})
    agent.write(dumps(accuracy=0.5))
    agent.end()
    assert len(read(store)) == 1


@pytest.mark.parametrize("failure", [Unreachable("no answer"), AccessDenied("may not")])
def test_a_store_that_can_not_be_used_does_not_hold_up_the_end_and_is_no_trouble_of_checkpoints(
    start: StartAgent, store: MemoryStore, operator: StubOperator, monkeypatch: pytest.MonkeyPatch, failure: Exception
) -> None:
    def refuse(key: str, data: bytes) -> None:
        raise failure

    monkeypatch.setattr(store, "put_bytes", refuse)
    agent = start()
    agent.write(dumps(accuracy=0.5))
    operator.wait_for(lambda: operator.acked_seq == 1)
    assert agent.end().store_problem is None


def test_results_that_were_refused_are_stored_once_the_store_has_taken_the_last_checkpoint(
    start: StartAgent, store: MemoryStore, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """A volume that is read-only for some seconds: checkpoints are waited for, and results alone are not."""
    put_bytes, put_content = store.put_bytes, store.put_content

    def refuse(key: str, data: bytes) -> None:
        raise AccessDenied("mounted read-only")

    def put_when_writable(key: str, content: Content) -> None:
        if is_of_checkpoint(key):
            wait_until(lambda: agent.log.getvalue().count('"stream": "results"') == 2)
            monkeypatch.setattr(store, "put_bytes", put_bytes)
        put_content(key, content)

    monkeypatch.setattr(store, "put_bytes", refuse)
    monkeypatch.setattr(store, "put_content", put_when_writable)
    monkeypatch.setattr(LogThrottle, "should_log", lambda _: True)
    monkeypatch.setattr("podtune.agent.segments.segment_uploader.TRIES_AT_END", 2)
    agent = start({"segmentPeriod": 3600})
    take_checkpoint(agent, {"weights": b"w"}, tmp_path, accuracy=0.5)
    agent.end()
    assert len(read(store)) == 1


def test_an_agent_that_is_started_again_goes_on_with_the_same_segment(
    start: StartAgent, store: MemoryStore, operator: StubOperator
) -> None:
    first = start()
    first.write(dumps(accuracy=0.5))
    wait_for_results(store, 1)
    before = read(store)
    first.end()
    again = start()
    again.write(dumps(accuracy=0.75))
    wait_for_results(store, 2)
    assert read(store)[:1] == before
    assert len(list_keys(store)) == 1


def test_a_fenced_attempt_stores_nothing_more(start: StartAgent, store: MemoryStore, operator: StubOperator) -> None:
    agent = start({"segmentPeriod": 3600})
    operator.wait_for(lambda: operator.reports)
    operator.faults = [FENCED]
    agent.write(dumps(accuracy=0))
    wait_until(lambda: "fenced" in agent.log.getvalue())
    agent.end()
    assert store.objects == {}


def test_results_that_an_operator_that_is_away_leaves_in_the_file_are_stored_at_the_end(
    start: StartAgent, store: MemoryStore, operator: StubOperator, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("podtune.agent.state.outbox.Outbox.is_full", property(lambda outbox: len(outbox._held) >= 2))
    monkeypatch.setattr("podtune.agent.sidecar.drain.REST_SECONDS", 0.1)
    operator.close()
    agent = start(PODTUNE_DRAIN_SECONDS="1")
    agent.write(b"".join(dumps(accuracy=n) for n in range(5)))
    agent.end()
    assert len(read(store)) == 5
