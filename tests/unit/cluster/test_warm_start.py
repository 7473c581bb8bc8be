"""What an earlier experiment has found is kept with the one that learns from it."""

from __future__ import annotations

from typing import Any

import pytest

from podtune.api.names import ExperimentReason
from podtune.cluster import warm_start
from podtune.kube.errors import ApiRefusal
from podtune.runner.actions import ActionResult, ActionStatus
from tests.unit.cluster.fake_client import FakeCluster, refusal
from tests.unit.cluster.objects import (
    EXPERIMENTS,
    NAMESPACE,
    TRIALS,
    experiment_body,
    experiment_record,
    trial_body,
)

SEARCH = {"algorithm": "tpe", "maxTrials": 3, "warmStart": {"experiment": "old"}}
CONFIG_MAPS = f"/api/v1/namespaces/{NAMESPACE}/configmaps"
KEPT = f"{CONFIG_MAPS}/digits-warm-start"


def ended(type_: str = "Complete") -> dict[str, Any]:
    condition = {"type": type_, "status": "True", "reason": "TrialsComplete", "lastTransitionTime": ""}
    return {"conditions": [condition]}


def put_trial(cluster: FakeCluster, index: int, value: str, owner: str = "old-uid") -> None:
    result: dict[str, Any] = {
        "state": "TERMINATED",
        "observationSeq": index,
        "iteration": 9,
        "lastResult": {"accuracy": value},
    }
    body = trial_body(index, f"t-{index}", owner=owner, experiment="old", **result)
    body["metadata"]["labels"] = {"podtune.dev/experiment": "old"}
    cluster.put(TRIALS, body)


@pytest.fixture
def cluster() -> FakeCluster:
    """With an experiment that has ended, and two of its trials."""
    cluster = FakeCluster()
    cluster.put(EXPERIMENTS, {**experiment_body("old", "old-uid"), "status": ended()})
    put_trial(cluster, 0, "0.5")
    put_trial(cluster, 1, "0.75")
    return cluster


async def learn(cluster: FakeCluster) -> ActionResult:
    return await warm_start.load_warm_start(cluster, experiment_record(search=SEARCH), "old")


def values(outcome: ActionResult) -> list[float | None]:
    return [observation.value for observation in outcome.prior_observations]


async def test_it_is_kept_with_the_experiment_that_learns(cluster: FakeCluster) -> None:
    outcome = await learn(cluster)
    assert (outcome.status, values(outcome)) == (ActionStatus.DONE, [0.5, 0.75])
    assert outcome.message == "2 results of experiment old are known to the search"
    kept = cluster.get(KEPT)
    assert kept is not None
    assert kept["immutable"]
    assert [owner["uid"] for owner in kept["metadata"]["ownerReferences"]] == ["e-1"]


async def test_it_stays_the_same_when_the_earlier_experiment_changes_or_goes(cluster: FakeCluster) -> None:
    first = await learn(cluster)
    put_trial(cluster, 2, "0.9")
    assert (await learn(cluster)).prior_observations == first.prior_observations
    for path in (f"{EXPERIMENTS}/old", f"{TRIALS}/old-0", f"{TRIALS}/old-1"):
        cluster.remove(path)
    again = await learn(cluster)
    assert (again.status, again.prior_observations, again.message) == (ActionStatus.DONE, first.prior_observations, "")


@pytest.mark.parametrize("status", [{}, {"conditions": []}])
async def test_one_that_has_not_ended_is_waited_for(cluster: FakeCluster, status: dict[str, Any]) -> None:
    cluster.change(f"{EXPERIMENTS}/old", lambda body: body.update(status=status))
    outcome = await learn(cluster)
    assert (outcome.status, outcome.reason) == (ActionStatus.FAILED, ExperimentReason.WAITING_FOR_EXPERIMENT)
    assert outcome.message.endswith("it has not ended yet")
    assert cluster.writes() == []
    cluster.change(f"{EXPERIMENTS}/old", lambda body: body.update(status=ended("Failed")))
    assert values(await learn(cluster)) == [0.5, 0.75]


async def test_one_that_does_not_exist_is_waited_for(cluster: FakeCluster) -> None:
    cluster.remove(f"{EXPERIMENTS}/old")
    outcome = await learn(cluster)
    assert outcome.reason == ExperimentReason.WAITING_FOR_EXPERIMENT
    assert outcome.message == "waiting for experiment old (search.warmStart): it does not exist"


async def test_trials_of_an_earlier_experiment_of_that_name_are_not_its(cluster: FakeCluster) -> None:
    put_trial(cluster, 2, "0.99", owner="older-uid")
    assert values(await learn(cluster)) == [0.5, 0.75]


async def test_what_could_not_be_used_is_counted(cluster: FakeCluster) -> None:
    put_trial(cluster, 2, "nan")
    outcome = await learn(cluster)
    assert outcome.message.endswith("; 1 trials have no value, or lie outside of this search space")


async def test_a_config_map_of_another_owner_is_in_the_way(cluster: FakeCluster) -> None:
    cluster.put(CONFIG_MAPS, {"metadata": {"name": "digits-warm-start"}, "data": {"results.jsonl": ""}})
    outcome = await learn(cluster)
    assert (outcome.status, "another owner" in outcome.message) == (ActionStatus.FAILED, True)


async def test_one_that_was_tampered_with_is_said_to_be(cluster: FakeCluster) -> None:
    await learn(cluster)
    cluster.change(KEPT, lambda body: body.update(data={"results.jsonl": "nonsense"}))
    outcome = await learn(cluster)
    assert outcome.status is ActionStatus.FAILED
    assert "delete it to have it recreated" in outcome.message


async def test_one_that_was_made_meanwhile_is_read_the_next_time(cluster: FakeCluster) -> None:
    cluster.fail("POST", "configmaps", refusal(409, "exists", "AlreadyExists"), carried_out=True)
    assert (await learn(cluster)).status is ActionStatus.FAILED
    assert values(await learn(cluster)) == [0.5, 0.75]


async def test_a_refusal_is_passed_on(cluster: FakeCluster) -> None:
    cluster.fail("POST", "configmaps", refusal(403, "may not"))
    with pytest.raises(ApiRefusal, match="may not"):
        await learn(cluster)
