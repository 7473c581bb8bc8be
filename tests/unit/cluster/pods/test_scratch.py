"""The volume that a trial keeps over its attempts."""

from __future__ import annotations

import json
from typing import Any

import pytest

from podtune.api.names import TrialState
from podtune.api.pods.pod_template import AGENT_UID
from podtune.api.resources.trial import TrialSpec, TrialStatus
from podtune.cluster.events import Reporter
from podtune.cluster.executor import Executor
from podtune.cluster.pods.manifest import AgentSettings, make_pod
from podtune.runner.actions import DONE, ActionResult, ActionStatus, ClusterAction, CreatePod, WriteTrialStatus
from tests.unit.cluster.fake_client import FakeCluster, refusal
from tests.unit.cluster.objects import NAMESPACE, REVISION, TRIALS, experiment_record, trial_body

SPEC = TrialSpec(experiment="digits", index=0, parameters={"lr": "0.01", "units": "32"})
CREATE = CreatePod("digits-0", "t-1", 1, SPEC, restore=(), iteration=0, revision=REVISION)
AGENT = AgentSettings("agent:1", "Always", "http://r")
CLAIMS = f"/api/v1/namespaces/{NAMESPACE}/persistentvolumeclaims"
CHECKPOINTS = {"store": {"bucket": "models"}, "scratch": {"storageClassName": "fast", "size": "10Gi"}}


class Bench:
    def __init__(self) -> None:
        self.cluster = FakeCluster()
        observer: Any = type("Nobody", (), {"__getattr__": lambda *_: lambda *_: None})()
        reporter = Reporter("operator-1", lambda: "2024-05-01T12:00:00.000000Z", lambda *_: "")
        self.executor = Executor(self.cluster, observer, AGENT, reporter)

    async def do(self, action: ClusterAction, **checkpoints: Any) -> ActionResult:
        return await self.executor.execute(experiment_record(checkpoints=CHECKPOINTS | checkpoints), action)

    @property
    def claims(self) -> list[dict[str, Any]]:
        return self.cluster.all("persistentvolumeclaims")


@pytest.fixture
def bench() -> Bench:
    return Bench()


async def test_the_claim_is_made_before_the_pod_and_belongs_to_the_trial(bench: Bench) -> None:
    assert await bench.do(CREATE) == DONE
    (claim,) = bench.claims
    assert claim["metadata"]["name"] == "digits-0-scratch"
    assert claim["metadata"]["ownerReferences"][0]["uid"] == "t-1"
    assert claim["spec"]["storageClassName"] == "fast"
    assert claim["spec"]["resources"]["requests"] == {"storage": "10Gi"}
    assert [call.path.rpartition("/")[2] for call in bench.cluster.calls] == ["persistentvolumeclaims", "pods"]


async def test_a_retry_takes_the_same_claim(bench: Bench) -> None:
    await bench.do(CREATE)
    assert await bench.do(CreatePod("digits-0", "t-1", 2, SPEC, restore=(), iteration=0, revision=REVISION)) == DONE
    assert len(bench.claims) == 1
    assert len(bench.cluster.all("pods")) == 2


async def test_a_claim_of_somebody_else_is_named(bench: Bench) -> None:
    bench.cluster.put(CLAIMS, {"metadata": {"name": "digits-0-scratch"}, "spec": {}})
    outcome = await bench.do(CREATE)
    assert outcome.status is ActionStatus.FAILED
    assert "digits-0-scratch with another owner already exists; delete it" in outcome.message
    assert bench.cluster.all("pods") == []


async def test_a_claim_that_is_on_its_way_out_is_waited_for(bench: Bench) -> None:
    await bench.do(CREATE)
    claim = bench.claims[0]
    claim["metadata"]["deletionTimestamp"] = "2024-05-01T12:00:00Z"
    await bench.cluster.request("DELETE", f"{CLAIMS}/digits-0-scratch")
    bench.cluster.put(CLAIMS, claim)
    outcome = await bench.do(CreatePod("digits-0", "t-1", 2, SPEC, restore=(), iteration=0, revision=REVISION))
    assert outcome.status is ActionStatus.FAILED
    assert "is being deleted" in outcome.message


async def test_the_claim_goes_before_the_trials_end_is_recorded(bench: Bench) -> None:
    bench.cluster.put(TRIALS, trial_body())
    await bench.do(CREATE)
    end = WriteTrialStatus("digits-0", "t-1", 20, TrialStatus(state=TrialState.TERMINATED))
    bench.cluster.fail("DELETE", "persistentvolumeclaims", refusal(500, "later"))
    assert (await bench.do(end)).status is ActionStatus.FAILED
    assert bench.cluster.writes("trials") == [], "an end is not recorded whose volume would be forgotten"
    await bench.do(end)
    assert bench.claims == []
    await bench.do(end)  # where there is none any more, that is as good


@pytest.mark.parametrize(
    "owner", [None, {"kind": "Trial", "name": "digits-0", "uid": "t-of-before", "controller": True}]
)
async def test_a_claim_of_somebody_else_is_not_deleted(bench: Bench, owner: dict[str, Any] | None) -> None:
    bench.cluster.put(TRIALS, trial_body())
    metadata = {"name": "digits-0-scratch", "ownerReferences": [owner] if owner else []}
    bench.cluster.put(CLAIMS, {"metadata": metadata, "spec": {}})
    end = WriteTrialStatus("digits-0", "t-1", 20, TrialStatus(state=TrialState.TERMINATED))
    await bench.do(end)
    assert len(bench.claims) == 1
    assert bench.cluster.writes("persistentvolumeclaims") == []


async def test_the_claim_that_was_looked_at_is_the_one_that_is_deleted(bench: Bench) -> None:
    bench.cluster.put(TRIALS, trial_body())
    await bench.do(CREATE)
    uid = bench.claims[0]["metadata"]["uid"]
    await bench.do(WriteTrialStatus("digits-0", "t-1", 20, TrialStatus(state=TrialState.TERMINATED)))
    (delete,) = [call for call in bench.cluster.calls if call.method == "DELETE"]
    assert delete.body == {"preconditions": {"uid": uid}}


async def test_a_trial_that_goes_on_keeps_its_claim(bench: Bench) -> None:
    bench.cluster.put(TRIALS, trial_body())
    await bench.do(CREATE)
    await bench.do(WriteTrialStatus("digits-0", "t-1", 20, TrialStatus(state=TrialState.PAUSED)))
    assert len(bench.claims) == 1


def pod(template: dict[str, Any] | None = None) -> dict[str, Any]:
    whole = {"containers": [{"name": "main", "image": "i"}]} | (template or {})
    return make_pod(experiment_record(checkpoints=CHECKPOINTS, trialTemplate={"spec": whole}), CREATE, AGENT)


def test_only_the_agent_sees_the_volume() -> None:
    spec = pod()["spec"]
    assert {"name": "podtune-scratch", "persistentVolumeClaim": {"claimName": "digits-0-scratch"}} in spec["volumes"]
    mounted = {
        c["name"]: {m["name"] for m in c["volumeMounts"]} for c in [*spec["initContainers"], *spec["containers"]]
    }
    assert "podtune-scratch" in mounted["podtune-agent"]
    assert "podtune-scratch" not in mounted["main"]
    agent = next(c for c in spec["initContainers"] if c["name"] == "podtune-agent")
    settings = json.loads(agent["args"][1])
    assert settings["PODTUNE_SCRATCH"] == "/podtune-scratch"


def test_the_agent_may_write_to_it_and_no_other_volume_changes_hands() -> None:
    assert pod()["spec"]["securityContext"]["fsGroup"] == AGENT_UID
    assert pod({"securityContext": {"fsGroup": 7}})["spec"]["securityContext"]["fsGroup"] == 7
    own = {"name": "data", "persistentVolumeClaim": {"claimName": "mine"}}
    assert "fsGroup" not in pod({"volumes": [own]})["spec"]["securityContext"]
