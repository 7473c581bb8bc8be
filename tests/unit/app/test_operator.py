"""How the operator begins and ends: who leads, what is written last, and what is told of a failure.

Everything is real but the API server, the clock, and kopf, which `tests/component/cluster` puts to the test.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator, Callable, Coroutine
from contextlib import asynccontextmanager
from dataclasses import replace
from typing import Any

import aiohttp
import pytest

from e2e.chaos.processes.free_ports import free_port
from podtune.app import operator as operator_module
from podtune.app.main import _list_failures
from podtune.app.operator import Operator
from podtune.app.servers import CannotListen
from podtune.app.settings import read_settings
from podtune.cluster.lease import LeaseLost
from podtune.kube.errors import ApiError, NotLeading
from tests.unit.cluster.fake_client import Call, FakeCluster, refusal
from tests.unit.cluster.objects import EXPERIMENTS, experiment_body

OPERATORS = "/api/v1/namespaces/system/pods"
LEASE = "/apis/coordination.k8s.io/v1/namespaces/system/leases/podtune-operator"
LEADER = "podtune.dev/leader"


class Cluster(FakeCluster):
    """A cluster in which operators run; it knows which of the writes are of the leader's client."""

    def __init__(self) -> None:
        super().__init__()
        for name in ("a", "b"):
            self.put(OPERATORS, {"metadata": {"name": name, "labels": {}}, "spec": {}})

    def guard_writes(self, may_write: Callable[[], bool]) -> Guarded:
        return Guarded(self, may_write)

    def leaders(self) -> list[str]:
        pods = self.all("pods")
        return [pod["metadata"]["name"] for pod in pods if LEADER in (pod["metadata"].get("labels") or {})]

    def holder(self) -> str:
        lease = self.get(LEASE)
        return str(lease["spec"]["holderIdentity"]) if lease else ""


class Guarded:
    """As `KubernetesClient.guard_writes`."""

    def __init__(self, cluster: Cluster, may_write: Callable[[], bool]) -> None:
        self._cluster = cluster
        self._may_write = may_write

    async def request(self, method: Any, path: str, **kwargs: Any) -> Any:
        if method != "GET" and not self._may_write():
            raise NotLeading(path)
        return await self._cluster.request(method, path, **kwargs)


class Kopf:
    """In kopf's place: watches until it is cancelled, or does what a test wants."""

    def __init__(self) -> None:
        self.begun = asyncio.Event()
        self.act: Callable[[], Coroutine[Any, Any, None]] = asyncio.Event().wait  # type: ignore[assignment]

    async def watch(self, registry: object, namespaces: object, ready: asyncio.Event, opt_ins: object) -> None:
        ready.set()
        self.begun.set()
        await self.act()


class Process:
    """An operator at work, as its process would run it."""

    def __init__(self, cluster: Cluster, name: str = "a", **settings: str) -> None:
        environment = {
            "PODTUNE_AGENT_IMAGE": "agent:1",
            "PODTUNE_POD_NAME": name,
            "PODTUNE_POD_UID": f"uid-{name}",
            "PODTUNE_POD_NAMESPACE": "system",
            **settings,
        }
        self.settings = replace(read_settings(environment), results_port=free_port(), probe_port=free_port())
        self.stop = asyncio.Event()
        self.listened = 0
        self.passed = 0.0
        """Seconds that have passed by the operator's clock, beside the real ones."""
        rng: Any = type("NoJitter", (), {"random": lambda _: 0.0})()
        self.operator = Operator(self.settings, cluster, cluster, rng, self.read_clock)  # type: ignore[arg-type]

    def read_clock(self) -> float:
        return time.monotonic() + self.passed

    def listen(self) -> None:
        self.listened += 1

    async def run(self) -> None:
        async with asyncio.timeout(120):
            await self.operator.run(self.stop, self.listen)

    @asynccontextmanager
    async def running(self) -> AsyncIterator[asyncio.Task[None]]:
        task = asyncio.create_task(self.run())
        try:
            yield task
        finally:
            self.stop.set()
            await asyncio.gather(task, return_exceptions=True)

    async def get(self, path: str) -> tuple[int, str]:
        url = f"http://127.0.0.1:{self.settings.probe_port}{path}"
        async with aiohttp.ClientSession() as session, session.get(url) as response:
            return response.status, await response.text()

    async def post_results(self) -> int:
        url = f"http://127.0.0.1:{self.settings.results_port}/v1/namespaces/team/trials/digits-0/results"
        async with aiohttp.ClientSession() as session, session.post(url, data=b"{}") as response:
            return response.status


@pytest.fixture
def cluster() -> Cluster:
    return Cluster()


@pytest.fixture
def kopf(monkeypatch: pytest.MonkeyPatch) -> Kopf:
    kopf = Kopf()
    monkeypatch.setattr(operator_module, "run_kopf", kopf.watch)
    return kopf


async def until(cluster: Cluster, holds: Callable[[], bool]) -> None:
    """Waits for a request after which something holds."""
    changed = asyncio.Event()
    before = cluster.before

    def called(call: Call) -> None:
        changed.set()
        before(call)

    cluster.before = called
    async with asyncio.timeout(60):
        while not holds():
            changed.clear()
            await changed.wait()


async def test_the_leader_holds_lease_and_label_and_gives_both_back_at_once(cluster: Cluster, kopf: Kopf) -> None:
    process = Process(cluster)
    async with process.running() as task:
        await until(cluster, lambda: cluster.leaders() == ["a"])
        assert cluster.holder() == "a_uid-a"
        assert await process.post_results() == 401  # it asks who we are
        process.stop.set()
        async with asyncio.timeout(60):
            await task
    assert cluster.leaders() == []
    assert cluster.holder() == ""
    assert cluster.writes()[-1].path == LEASE, "the lease goes last: nothing is written after it"


async def test_the_label_is_taken_off_all_others(cluster: Cluster, kopf: Kopf) -> None:
    cluster.change(f"{OPERATORS}/b", lambda body: body["metadata"].update(labels={LEADER: "true"}))
    process = Process(cluster)
    async with process.running():
        await until(cluster, lambda: cluster.leaders() == ["a"])


async def test_a_standby_is_ready_and_takes_in_nothing_until_it_leads(
    cluster: Cluster, kopf: Kopf, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(operator_module, "LeaseSettings", _fast)
    first, second = Process(cluster, "a"), Process(cluster, "b")
    async with first.running():
        await until(cluster, lambda: cluster.leaders() == ["a"])
        async with second.running():
            await until(cluster, lambda: any(call.path == f"{OPERATORS}/b" for call in cluster.calls))
            assert (await second.get("/readyz"))[0] == 200
            assert await second.get("/healthz") == (200, "ok")
            assert await second.post_results() == 503
            first.stop.set()
            await until(cluster, lambda: cluster.leaders() == ["b"])


async def test_a_standby_that_is_stopped_leaves_everything_as_it_is(cluster: Cluster, kopf: Kopf) -> None:
    first, second = Process(cluster, "a"), Process(cluster, "b")
    async with first.running():
        await until(cluster, lambda: cluster.leaders() == ["a"])
        async with second.running() as task:
            await until(cluster, lambda: any(call.path == f"{OPERATORS}/b" for call in cluster.calls))
            second.stop.set()
            await task
        assert cluster.leaders() == ["a"]
        assert cluster.holder() == "a_uid-a"


async def test_who_loses_the_lease_writes_nothing_more(
    cluster: Cluster, kopf: Kopf, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(operator_module, "LeaseSettings", _fast)
    process = Process(cluster)
    async with process.running() as task:
        await until(cluster, lambda: cluster.leaders() == ["a"])
        cluster.change(LEASE, lambda body: body["spec"].update(holderIdentity="b"))
        before = len(cluster.writes())
        with pytest.raises(ExceptionGroup) as caught:
            await task
    (failure,) = _list_failures(caught.value)
    assert isinstance(failure, LeaseLost)
    written = cluster.writes()[before:]
    assert {call.path for call in written} <= {LEASE}  # the renewal that was refused
    assert cluster.holder() == "b"
    assert await _port_is_free(process)


def _fast(namespace: str, name: str, identity: str) -> Any:
    from podtune.cluster.lease import LeaseSettings

    return LeaseSettings(namespace, name, identity, duration=60.0, renew_every=0.1, give_up_after=30.0, look_every=0.1)


async def _port_is_free(process: Process) -> bool:
    server = await asyncio.start_server(lambda *_: None, "127.0.0.1", process.settings.results_port)
    server.close()
    await server.wait_closed()
    return True


async def test_when_the_watches_fail_the_lease_is_given_back(cluster: Cluster, kopf: Kopf) -> None:
    async def fail() -> None:
        raise RuntimeError("the watches are broken")

    kopf.act = fail
    with pytest.raises(ExceptionGroup) as caught:
        await Process(cluster).run()
    assert [str(failure) for failure in _list_failures(caught.value)] == ["the watches are broken"]
    assert (cluster.leaders(), cluster.holder()) == ([], "")


async def test_a_signal_that_kopf_took_ends_the_operator_too(cluster: Cluster, kopf: Kopf) -> None:
    async def end() -> None:
        return

    kopf.act = end
    await Process(cluster).run()
    assert (cluster.leaders(), cluster.holder()) == ([], "")


async def test_signals_are_asked_for_again_once_kopf_runs(cluster: Cluster, kopf: Kopf) -> None:
    process = Process(cluster)
    async with process.running():
        await kopf.begun.wait()
        await until(cluster, lambda: cluster.leaders() == ["a"])
        assert process.listened == 2


async def test_an_operator_without_definitions_says_what_to_install(cluster: Cluster, kopf: Kopf) -> None:
    cluster.fail("GET", "experiments", refusal(404, "the server could not find the requested resource"))
    with pytest.raises(ExceptionGroup) as caught:
        await Process(cluster).run()
    (failure,) = _list_failures(caught.value)
    assert isinstance(failure, ApiError)
    assert "podtune-crds" in str(failure)
    assert cluster.holder() == ""


async def test_a_port_that_is_taken_is_named(cluster: Cluster, kopf: Kopf) -> None:
    process, other = Process(cluster), Process(cluster)
    process.settings = replace(process.settings, probe_port=other.settings.probe_port)
    async with other.running():
        await until(cluster, lambda: cluster.leaders() == ["a"])
        process.operator = Operator(process.settings, cluster, cluster, None)  # type: ignore[arg-type]
        with pytest.raises(CannotListen, match=f"port {other.settings.probe_port} "):
            await process.run()


async def test_an_operator_that_may_not_touch_its_own_pod_says_so(cluster: Cluster, kopf: Kopf) -> None:
    cluster.fail("PATCH", "pods/a", refusal(403, "pods is forbidden"))
    with pytest.raises(ApiError, match="forbidden"):
        await Process(cluster).run()


async def test_a_leader_whose_label_can_not_be_dropped_gives_the_lease_back_all_the_same(
    cluster: Cluster, kopf: Kopf
) -> None:
    process = Process(cluster)
    async with process.running() as task:
        await until(cluster, lambda: cluster.leaders() == ["a"])
        cluster.fail("PATCH", "pods/a", refusal(500, "etcd"))
        process.stop.set()
        await task
    assert cluster.holder() == ""


async def test_experiments_are_served_and_counted(cluster: Cluster, kopf: Kopf) -> None:
    cluster.put(EXPERIMENTS, experiment_body())
    process = Process(cluster)
    async with process.running():
        await until(cluster, lambda: len(cluster.all("trials")) == 2)
        _, metrics = await process.get("/metrics")
        assert "podtune_leading 1.0" in metrics
        assert 'podtune_trials{experiment="digits",namespace="team",state="pending"}' in metrics
    assert cluster.holder() == ""


async def test_a_namespace_has_no_more_pods_than_the_settings_allow(cluster: Cluster, kopf: Kopf) -> None:
    def says_why() -> bool:
        status = (cluster.get(f"{EXPERIMENTS}/digits") or {}).get("status") or {}
        return "namespace team uses 1 of its 1 allowed pods" in status.get("message", "")

    cluster.put(EXPERIMENTS, experiment_body(maxConcurrentTrials=3))
    async with Process(cluster, PODTUNE_NAMESPACE_PODS="team=1").running():
        await until(cluster, says_why)
    assert len(cluster.all("trials")) == 3
    assert [pod["metadata"]["namespace"] for pod in cluster.all("pods")].count("team") == 1


async def test_a_dead_watch_fails_the_health_probe(
    cluster: Cluster, kopf: Kopf, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("podtune.controllers.watch.watch_health.ECHO_PATIENCE", 0.0)
    cluster.put(EXPERIMENTS, experiment_body())
    process = Process(cluster)
    async with process.running():
        await until(cluster, lambda: bool(cluster.all("trials")))  # and no watch tells of them
        status, text = await process.get("/healthz")
        assert (status, "watch" in text) == (500, True)


async def test_what_is_under_way_when_the_lease_is_lost_is_not_written(
    cluster: Cluster, kopf: Kopf, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(operator_module, "LeaseSettings", _fast)
    process = Process(cluster)
    written_after: list[Call] = []

    def watch(call: Call) -> None:
        if not process.passed and call.path.endswith("/trials") and call.method == "POST":
            process.passed = 60.0  # so long this request takes: longer than the Lease is held without being renewed
        elif process.passed and call.method != "GET" and call.path != LEASE:
            written_after.append(call)

    cluster.put(EXPERIMENTS, experiment_body())
    cluster.before = watch
    cluster.fail("PUT", "leases", refusal(503, "away"), times=1000)
    with pytest.raises(ExceptionGroup) as caught:
        await process.run()
    assert all(isinstance(failure, LeaseLost) for failure in _list_failures(caught.value))
    assert cluster.all("trials"), "the request that was under way was carried out"
    assert written_after == []


@pytest.mark.parametrize(
    "asked",
    [
        pytest.param(("PATCH", "pods/a"), id="for the label's removal"),
        pytest.param(("GET", "experiments"), id="for all that there is"),
        pytest.param(("GET", "/namespaces/system/pods$"), id="for the label"),
    ],
)
async def test_an_api_server_that_is_too_busy_at_the_start_is_waited_for(
    cluster: Cluster, kopf: Kopf, monkeypatch: pytest.MonkeyPatch, asked: tuple[Any, str]
) -> None:
    monkeypatch.setattr("podtune.app.start_retries._FIRST_WAIT", 0.01)
    cluster.fail(*asked, refusal(429, "storage is (re)initializing", retry_after=0.0), times=4)
    cluster.put(EXPERIMENTS, experiment_body())
    async with Process(cluster).running():
        await until(cluster, lambda: cluster.leaders() == ["a"] and len(cluster.all("trials")) == 2)
    assert all(failure.times == 0 for failure in cluster.failures)


@pytest.mark.parametrize(("asked", "leads"), [(("PATCH", "pods/a"), False), (("GET", "experiments"), True)])
async def test_who_waits_for_an_api_server_ends_when_asked_to(
    cluster: Cluster, kopf: Kopf, asked: tuple[Any, str], leads: bool
) -> None:
    refused = asyncio.Event()
    cluster.before = lambda call: refused.set() if call.method == asked[0] and asked[1] in call.path else None
    cluster.fail(*asked, refusal(429, "too many requests", retry_after=100.0))
    process = Process(cluster)
    async with process.running() as task:
        await refused.wait()
        assert cluster.holder() == ("a_uid-a" if leads else "")
        assert (await process.get("/healthz"))[0] == 200, "the kubelet would kill it"
        process.stop.set()
        await asyncio.wait_for(task, 60)
    assert cluster.holder() == ""
