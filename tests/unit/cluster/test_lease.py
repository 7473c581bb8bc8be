"""One leader at a time: two candidates, a server that fails, and clocks that stand still."""

from __future__ import annotations

import asyncio
import random
import re
from collections.abc import Callable

import pytest

from podtune.cluster.lease import Lease, LeaseLost, LeaseSettings
from tests.unit.cluster.fake_client import FakeCluster, no_answer, refusal
from tests.unit.cluster.virtual_time import in_virtual_time, now, settle

LEASES = "/apis/coordination.k8s.io/v1/namespaces/system/leases"
LEASE = f"{LEASES}/podtune"


def candidate(cluster: FakeCluster, identity: str = "a", clock: Callable[[], float] = now) -> Lease:
    return Lease(cluster, LeaseSettings("system", "podtune", identity), clock, random.Random(identity))


def holder(cluster: FakeCluster) -> str:
    lease = cluster.get(LEASE)
    assert lease is not None
    return str(lease["spec"]["holderIdentity"])


async def held(cluster: FakeCluster, identity: str = "a", clock: Callable[[], float] = now) -> Lease:
    lease = candidate(cluster, identity, clock)
    await lease.acquire()
    return lease


@in_virtual_time
async def test_the_first_takes_it_at_once_and_the_second_waits() -> None:
    cluster = FakeCluster()
    await candidate(cluster, "a").acquire()
    assert now() == 1000
    second = asyncio.create_task(candidate(cluster, "b").acquire())
    await asyncio.sleep(14)
    assert not second.done()
    await second
    assert holder(cluster) == "b"
    assert now() < 1000 + 15 + 2 * 3
    assert cluster.get(LEASE)["spec"]["leaseTransitions"] == 1  # type: ignore[index]


@in_virtual_time
async def test_who_renews_keeps_it() -> None:
    cluster = FakeCluster()
    first = await held(cluster)
    holding = asyncio.create_task(first.hold())
    second = asyncio.create_task(candidate(cluster, "b").acquire())
    await asyncio.sleep(600)
    assert (holding.done(), second.done()) == (False, False)
    assert first.is_held
    holding.cancel()
    second.cancel()


@in_virtual_time
async def test_times_are_written_with_microseconds_as_the_api_server_wants_them() -> None:
    cluster = FakeCluster()
    await held(cluster)
    spec = cluster.get(LEASE)["spec"]  # type: ignore[index]
    for field in ("acquireTime", "renewTime"):
        assert re.fullmatch(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{6}Z", spec[field])
    assert spec["leaseDurationSeconds"] == 15


@pytest.mark.parametrize("spec", [None, {}, {"holderIdentity": ""}, {"holderIdentity": None, "leaseTransitions": None}])
def test_an_ownerless_lease_is_free(spec: dict[str, object] | None) -> None:
    async def test() -> None:
        cluster = FakeCluster()
        cluster.put(LEASES, {"metadata": {"name": "podtune"}, **({} if spec is None else {"spec": spec})})
        await candidate(cluster).acquire()
        assert now() == 1000
        assert holder(cluster) == "a"

    in_virtual_time(test)()


@in_virtual_time
async def test_a_process_that_follows_itself_need_not_wait() -> None:
    cluster = FakeCluster()
    await candidate(cluster, "pod_uid").acquire()
    await candidate(cluster, "pod_uid").acquire()
    assert now() == 1000


@in_virtual_time
async def test_who_releases_it_after_a_renewal_whose_answer_was_lost_gives_it_back_all_the_same() -> None:
    cluster = FakeCluster()
    first = await held(cluster)
    await held(cluster)  # the renewal: another version of the Lease, with the same holder
    await first.release()
    assert holder(cluster) == ""


@in_virtual_time
async def test_who_releases_it_too_late_leaves_it_to_the_next_one() -> None:
    cluster = FakeCluster()
    first = await held(cluster)
    await asyncio.sleep(1)
    await held(cluster, "b", lambda: now() + 20)
    await first.release()
    assert holder(cluster) == "b"


@in_virtual_time
async def test_who_releases_it_lets_the_next_one_in_without_delay() -> None:
    cluster = FakeCluster()
    first = await held(cluster)
    await first.release()
    assert not first.is_held
    assert holder(cluster) == ""
    await candidate(cluster, "b").acquire()
    assert now() == 1000


@pytest.mark.parametrize("standby", ["b", "c", "d"])
def test_a_standby_follows_a_leader_that_ends_in_good_order_within_2_seconds(standby: str) -> None:
    async def test() -> None:
        cluster = FakeCluster()
        first = await held(cluster)
        holding = asyncio.create_task(first.hold())
        waiting = asyncio.create_task(candidate(cluster, standby).acquire())
        await asyncio.sleep(60)
        holding.cancel()
        await first.release()
        released = now()
        await waiting
        assert now() - released < 2

    in_virtual_time(test)()


@in_virtual_time
async def test_the_holder_stops_before_anyone_else_can_begin_when_the_server_is_away() -> None:
    cluster = FakeCluster()
    first = await held(cluster)
    cluster.fail("PUT", "leases", no_answer(), times=1000)
    with pytest.raises(LeaseLost, match="not renewed for 10 s"):
        await first.hold()
    assert now() < 1000 + 15
    assert not first.is_held


@pytest.mark.parametrize(
    "happens",
    [
        pytest.param(lambda of: of.fail("PUT", "leases", refusal(503, "shutting down"), times=2), id="a short outage"),
        # What the holder knows is stale then.
        pytest.param(lambda of: of.fail("PUT", "leases", no_answer(), carried_out=True), id="a lost answer"),
        pytest.param(
            lambda of: of.change(LEASE, lambda body: body["metadata"].update(annotations={"looked": "at"})),
            id="a note on the lease",
        ),
    ],
)
@in_virtual_time
async def test_the_holder_keeps_it_over(happens: Callable[[FakeCluster], object]) -> None:
    cluster = FakeCluster()
    lease = await held(cluster)
    happens(cluster)
    holding = asyncio.create_task(lease.hold())
    await asyncio.sleep(60)
    assert lease.is_held
    holding.cancel()


@in_virtual_time
async def test_a_server_that_does_not_answer_is_not_waited_for_beyond_the_limit() -> None:
    class Silent(FakeCluster):
        async def request(self, method, path, **kwargs):  # type: ignore[no-untyped-def]
            if method == "PUT":
                await asyncio.sleep(3600)
            return await super().request(method, path, **kwargs)

    lease = await held(Silent())
    with pytest.raises(LeaseLost):
        await lease.hold()
    assert now() == 1010


@in_virtual_time
async def test_somebody_else_in_the_lease_ends_it_at_the_next_renewal() -> None:
    cluster = FakeCluster()
    lease = await held(cluster)
    cluster.change(LEASE, lambda body: body["spec"].update(holderIdentity="b"))
    with pytest.raises(LeaseLost, match="'b'"):
        await lease.hold()
    assert not lease.is_held
    assert holder(cluster) == "b"


@in_virtual_time
async def test_a_lease_that_was_deleted_is_lost() -> None:
    cluster = FakeCluster()
    lease = await held(cluster)
    cluster.remove(LEASE)
    with pytest.raises(LeaseLost):
        await lease.hold()


@in_virtual_time
async def test_a_leader_that_was_frozen_knows_it_before_anything_else_runs() -> None:
    cluster = FakeCluster()
    frozen = 0.0
    lease = await held(cluster, clock=lambda: now() + frozen)
    holding = asyncio.create_task(lease.hold())
    await asyncio.sleep(1)
    frozen = 60.0  # the process was stopped for a minute
    assert not lease.is_held
    with pytest.raises(LeaseLost):
        await holding


@in_virtual_time
async def test_the_time_that_taking_it_takes_counts() -> None:
    class Slow(FakeCluster):
        async def request(self, method, path, **kwargs):  # type: ignore[no-untyped-def]
            answer = await super().request(method, path, **kwargs)
            if method == "POST":
                await asyncio.sleep(8)  # the server has it, the answer takes its time
            return answer

    cluster = Slow()
    lease = await held(cluster)
    cluster.fail("PUT", "leases", no_answer(), times=1000)
    assert lease.is_held
    with pytest.raises(LeaseLost):
        await lease.hold()
    assert now() <= 1000 + 15


@in_virtual_time
async def test_of_two_that_find_it_free_at_once_one_gets_it() -> None:
    cluster = FakeCluster()
    first, second = (asyncio.create_task(candidate(cluster, identity).acquire()) for identity in "ab")
    await settle()
    assert [first.done(), second.done()].count(True) == 1
    first.cancel()
    second.cancel()


@in_virtual_time
async def test_an_api_server_that_is_away_is_waited_for() -> None:
    cluster = FakeCluster()
    cluster.fail("GET", "leases", no_answer(), times=5)
    await candidate(cluster).acquire()
    assert now() >= 1000 + 5 * 1.0
    assert holder(cluster) == "a"


@pytest.mark.parametrize("killed_after", [0.1, 1.5, 2.9])
@pytest.mark.parametrize("standby", ["b", "c", "d", "e"])
def test_a_standby_follows_a_killed_leader_within_17_seconds(killed_after: float, standby: str) -> None:
    async def test() -> None:
        cluster = FakeCluster()
        holding = asyncio.create_task((await held(cluster)).hold())
        waiting = asyncio.create_task(candidate(cluster, standby).acquire())
        await asyncio.sleep(60 + killed_after)  # between two renewals
        holding.cancel()
        killed = now()
        await waiting
        assert now() - killed < 15 + 2 + 0.1, "the last renewal is seen within 2 s, and the end of the Lease awaited"

    in_virtual_time(test)()


@in_virtual_time
async def test_who_is_told_to_come_back_later_does_not_ask_sooner() -> None:
    cluster = FakeCluster()
    asked: list[float] = []
    cluster.before = lambda _: asked.append(now())
    cluster.fail("GET", "leases", refusal(429, "too many requests", retry_after=12.0))
    cluster.fail("GET", "leases", refusal(429, "too many requests", retry_after=600.0))
    await candidate(cluster).acquire()
    first, second, third, _ = asked
    assert second - first >= 12
    assert third - second == 15, "no longer than a Lease lasts: nobody leads meanwhile"
