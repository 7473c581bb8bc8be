"""What is in the bucket of a program's output while it runs, and once it has ended."""

import http.client
import json
import threading
from collections.abc import Iterator, Mapping
from types import MappingProxyType

import pytest

from podtune.agent.delivery.operator_client import OperatorClient
from podtune.agent.logs import log_recorder
from podtune.agent.results import log_stream
from podtune.protocol.messages import FinalCommit
from podtune.storage.segments.reader import StoredLine, read_logs
from tests.unit.agent.printed_log import Log, stamped
from tests.unit.agent.running_agent import STORE, RunningAgent, StartAgent
from tests.unit.agent.stub_operator import StubOperator, wait_until
from tests.unit.storage.memory_store import MemoryStore

PREFIX = "demo/experiment-1/"


@pytest.fixture
def store() -> MemoryStore:
    return MemoryStore()


@pytest.fixture
def log(operator: StubOperator) -> Iterator[Log]:
    log = Log(operator)
    yield log
    log.end()


@pytest.fixture(autouse=True)
def patience(monkeypatch: pytest.MonkeyPatch) -> None:
    """The end of a log is waited for on the slowest machine, too."""
    monkeypatch.setattr("podtune.agent.segments.segment_uploader.LOG_END_SECONDS", 60.0)


@pytest.fixture
def start(start_agent: StartAgent, store: MemoryStore, log: Log) -> StartAgent:
    """Starts an agent that stores its program's output more often than others do."""

    def start(sync: Mapping[str, object] = MappingProxyType({}), **environ: str) -> RunningAgent:
        settings = {"PODTUNE_SYNC": json.dumps({"segmentPeriod": 0.05, "logs": 1 << 20, **sync})}
        return start_agent(STORE | settings | environ, make_store=lambda _: store)

    return start


def read(store: MemoryStore) -> list[StoredLine]:
    return list(read_logs(store, PREFIX, "digits-7"))


def texts(store: MemoryStore) -> list[str]:
    return [line.text for line in read(store)]


def end(agent: RunningAgent, log: Log) -> FinalCommit:
    log.end()
    return agent.end()


def test_output_is_in_the_bucket_while_the_program_runs(start: StartAgent, store: MemoryStore, log: Log) -> None:
    agent = start(PODTUNE_ATTEMPT="3")
    log.print("epoch 1")
    wait_until(lambda: texts(store) == ["epoch 1"])
    log.print("epoch 2")
    wait_until(lambda: texts(store) == ["epoch 1", "epoch 2"])
    end(agent, log)
    assert {(line.attempt, line.number, line.rank) for line in read(store)} == {("pod-1", 3, 0)}
    assert len(store.objects) == 1


def test_what_is_printed_last_is_stored(start: StartAgent, store: MemoryStore, log: Log) -> None:
    agent = start({"segmentPeriod": 3600})
    wait_until(lambda: log.requests)
    log.print("epoch 1")
    log.print("done")
    end(agent, log)
    assert texts(store) == ["epoch 1", "done"]


def test_the_rest_is_asked_for_at_once_and_does_not_count_as_results(
    start: StartAgent, store: MemoryStore, log: Log
) -> None:
    """The stream of before has not ended: the operator passes it on in pauses."""
    agent = start({"segmentPeriod": 3600})
    log.print("epoch 1")
    wait_until(lambda: log.requests)
    commit = agent.end()
    assert texts(store) == ["epoch 1"]
    assert log.queries[-1]["follow"] == "false"
    assert (commit.complete, commit.seq) == (True, 0)
    assert "failed" not in agent.log.getvalue()


def test_a_log_that_the_operator_has_not_begun_to_give_is_asked_for_anew_at_the_end(
    start: StartAgent, store: MemoryStore, operator: StubOperator, log: Log, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("podtune.agent.delivery.operator_client._TIMEOUT", 60.0)
    asked, is_over = threading.Event(), threading.Event()

    def hold_back(query: Mapping[str, str]) -> None:
        if query.get("follow") != "false":
            asked.set()
            is_over.wait(60)

    operator.before_log = hold_back
    agent = start({"segmentPeriod": 3600})
    log.print("epoch 1")
    assert asked.wait(60)
    agent.end()
    is_over.set()
    assert texts(store) == ["epoch 1"]


def test_a_log_that_is_just_being_asked_for_at_the_end_is_asked_for_anew(
    start: StartAgent, store: MemoryStore, operator: StubOperator, log: Log, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The end comes between the thread's look whether it has come, and its stream."""
    connecting, interrupted = threading.Event(), threading.Event()
    connect, interrupt = http.client.HTTPConnection.connect, OperatorClient.interrupt_log

    def connect_late(connection: http.client.HTTPConnection) -> None:
        if threading.current_thread().name == "log-stream" and not connecting.is_set():
            connecting.set()
            assert interrupted.wait(60)
        connect(connection)

    def interrupt_and_tell(client: OperatorClient) -> None:
        interrupt(client)
        interrupted.set()

    monkeypatch.setattr(http.client.HTTPConnection, "connect", connect_late)
    monkeypatch.setattr(OperatorClient, "interrupt_log", interrupt_and_tell)
    agent = start({"segmentPeriod": 3600})
    log.print("epoch 1")
    assert connecting.wait(60)
    agent.end()
    assert texts(store) == ["epoch 1"]
    assert [query.get("follow") for query in log.queries] == ["false"]


def test_an_operator_that_is_away_does_not_hold_up_the_end_for_long(
    start: StartAgent, store: MemoryStore, operator: StubOperator, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("podtune.agent.segments.segment_uploader.LOG_END_SECONDS", 0.1)
    agent = start(PODTUNE_DRAIN_SECONDS="1")
    operator.close()
    assert agent.end().complete


def test_nothing_is_read_where_nothing_is_kept(start: StartAgent, store: MemoryStore, log: Log) -> None:
    agent = start({"logs": 0})
    agent.end()
    assert (log.requests, store.operations) == ([], [])


def test_results_may_be_left_out_where_logs_are_kept(start: StartAgent, store: MemoryStore, log: Log) -> None:
    agent = start({"results": 0})
    agent.write(b'{"accuracy": 0.5}\n')
    log.print("epoch 1")
    end(agent, log)
    assert texts(store) == ["epoch 1"]
    assert all("/logs/" in key for key in store.objects)


def test_results_on_standard_output_and_its_log_come_of_one_stream(
    start: StartAgent, store: MemoryStore, operator: StubOperator, log: Log
) -> None:
    agent = start(PODTUNE_STDOUT_PATTERN=r"loss=(?P<loss>\S+)")
    log.print("starting")
    log.print("loss=0.5")
    wait_until(lambda: texts(store) == ["starting", "loss=0.5"])
    assert len(log.requests) == 1
    assert end(agent, log).complete
    assert operator.results[1].metrics["loss"] == 0.5


def test_ranks_above_0_keep_theirs_too(start: StartAgent, store: MemoryStore, log: Log) -> None:
    agent = start(
        PODTUNE_RANK="2", PODTUNE_REPLICAS="3", PODTUNE_STDOUT_PATTERN=r"loss=(?P<loss>\S+)", PODTUNE_ATTEMPT_ID="gang"
    )
    log.print("loss=0.5")
    end(agent, log)
    assert [(line.attempt, line.rank, line.text) for line in read(store)] == [("gang", 2, "loss=0.5")]


def test_an_agent_that_is_started_again_goes_on_after_the_last_line(
    start: StartAgent, store: MemoryStore, log: Log
) -> None:
    first = start()
    log.print("one")
    log.print("two")
    wait_until(lambda: len(texts(store)) == 2)
    first.end()
    again = start()
    log.print("three")
    wait_until(lambda: len(texts(store)) == 3)
    end(again, log)
    assert texts(store) == ["one", "two", "three"]


def test_a_program_that_prints_too_much_has_passages_of_it_kept(
    start: StartAgent, store: MemoryStore, log: Log, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(log_recorder, "BURST", 3 * 40)
    monkeypatch.setattr(log_recorder, "RESUMES_AT", 2 * 40)
    monkeypatch.setattr(log_recorder, "KEPT_BYTES_A_SECOND", 8 * 40)
    monkeypatch.setattr(log_stream, "PAUSE", 0.0)
    monkeypatch.setattr(log_stream, "TAIL", 2)
    log.put(*(stamped(number, f"line {number:3}") for number in range(100)))
    agent = start()
    wait_until(lambda: "line  99" in texts(store))
    end(agent, log)
    found = texts(store)
    assert found[:2] == ["line   0", "line   1"]
    assert any("what was printed since 2026-01-01T00:00:0" in text for text in found)
    assert found[-1] == "line  99"
    assert len(found) < 50
    assert any(query.get("tail") == "2" for query in log.queries)
