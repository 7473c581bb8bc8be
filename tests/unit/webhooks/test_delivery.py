"""Events on their way to a real receiver on loopback."""

from __future__ import annotations

import asyncio
import base64
import hashlib
import hmac
import itertools
import json
import time
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest
from prometheus_client import REGISTRY

from podtune.api.names import TrialState
from podtune.cluster.client import ClusterClient
from podtune.cluster.record_store import RecordStore
from podtune.runner.backoff import Backoff
from podtune.webhooks import delivery as delivery_module
from podtune.webhooks import kept_events as kept_events_module
from podtune.webhooks import notices as notices_module
from podtune.webhooks import outbox as outbox_module
from podtune.webhooks.delivery import Delivery
from podtune.webhooks.notices import Notices, WebhookReason
from podtune.webhooks.receivers import Receiver
from podtune.webhooks.sender import WebhookSender, parse_retry_after
from tests.unit.cluster.fake_client import FakeCluster, refusal
from tests.unit.webhooks.stub_receiver import StubReceiver
from tests.unit.webhooks.subjects import WrittenTrial

CONFIG_MAP = "/api/v1/namespaces/system/configmaps/podtune-operator-webhook-tracker"


@pytest.fixture(autouse=True)
def fast(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(delivery_module, "BACKOFF", Backoff(0.01, 0.05))
    monkeypatch.setattr(delivery_module, "GATHER_SECONDS", 0.01)
    monkeypatch.setattr(delivery_module, "SAVE_SECONDS", 0.05)


@pytest.fixture
def stub() -> StubReceiver:
    return StubReceiver()


@pytest.fixture
def cluster() -> FakeCluster:
    return FakeCluster()


def make_delivery(stub: StubReceiver, cluster: ClusterClient, **fields: Any) -> Delivery:
    receiver = Receiver(name="tracker", url=fields.pop("url", stub.url), **fields)
    store = RecordStore(cluster, "system", "podtune-operator-webhook-tracker")
    notices = Notices(cluster, store, "tracker", time.time)
    return Delivery(receiver, WebhookSender(receiver, time.time), store, notices, time.monotonic)


@asynccontextmanager
async def delivering(
    stub: StubReceiver, cluster: ClusterClient, *there: WrittenTrial, **fields: Any
) -> AsyncIterator[Delivery]:
    """A delivery that has begun with what is there, in an operator that is killed at the end."""
    delivery = make_delivery(stub, cluster, **fields)
    await delivery.load()
    for trial in there:
        tell(delivery, trial)
    await delivery.begin()
    task = asyncio.create_task(delivery.run())
    try:
        yield delivery
    finally:
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)
        await delivery._sender.close()


def tell(delivery: Delivery, trial: WrittenTrial) -> None:
    delivery.observe(trial.subject, told_elsewhere=False)


def ended(index: int = 0, uid: str = "t-0") -> WrittenTrial:
    return WrittenTrial(index, uid).turn(TrialState.RUNNING).report(1, 0.5).turn(TrialState.TERMINATED)


async def until(holds: Callable[[], bool]) -> None:
    """Waits for what nobody tells of."""
    async with asyncio.timeout(20):
        while not holds():  # noqa: ASYNC110 - it is no request that a stub hears of
            await asyncio.sleep(0.02)


def read_metric(name: str, **labels: str) -> float:
    return REGISTRY.get_sample_value(name, {"receiver": "tracker", **labels}) or 0.0


async def test_each_event_is_a_request_with_its_id_as_the_key(stub: StubReceiver, cluster: FakeCluster) -> None:
    async with stub.up(), delivering(stub, cluster) as delivery:
        tell(delivery, ended())
        await stub.wait_until(lambda: len(stub.events) == 3)
    headers, body = stub.requests[0]
    assert headers["Content-Type"] == "application/cloudevents+json; charset=utf-8"
    assert headers["webhook-id"] == json.loads(body)["id"] == "t-0-transition-1"
    assert "webhook-signature" not in headers
    assert "Authorization" not in headers
    assert [event["type"].rpartition(".")[2] for event in stub.events] == ["running", "result", "terminated"]


async def test_batches_are_arrays(stub: StubReceiver, cluster: FakeCluster) -> None:
    async with stub.up(), delivering(stub, cluster, batch_size=100) as delivery:
        for index in range(3):
            tell(delivery, ended(index, f"t-{index}"))
        await stub.wait_until(lambda: len(stub.events) == 9)
    assert len(stub.requests) == 1
    headers, body = stub.requests[0]
    assert headers["Content-Type"] == "application/cloudevents-batch+json; charset=utf-8"
    assert len(json.loads(body)) == 9


async def test_a_receiver_that_is_away_loses_nothing_though_the_operator_is_killed(
    stub: StubReceiver, cluster: FakeCluster
) -> None:
    trial = WrittenTrial().turn(TrialState.RUNNING)
    async with stub.up(), delivering(stub, cluster) as delivery:
        tell(delivery, trial)
        await stub.wait_until(lambda: len(stub.events) == 1)
    async with delivering(stub, cluster, trial) as delivery:  # the receiver is down
        for attempt in (2, 3):
            tell(delivery, trial.turn(TrialState.PAUSED).turn(TrialState.RUNNING, attempt).report(attempt, 0.5))
        tell(delivery, trial.store(3).turn(TrialState.TERMINATED, 3))
        await asyncio.sleep(0.1)
    async with delivering(stub, cluster, trial), stub.up():
        await stub.wait_until(lambda: "t-0-transition-6" in stub.ids)
    kinds = [(event["type"].rpartition(".")[2], event["data"].get("number")) for event in stub.events]
    assert [kind for kind in kinds if kind not in kinds[:1]][-8:] == [
        ("paused", 2),
        ("running", 3),
        ("paused", 4),
        ("running", 5),
        ("result", 1),
        ("result", 2),
        ("checkpoint", None),
        ("terminated", 6),
    ]
    assert len(set(stub.ids)) == 9


async def test_what_was_delivered_and_kept_is_not_told_again(stub: StubReceiver, cluster: FakeCluster) -> None:
    async with stub.up():
        async with delivering(stub, cluster) as delivery:
            tell(delivery, ended())
            await until(lambda: len(stub.events) == 3 and not len(delivery._outbox))
            await delivery.close()
        async with delivering(stub, cluster, ended()) as delivery:
            tell(delivery, ended(1, "t-1"))
            await stub.wait_until(lambda: "t-1-transition-2" in stub.ids)
    assert len(stub.events) == 6
    assert json.loads(cluster.get(CONFIG_MAP)["data"]["e-1"])["ended"] == {"0": "0"}  # type: ignore[index]


async def test_positions_are_written_seldom_and_not_for_each_event(stub: StubReceiver, cluster: FakeCluster) -> None:
    async with stub.up(), delivering(stub, cluster) as delivery:
        for index in range(50):
            tell(delivery, ended(index, f"t-{index}"))
        await stub.wait_until(lambda: len(stub.events) == 150)
        await delivery.close()
    assert len(cluster.writes()) < 50


async def test_a_failed_request_is_made_again_with_the_same_key(stub: StubReceiver, cluster: FakeCluster) -> None:
    stub.answers = [(500, {}), (302, {"Location": "/elsewhere"}), (401, {}), (404, {})]
    async with stub.up(), delivering(stub, cluster) as delivery:
        tell(delivery, WrittenTrial().turn(TrialState.RUNNING))
        await stub.wait_until(lambda: len(stub.events) == 1)
    assert [headers["webhook-id"] for headers, _ in stub.requests] == ["t-0-transition-1"] * 5
    assert len({body for _, body in stub.requests}) == 1


async def test_a_receiver_says_how_long_to_wait(stub: StubReceiver, cluster: FakeCluster) -> None:
    stub.answers = [(429, {"Retry-After": "1"})]
    async with stub.up(), delivering(stub, cluster) as delivery:
        begun = time.monotonic()
        tell(delivery, WrittenTrial().turn(TrialState.RUNNING))
        await stub.wait_until(lambda: len(stub.events) == 1)
    assert time.monotonic() - begun >= 1.0


def test_retry_after_is_a_number_or_a_date_and_has_a_limit() -> None:
    now = 1_767_225_600.0  # 2026-01-01
    assert parse_retry_after("7", now) == 7.0
    assert parse_retry_after("Thu, 01 Jan 2026 00:01:00 GMT", now) == 60.0
    assert parse_retry_after("Wed, 31 Dec 2025 00:00:00 GMT", now) == 0.0
    assert parse_retry_after("999999999", now) == 3600.0
    assert parse_retry_after("soon", now) == parse_retry_after("", now) == 0.0


async def test_a_receiver_that_is_gone_for_good_is_called_no_more(stub: StubReceiver, cluster: FakeCluster) -> None:
    stub.answers = [(410, {})]
    async with stub.up(), delivering(stub, cluster) as delivery:
        tell(delivery, ended())
        await stub.wait_until(lambda: len(stub.requests) == 1)
        tell(delivery, ended(1, "t-1"))
        await asyncio.sleep(0.2)
    assert len(stub.requests) == 1


async def test_the_one_event_of_a_batch_that_is_refused_is_left_out(stub: StubReceiver, cluster: FakeCluster) -> None:
    refused = read_metric("podtune_webhook_events_total", outcome="refused")
    stub.answer_to = lambda events: 400 if any(event["type"].endswith("result") for event in events) else 204
    async with stub.up(), delivering(stub, cluster, batch_size=100) as delivery:
        for index in range(4):
            tell(delivery, ended(index, f"t-{index}"))
        await stub.wait_until(lambda: len(stub.events) == 8)
        await delivery.close()
    assert sorted(stub.ids) == sorted(f"t-{index}-transition-{number}" for index in range(4) for number in (1, 2))
    assert read_metric("podtune_webhook_events_total", outcome="refused") == refused + 4


async def test_after_too_long_without_success_what_was_missed_is_given_up_and_counted(
    stub: StubReceiver, cluster: FakeCluster
) -> None:
    given_up = read_metric("podtune_webhook_events_total", outcome="given_up")
    async with delivering(stub, cluster, retry_seconds=1) as delivery:
        tell(delivery, ended())
        tell(delivery, ended(1, "t-1"))
        await until(lambda: read_metric("podtune_webhook_events_total", outcome="given_up") == given_up + 2)
        async with stub.up():
            tell(delivery, ended(2, "t-2"))
            await stub.wait_until(lambda: "t-2-transition-2" in stub.ids)
    assert {event["subject"] for event in stub.events} == {"digits-2"}
    (event,) = cluster.all("events")
    assert (event["type"], event["reason"], event["regarding"]["kind"]) == ("Warning", "WebhookGivenUp", "ConfigMap")
    assert event["regarding"]["uid"] == cluster.get(CONFIG_MAP)["metadata"]["uid"]  # type: ignore[index]
    assert event["note"].startswith("Receiver tracker: it was away for longer than retrySeconds")


async def test_forty_changes_of_one_trial_while_a_receiver_is_down_are_told(
    stub: StubReceiver, cluster: FakeCluster
) -> None:
    trial = WrittenTrial()
    async with delivering(stub, cluster) as delivery:
        for attempt in range(1, 41):
            tell(delivery, trial.turn(TrialState.RUNNING, attempt).store(attempt))
            tell(delivery, trial.turn(TrialState.PENDING, attempt))
        async with stub.up():
            await stub.wait_until(lambda: len(stub.ids) == 120)
    numbers = [event["data"]["number"] for event in stub.events if "state" in event["data"]]
    assert numbers == list(range(1, 81))
    assert len({event["data"]["uri"] for event in stub.events if "uri" in event["data"]}) == 40
    assert len(stub.ids) == len(set(stub.ids)) == 120
    assert not cluster.all("events")


async def test_what_is_held_while_a_receiver_is_down_outlives_operators(
    stub: StubReceiver, cluster: FakeCluster
) -> None:
    trial = WrittenTrial()
    for first in (1, 21):
        async with delivering(stub, cluster, trial) as delivery:
            for attempt in range(first, first + 20):
                tell(delivery, trial.turn(TrialState.RUNNING, attempt).store(attempt))
                tell(delivery, trial.turn(TrialState.PENDING, attempt))
            await delivery.close()
    assert "held" in cluster.get(CONFIG_MAP)["binaryData"]  # type: ignore[index]
    async with delivering(stub, cluster, trial) as delivery:
        async with stub.up():
            await until(lambda: not len(delivery._outbox))
        await delivery.close()
    numbers = [event["data"]["number"] for event in stub.events if "state" in event["data"]]
    assert numbers == list(range(1, 81))
    assert len({event["data"]["uri"] for event in stub.events if "uri" in event["data"]}) == 40
    assert len(stub.ids) == len(set(stub.ids)) == 120
    assert not cluster.all("events")
    assert "binaryData" not in cluster.get(CONFIG_MAP)  # type: ignore[operator]


async def test_what_is_held_is_kept_now_and_then_in_case_the_operator_is_killed(
    stub: StubReceiver, cluster: FakeCluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(delivery_module, "HELD_SAVE_SECONDS", 0.1)
    trial = WrittenTrial()
    async with delivering(stub, cluster, trial) as delivery:
        for attempt in range(1, 21):
            tell(delivery, trial.turn(TrialState.RUNNING, attempt).turn(TrialState.PENDING, attempt))
        await until(lambda: "binaryData" in (cluster.get(CONFIG_MAP) or {}))
        writes = len(cluster.writes())
        await asyncio.sleep(0.5)
        assert len(cluster.writes()) == writes, "and not again while nothing changes"
    async with stub.up(), delivering(stub, cluster, trial):
        await stub.wait_until(lambda: "t-0-transition-40" in stub.ids)
    assert stub.ids == [f"t-0-transition-{number}" for number in range(1, 41)]


async def test_what_was_too_much_to_be_kept_is_said_by_the_next_operator(
    stub: StubReceiver, cluster: FakeCluster, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    missed = read_metric("podtune_webhook_events_total", outcome="missed")
    monkeypatch.setattr(kept_events_module, "MAX_KEPT_CONTENT", 10_000)
    trial = WrittenTrial()
    async with delivering(stub, cluster, trial) as delivery:
        for attempt in range(1, 41):
            tell(delivery, trial.turn(TrialState.RUNNING, attempt).turn(TrialState.PENDING, attempt))
        await delivery.close()
    assert not cluster.all("events")
    async with stub.up(), delivering(stub, cluster, trial):
        await stub.wait_until(lambda: "t-0-transition-80" in stub.ids)
        await until(lambda: bool(cluster.all("events")))
    assert 80 - len(stub.ids) == read_metric("podtune_webhook_events_total", outcome="missed") - missed > 0
    assert [event["reason"] for event in cluster.all("events")] == ["WebhookEventsMissed"]


async def test_what_had_to_be_left_out_is_counted_and_said(
    stub: StubReceiver, cluster: FakeCluster, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(outbox_module, "MAX_HELD_BYTES", 10_000)
    missed = read_metric("podtune_webhook_events_total", outcome="missed")
    trial = WrittenTrial()
    async with delivering(stub, cluster) as delivery:
        for attempt in range(1, 41):
            tell(delivery, trial.turn(TrialState.RUNNING, attempt).turn(TrialState.PENDING, attempt))
        await until(lambda: bool(cluster.all("events")))
        async with stub.up():
            await stub.wait_until(lambda: "t-0-transition-80" in stub.ids)
    left_out = read_metric("podtune_webhook_events_total", outcome="missed") - missed
    assert left_out == 80 - len(stub.ids)
    assert [event["reason"] for event in cluster.all("events")] == ["WebhookEventsMissed"]


async def test_an_event_that_comes_again_is_counted_in_the_one_that_is_there(
    cluster: FakeCluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(notices_module, "NOTICE_SECONDS", 0.0)
    seconds = itertools.count(1_767_225_600)
    store = RecordStore(cluster, "system", "positions")
    notices = Notices(cluster, store, "tracker", lambda: float(next(seconds)))
    task = asyncio.create_task(notices.run())
    for wanted in (None, 2, 3):
        notices.add(WebhookReason.GIVEN_UP, "it is away")
        notices.add(WebhookReason.GIVEN_UP, "it is away")
        await until(lambda: [event.get("series", {}).get("count") for event in cluster.all("events")] == [wanted])  # noqa: B023
    task.cancel()
    await asyncio.gather(task, return_exceptions=True)
    (event,) = cluster.all("events")
    assert event["metadata"]["name"] == "positions.webhookgivenup"
    assert event["series"]["lastObservedTime"] > event["eventTime"] == "2026-01-01T00:00:00.000000Z"


async def test_requests_are_signed_and_bear_the_token(stub: StubReceiver, cluster: FakeCluster, tmp_path: Path) -> None:
    key = bytes(range(24))
    (tmp_path / "signingKey").write_text(f"whsec_{base64.b64encode(key).decode()}\n")
    (tmp_path / "token").write_text("opensesame\n")
    async with stub.up(), delivering(stub, cluster, secrets=tmp_path) as delivery:
        tell(delivery, WrittenTrial().turn(TrialState.RUNNING))
        await stub.wait_until(lambda: len(stub.events) == 1)
    headers, body = stub.requests[0]
    signed = f"{headers['webhook-id']}.{headers['webhook-timestamp']}.".encode() + body
    expected = base64.b64encode(hmac.new(key, signed, hashlib.sha256).digest()).decode()
    assert headers["webhook-signature"] == f"v1,{expected}"
    assert headers["Authorization"] == "Bearer opensesame"
    assert abs(int(headers["webhook-timestamp"]) - time.time()) < 60


async def test_a_secret_that_is_mended_is_used_at_once(
    stub: StubReceiver, cluster: FakeCluster, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    (tmp_path / "signingKey").write_text("not base64!")
    async with stub.up(), delivering(stub, cluster, secrets=tmp_path) as delivery:
        tell(delivery, WrittenTrial().turn(TrialState.RUNNING))
        await asyncio.sleep(0.1)
        assert stub.requests == []
        (tmp_path / "signingKey").write_text("whsec_MDEyMzQ1Njc4OTAxMjM0NTY3ODkwMTIz")
        await stub.wait_until(lambda: len(stub.events) == 1)


async def test_a_receiver_that_hangs_holds_up_nobody_else(cluster: FakeCluster) -> None:
    async def hang(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.read()
        writer.close()

    server = await asyncio.start_server(hang, "127.0.0.1", 0)
    slow_url = f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}/"
    good, slow = StubReceiver(), StubReceiver()
    async with good.up(), delivering(slow, cluster, url=slow_url) as hanging, delivering(good, cluster) as answering:
        tell(hanging, ended())
        for index in range(20):
            tell(answering, ended(index, f"t-{index}"))
        await good.wait_until(lambda: len(good.events) == 60, seconds=8.0)
    server.close()


async def test_positions_that_can_not_be_kept_cost_no_delivery(stub: StubReceiver, cluster: FakeCluster) -> None:
    cluster.fail("POST", "configmaps", refusal(403, "forbidden"), times=3)
    async with stub.up(), delivering(stub, cluster) as delivery:
        tell(delivery, ended())
        await stub.wait_until(lambda: len(stub.events) == 3)
        await until(lambda: cluster.get(CONFIG_MAP) is not None)


async def test_positions_that_somebody_else_has_written_are_written_over(
    stub: StubReceiver, cluster: FakeCluster
) -> None:
    async with stub.up(), delivering(stub, cluster) as delivery:
        cluster.change(CONFIG_MAP, lambda body: body.update(data={"e-1": "mine"}))
        tell(delivery, ended())
        await stub.wait_until(lambda: len(stub.events) == 3)
        await delivery.close()
    assert "mine" not in cluster.get(CONFIG_MAP)["data"]["e-1"]  # type: ignore[index]
