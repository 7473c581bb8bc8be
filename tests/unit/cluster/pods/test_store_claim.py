"""The claim of a volume that checkpoints are stored on."""

from __future__ import annotations

from typing import Any

import pytest

from podtune.cluster.events import Reporter
from podtune.cluster.executor import Executor
from podtune.cluster.pods.manifest import AgentSettings
from podtune.cluster.pods.store_claim import FRESH, StoreClaims
from podtune.protocol.storage_job import StoragePurpose
from podtune.runner.actions import DONE, ActionResult, ActionStatus, ClusterAction, CreateStoragePod
from tests.unit.cluster.fake_client import FakeCluster
from tests.unit.cluster.objects import NAMESPACE, experiment_record
from tests.unit.cluster.pods.test_scratch import CREATE

AGENT = AgentSettings("agent:1", "Always", "http://r")
CLAIMS = f"/api/v1/namespaces/{NAMESPACE}/persistentvolumeclaims"
EXPERIMENT = experiment_record(checkpoints={"store": {"volume": {"claimName": "checkpoints"}}})
PRUNE = CreateStoragePod(StoragePurpose.PRUNE, 1, ())
REQUIRED = "requiredDuringSchedulingIgnoredDuringExecution"


def claim(*modes: str, phase: str = "Bound", **metadata: str) -> dict[str, Any]:
    return {
        "metadata": {"name": "checkpoints", **metadata},
        "spec": {"accessModes": list(modes)},
        "status": {"phase": phase, "accessModes": list(modes)} if phase != "Pending" else {"phase": phase},
    }


@pytest.fixture
def cluster() -> FakeCluster:
    return FakeCluster()


async def execute(cluster: FakeCluster, action: ClusterAction) -> ActionResult:
    observer: Any = type("Nobody", (), {"__getattr__": lambda *_: lambda *_: None})()
    reporter = Reporter("operator-1", lambda: "2024-05-01T12:00:00.000000Z", lambda *_: "")
    return await Executor(cluster, observer, AGENT, reporter).execute(EXPERIMENT, action)


@pytest.mark.parametrize(
    ("found", "said"),
    [
        (None, "PersistentVolumeClaim checkpoints, the checkpoint store, does not exist; create it"),
        (claim("ReadWriteMany", deletionTimestamp="2024-05-01T12:00:00Z"), "is being deleted; create it anew"),
        (claim("ReadWriteMany", phase="Lost"), "has lost its volume"),
        (claim("ReadOnlyMany"), "is ReadOnlyMany; use one that can be written"),
    ],
)
async def test_a_claim_that_can_not_be_used_is_told_and_no_pod_is_made(
    cluster: FakeCluster, found: dict[str, Any] | None, said: str
) -> None:
    if found is not None:
        cluster.put(CLAIMS, found)
    for action, status in ((CREATE, ActionStatus.FAILED), (PRUNE, ActionStatus.REFUSED)):
        result = await execute(cluster, action)
        assert result.status is status
        assert said in result.message
    assert cluster.all("pods") == []


async def test_pods_wait_for_no_volume_that_is_made_when_the_first_of_them_is(cluster: FakeCluster) -> None:
    cluster.put(CLAIMS, claim("ReadWriteMany", phase="Pending"))
    assert await execute(cluster, CREATE) == DONE


@pytest.mark.parametrize("modes", [("ReadWriteOnce",), ("ReadWriteOncePod",), ("ReadWriteOnce", "ReadOnlyMany")])
@pytest.mark.parametrize("action", [CREATE, PRUNE], ids=["trial", "storage"])
async def test_pods_share_a_node_where_the_volume_can_be_on_one_alone(
    cluster: FakeCluster, modes: tuple[str, ...], action: ClusterAction
) -> None:
    cluster.put(CLAIMS, claim(*modes))
    assert await execute(cluster, action) == DONE
    (pod,) = cluster.all("pods")
    assert pod["metadata"]["labels"]["podtune.dev/store-claim"] == "checkpoints"
    assert pod["spec"]["affinity"]["podAffinity"][REQUIRED] == [
        {
            "labelSelector": {"matchLabels": {"podtune.dev/store-claim": "checkpoints"}},
            "topologyKey": "kubernetes.io/hostname",
        }
    ]


@pytest.mark.parametrize("modes", [("ReadWriteMany",), ("ReadWriteOnce", "ReadWriteMany")])
async def test_where_it_can_be_on_many_they_run_anywhere(cluster: FakeCluster, modes: tuple[str, ...]) -> None:
    cluster.put(CLAIMS, claim(*modes))
    assert await execute(cluster, CREATE) == DONE
    (pod,) = cluster.all("pods")
    assert "affinity" not in pod["spec"]
    assert "podtune.dev/store-claim" not in pod["metadata"]["labels"]


async def test_a_claim_that_can_be_used_is_read_once_in_a_while_and_another_each_time(cluster: FakeCluster) -> None:
    now = 0.0
    claims = StoreClaims(cluster, lambda: now)
    for _ in range(2):
        assert (await claims.read(EXPERIMENT)).problem
    cluster.put(CLAIMS, claim("ReadWriteOnce"))
    for _ in range(3):
        assert (await claims.read(EXPERIMENT)).shares_node
    assert len(cluster.calls) == 3
    now = FRESH
    await claims.read(EXPERIMENT)
    assert len(cluster.calls) == 4


async def test_of_a_bucket_no_claim_is_read(cluster: FakeCluster) -> None:
    await StoreClaims(cluster, lambda: 0.0).read(experiment_record(checkpoints={"store": {"bucket": "models"}}))
    assert cluster.calls == []
