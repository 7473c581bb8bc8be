"""Spans on their way to a collector: each at least once, the same from each operator, and in nobody's way."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from prometheus_client import REGISTRY
from structlog.testing import capture_logs

from podtune.runner.backoff import Backoff
from podtune.runner.timestamps import parse_rfc3339
from podtune.tracing import exporter as exporter_module
from podtune.tracing.collector import Collector
from podtune.tracing.tracing import Tracing
from tests.unit.cluster.fake_client import FakeCluster, refusal
from tests.unit.tracing.stub_collector import StubCollector
from tests.unit.tracing.traced import TRACE_ID, at, attempt_end, end_experiment, end_trial, make_experiment, make_trial
from tests.unit.tracing.traced import move_here as moved

CONFIG_MAP = "/api/v1/namespaces/system/configmaps/podtune-operator-traces"


class Clock:
    """The time, which the tests set."""

    def __init__(self) -> None:
        self.second = 0

    def __call__(self) -> float:
        moment = parse_rfc3339(at(self.second))
        assert moment is not None
        return moment


@pytest.fixture(autouse=True)
def without_waits(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(exporter_module, "COLLECT_SECONDS", 0.0)
    monkeypatch.setattr(exporter_module, "EXPORT_BACKOFF", Backoff(0.01, 0.02))


@pytest.fixture
def stub() -> StubCollector:
    return StubCollector()


@pytest.fixture
def cluster() -> FakeCluster:
    return FakeCluster()


@pytest.fixture
def clock() -> Clock:
    return Clock()


@asynccontextmanager
async def tracing(
    stub: StubCollector, cluster: FakeCluster, clock: Clock, secrets: Path | None = None, *, is_killed: bool = False
) -> AsyncIterator[Tracing]:
    """Traces of an operator that leads while the context lasts; then it ends well, or is killed."""
    collector = Collector(endpoint=stub.endpoint, secrets=secrets, attributes={"k8s.cluster.name": "lab"})
    made = Tracing(collector, cluster, namespace="system", name="podtune-operator-traces", now=clock)
    await made.load()
    task = asyncio.create_task(made.run())
    try:
        yield made
    finally:
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)
        if is_killed:
            await made._exporter._sender.close()
        else:
            await made.close(1.0)


def show(made: Tracing) -> None:
    """It sees an experiment that has ended, with its trial."""
    made.observe_experiment(end_experiment())
    made.observe_trial(end_experiment(), end_trial())


def is_all_handed_over() -> bool:
    return REGISTRY.get_sample_value("podtune_trace_spans_pending") == 0


def count(outcome: str) -> float:
    return REGISTRY.get_sample_value("podtune_trace_spans_total", {"outcome": outcome}) or 0.0


async def test_what_ends_is_exported_once_however_often_it_is_seen(
    stub: StubCollector, cluster: FakeCluster, clock: Clock
) -> None:
    async with stub.up(), tracing(stub, cluster, clock) as made:
        made.observe_experiment(make_experiment(state="Running"))
        made.observe_trial(make_experiment(), make_trial(state="RUNNING"))
        for _ in range(3):
            made.observe_trial(make_experiment(), end_trial())
            made.observe_experiment(end_experiment())
        await until(is_all_handed_over)
    assert sorted(stub.names) == ["attempt", "experiment", "start", "trial"]
    assert {span.trace_id.hex() for span in stub.spans} == {TRACE_ID}
    assert stub.requests[0][0] == "/v1/traces"
    assert stub.requests[0][1]["Content-Type"] == "application/x-protobuf"
    assert stub.resources[0].items() >= {"service.name": "podtune", "k8s.cluster.name": "lab"}.items()


async def test_each_attempt_of_a_trial_is_exported(stub: StubCollector, cluster: FakeCluster, clock: Clock) -> None:
    async with stub.up(), tracing(stub, cluster, clock) as made:
        for number in (1, 2, 3):
            end = attempt_end(number, created=3 * number, started=3 * number + 1, ended=3 * number + 2)
            made.observe_trial(make_experiment(), make_trial(state="PENDING", lastAttempt=end))
        await stub.wait_until(lambda: stub.names.count("attempt") == 3)
    assert len({span.span_id for span in stub.spans}) == 6


async def test_what_an_operator_could_not_hand_over_the_next_one_does_under_the_same_ids(
    stub: StubCollector, cluster: FakeCluster, clock: Clock
) -> None:
    async with tracing(stub, cluster, clock, is_killed=True) as made:
        show(made)
    clock.second = 3000
    async with stub.up(), tracing(stub, cluster, clock, is_killed=True) as made:
        show(made)
        await until(is_all_handed_over)
        first = [span.SerializeToString() for span in stub.spans]
    async with stub.up(), tracing(stub, cluster, clock) as made:
        show(made)  # the one before was killed: it could not say that it had handed them over
        await until(is_all_handed_over)
    assert sorted(span.SerializeToString() for span in stub.spans[4:]) == sorted(first)


async def test_what_was_handed_over_long_ago_is_not_sent_again(
    stub: StubCollector, cluster: FakeCluster, clock: Clock
) -> None:
    async with stub.up():
        async with tracing(stub, cluster, clock) as made:
            show(made)
            await until(is_all_handed_over)
            clock.second = 3000
        async with tracing(stub, cluster, clock) as made:
            show(made)
            end = attempt_end(2, created=3000, started=3001, ended=3002)
            made.observe_trial(make_experiment(), make_trial(uid="t-2", state="PENDING", lastAttempt=end))
            await until(is_all_handed_over)
    assert stub.names[4:] == ["attempt", "start"]


async def test_a_new_installation_of_traces_exports_no_history(
    stub: StubCollector, cluster: FakeCluster, clock: Clock
) -> None:
    clock.second = 500
    async with stub.up(), tracing(stub, cluster, clock) as made:
        show(made)
    assert stub.spans == []
    assert cluster.get(CONFIG_MAP) is not None, "from now on, nothing is left out"


async def test_a_collector_that_is_away_gets_all_once_it_is_back(
    stub: StubCollector, cluster: FakeCluster, clock: Clock
) -> None:
    with capture_logs() as logs:
        async with tracing(stub, cluster, clock) as made:
            show(made)
            await until(lambda: any(entry["event"] == "traces not exported" for entry in logs))
            async with stub.up():
                await until(is_all_handed_over)
    assert len(stub.spans) == 4
    assert len([entry for entry in logs if entry["event"] == "traces not exported"]) == 1, "said once"


async def test_a_busy_collector_is_asked_again_and_one_that_refuses_is_not(
    stub: StubCollector, cluster: FakeCluster, clock: Clock
) -> None:
    refused = count("refused")
    stub.answers += [(503, {"Retry-After": "0"}), (429, {}), (400, {})]
    async with stub.up(), tracing(stub, cluster, clock) as made:
        made.observe_experiment(end_experiment())
        await until(lambda: count("refused") == refused + 1)
        made.observe_trial(end_experiment(), end_trial())
        await until(is_all_handed_over)
    assert len(stub.requests) == 4
    assert "experiment" not in stub.names


async def test_spans_that_a_collector_rejects_are_counted(
    stub: StubCollector, cluster: FakeCluster, clock: Clock
) -> None:
    refused, exported, stub.rejected = count("refused"), count("exported"), 1
    async with stub.up(), tracing(stub, cluster, clock) as made:
        made.observe_trial(make_experiment(), end_trial())
        await until(lambda: count("refused") > refused)
    assert (count("refused") - refused, count("exported") - exported) == (1, 2)


async def test_a_queue_that_is_full_drops_the_oldest_and_says_so(
    stub: StubCollector, cluster: FakeCluster, clock: Clock, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(exporter_module, "MAX_WAITING_SPANS", 2)
    monkeypatch.setattr(exporter_module, "MARK_SECONDS", 0.01)
    dropped = count("dropped")
    with capture_logs() as logs:
        async with tracing(stub, cluster, clock) as made:
            for number in range(5):
                made.observe_trial(make_experiment(), end_trial(uid=f"t-{number}"))
            await until(lambda: any(entry["event"].startswith("spans dropped") for entry in logs))
    assert count("dropped") - dropped == 13


async def test_headers_and_authorities_come_from_the_secret(
    stub: StubCollector, cluster: FakeCluster, clock: Clock, tmp_path: Path
) -> None:
    (tmp_path / "headers").write_text("api-key=word,content-type=text/plain\n")
    async with stub.up(), tracing(stub, cluster, clock, tmp_path) as made:
        show(made)
        await stub.wait_until(lambda: bool(stub.spans))
    headers = stub.requests[0][1]
    assert headers["api-key"] == "word"
    assert headers["Content-Type"] == "application/x-protobuf"


async def test_a_secret_that_cannot_be_read_is_named_and_tried_again(
    stub: StubCollector, cluster: FakeCluster, clock: Clock, tmp_path: Path
) -> None:
    (tmp_path / "headers").write_text("word")
    with capture_logs() as logs:
        async with stub.up(), tracing(stub, cluster, clock, tmp_path) as made:
            show(made)
            await until(lambda: any("tracing.secret" in str(entry.get("message")) for entry in logs))
            (tmp_path / "headers").write_text("api-key=word")
            await until(is_all_handed_over)


async def test_an_operator_that_ends_hands_over_what_waits_but_does_not_wait_for_a_dead_collector(
    stub: StubCollector, cluster: FakeCluster, clock: Clock, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(exporter_module, "COLLECT_SECONDS", 60.0)
    async with stub.up(), tracing(stub, cluster, clock) as made:
        show(made)
    assert len(stub.spans) == 4
    async with asyncio.timeout(10.0), tracing(stub, cluster, clock) as made:
        made.observe_trial(make_experiment(), end_trial(uid="t-2"))


async def test_what_is_deleted_before_its_end_ends_then(
    stub: StubCollector, cluster: FakeCluster, clock: Clock
) -> None:
    async with stub.up(), tracing(stub, cluster, clock) as made:
        made.observe_experiment(make_experiment())
        made.observe_trial(make_experiment(), make_trial())
        made.observe_trial(make_experiment(), end_trial(uid="t-2"))
        clock.second = 60
        made.forget_trial(make_experiment(), make_trial())
        made.forget_trial(make_experiment(), end_trial(uid="t-2"))
        made.forget_experiment(make_experiment())
        await until(is_all_handed_over)
    assert sorted(stub.names) == ["attempt", "experiment", "start", "trial", "trial"]
    assert stub.spans[-1].end_time_unix_nano == int(clock() * 1e9)


async def test_what_is_moved_here_was_traced_elsewhere(stub: StubCollector, cluster: FakeCluster, clock: Clock) -> None:
    async with stub.up(), tracing(stub, cluster, clock) as made:
        made.observe_experiment(moved(end_experiment()))
        made.observe_trial(moved(end_experiment()), end_trial())
        made.observe_trial(make_experiment(), end_trial())
    assert stub.spans == []


async def test_progress_that_cannot_be_kept_is_kept_later(
    stub: StubCollector, cluster: FakeCluster, clock: Clock, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(exporter_module, "MARK_SECONDS", 0.01)
    refusals = [refusal(403, "no"), refusal(403, "no")]

    def refuse(call: Any) -> None:
        if call.method == "POST" and refusals:
            raise refusals.pop()

    cluster.before = refuse
    async with stub.up(), tracing(stub, cluster, clock):
        await until(lambda: cluster.get(CONFIG_MAP) is not None)


async def test_an_older_experiment_without_a_time_of_creation_is_passed_over(
    stub: StubCollector, cluster: FakeCluster, clock: Clock
) -> None:
    async with stub.up(), tracing(stub, cluster, clock) as made:
        made.observe_experiment(replace(end_experiment(), created=""))
    assert stub.spans == []


async def until(holds: Any) -> None:
    """Waits until something holds that no request tells of."""
    async with asyncio.timeout(20):
        while not holds():  # noqa: ASYNC110 - what holds tells nobody
            await asyncio.sleep(0.005)
