"""Replicas of the operator share their authorities in one Secret, and renew what is due."""

from __future__ import annotations

import base64
import time
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from podtune.kube.errors import ApiError
from podtune.results.tls.authorities import LEAF_RENEWAL, TURN, Authorities, make_authority
from podtune.results.tls.authority_secret import AuthoritySecret
from podtune.results.tls.own_identity import LOOK_SECONDS, OwnIdentity
from tests.unit.cluster.fake_client import Call, FakeCluster, refusal
from tests.unit.results.tls.handshake import HOST, do_agents_believe

SECRETS = "/api/v1/namespaces/system/secrets"
SECRET = f"{SECRETS}/podtune-results-tls"


class Clock:
    """Seconds since the epoch, which can be put forward."""

    def __init__(self) -> None:
        self.now = time.time()

    def __call__(self) -> float:
        return self.now

    def put_forward(self, by: timedelta) -> None:
        self.now += by.total_seconds()


@pytest.fixture
def clock() -> Clock:
    return Clock()


@pytest.fixture
def cluster() -> FakeCluster:
    cluster = FakeCluster()
    metadata = {"name": "podtune-results-tls", "labels": {"app.kubernetes.io/managed-by": "Helm"}}
    cluster.put(SECRETS, {"metadata": metadata, "type": "Opaque"})
    return cluster


def make_identity(cluster: FakeCluster, clock: Clock) -> OwnIdentity:
    return OwnIdentity(AuthoritySecret(cluster, "system", "podtune-results-tls"), HOST, clock)


async def load(cluster: FakeCluster) -> Authorities:
    kept = await AuthoritySecret(cluster, "system", "podtune-results-tls").load()
    assert kept is not None
    return kept


async def test_the_empty_secret_of_the_chart_is_filled_and_stays_helms(cluster: FakeCluster, clock: Clock) -> None:
    identity = make_identity(cluster, clock)
    assert await identity.refresh() == LOOK_SECONDS
    kept: Any = cluster.get(SECRET)
    assert set(kept["data"]) == {"ca.crt", "signing.crt", "signing.key", "following.crt", "following.key"}
    assert base64.b64decode(kept["data"]["ca.crt"]).decode() == identity.trusted
    assert kept["metadata"]["labels"] == {"app.kubernetes.io/managed-by": "Helm"}
    assert kept["type"] == "Opaque"
    assert do_agents_believe(identity)


async def test_two_replicas_that_start_together_agree(cluster: FakeCluster, clock: Clock) -> None:
    first, second = make_identity(cluster, clock), make_identity(cluster, clock)
    written: list[Call] = []

    def let_the_other_be_faster(call: Call) -> None:
        if call.method == "PUT" and not written:
            written.append(call)
            cluster.change(SECRET, lambda body: body.update(data=ours))

    await first.refresh()
    ours = (cluster.get(SECRET) or {})["data"]
    cluster.change(SECRET, lambda body: body.pop("data"))
    cluster.before = let_the_other_be_faster
    await second.refresh()
    assert written, "the second has tried to write its own"
    assert second.trusted == first.trusted
    assert do_agents_believe(first, trusted=second.trusted)
    assert do_agents_believe(second, trusted=first.trusted)


async def test_a_secret_that_never_stays_is_given_up(cluster: FakeCluster, clock: Clock) -> None:
    cluster.fail("PUT", "secrets", refusal(409, "it has been modified", "Conflict"), times=99)
    with pytest.raises(ApiError, match=r"Secret podtune-results-tls of namespace system was changed .* find out"):
        await make_identity(cluster, clock).refresh()


async def test_the_certificate_is_renewed_while_its_authority_stays(cluster: FakeCluster, clock: Clock) -> None:
    clock.put_forward(-LEAF_RENEWAL)
    identity = make_identity(cluster, clock)
    await identity.refresh()
    trusted, leaf = identity.trusted, identity._leaf
    clock.put_forward(LEAF_RENEWAL - timedelta(seconds=5))
    assert await identity.refresh() == pytest.approx(5.0)
    assert identity._leaf is leaf
    clock.put_forward(timedelta(seconds=5))
    await identity.refresh()
    assert identity._leaf is not leaf
    assert identity.trusted == trusted
    assert do_agents_believe(identity)


async def test_at_the_end_of_a_turn_pods_made_before_and_after_believe_it(cluster: FakeCluster, clock: Clock) -> None:
    clock.put_forward(-TURN + timedelta(seconds=2))
    leader, standby = make_identity(cluster, clock), make_identity(cluster, clock)
    await leader.refresh()
    await standby.refresh()
    before = leader.trusted
    clock.put_forward(TURN - timedelta(seconds=2))
    await standby.refresh()
    assert await leader.refresh() <= 2.0
    assert leader.trusted == before
    clock.put_forward(timedelta(seconds=2))
    await leader.refresh()
    assert leader.trusted != before
    assert do_agents_believe(leader, trusted=before)
    assert do_agents_believe(leader, trusted=leader.trusted)
    assert do_agents_believe(standby, trusted=before), "it has not looked yet"
    await standby.refresh()
    assert standby.trusted == leader.trusted
    assert do_agents_believe(standby, trusted=leader.trusted)


@pytest.mark.parametrize(
    "damage", [{}, {"signing.crt": "AAAA"}, {"signing.crt": "?"}], ids=["none", "other", "no text"]
)
async def test_what_the_secret_has_lost_is_put_back(cluster: FakeCluster, clock: Clock, damage: Any) -> None:
    identity = make_identity(cluster, clock)
    await identity.refresh()
    before, trusted = await load(cluster), identity.trusted
    cluster.change(SECRET, lambda body: body.update(data=damage))
    await identity.refresh()
    assert await load(cluster) == before
    assert identity.trusted == trusted


async def test_an_operator_that_starts_with_a_damaged_secret_begins_anew(cluster: FakeCluster, clock: Clock) -> None:
    identity = make_identity(cluster, clock)
    await identity.refresh()
    other = make_authority(datetime.now(UTC))
    key = base64.b64encode(other.key.encode()).decode()
    cluster.change(SECRET, lambda body: body["data"].update({"signing.key": key}))
    anew = make_identity(cluster, clock)
    await anew.refresh()
    assert do_agents_believe(anew)
    assert not do_agents_believe(anew, trusted=identity.trusted)


async def test_a_secret_that_is_not_there_is_the_charts_to_bring(clock: Clock) -> None:
    with pytest.raises(ApiError, match=r"no Secret podtune-results-tls of namespace system.*run helm upgrade"):
        await make_identity(FakeCluster(), clock).refresh()


async def test_lacking_rights_are_the_charts_to_bring(cluster: FakeCluster, clock: Clock) -> None:
    words = 'secrets is forbidden: User "podtune" cannot get resource "secrets"'
    cluster.fail("GET", "secrets", refusal(403, words, "Forbidden"))
    with pytest.raises(ApiError, match=r"may not read Secret podtune-results-tls.*run helm upgrade"):
        await make_identity(cluster, clock).refresh()
