"""The pods of a gang, and the Service by which they find each other, as they are made on the API server."""

from __future__ import annotations

import json
from dataclasses import replace
from typing import Any

import pytest

from podtune.api.names import ExperimentReason
from podtune.api.resources.trial import TrialSpec
from podtune.cluster.decoders import decode_pod
from podtune.cluster.events import Reporter
from podtune.cluster.executor import Executor
from podtune.cluster.pods.manifest import AgentSettings
from podtune.runner.actions import DONE, ActionResult, ActionStatus, CreatePod, OpenGates
from tests.unit.cluster.fake_client import FakeCluster, refusal
from tests.unit.cluster.objects import NAMESPACE, PODS, experiment_record
from tests.unit.cluster.pods.test_manifest import container, env
from tests.unit.cluster.test_executor import Seen

SERVICES = f"/api/v1/namespaces/{NAMESPACE}/services"
SPEC = TrialSpec(experiment="digits", index=0, parameters={"lr": "0.01", "units": "32"})
CREATE = CreatePod("digits-0", "t-1", 1, SPEC, restore=(), iteration=0, replicas=3)
POD_SPEC = {"containers": [{"name": "main", "image": "i"}]}


class Bench:
    def __init__(self, **template: Any) -> None:
        self.cluster = FakeCluster()
        self.seen = Seen()
        reporter = Reporter("operator-1", lambda: "2024-05-01T12:00:00.000000Z", lambda _, trial: f"uid-of-{trial}")
        self.executor = Executor(self.cluster, self.seen, AgentSettings("agent:1", "Always", "http://r"), reporter)
        self.experiment = experiment_record(trialTemplate={"spec": POD_SPEC, "replicas": 3, **template})

    async def create(self, **changes: Any) -> ActionResult:
        action = replace(self.made_of_its_template(CREATE), **changes)
        return await self.executor.execute(self.experiment, action)

    def made_of_its_template(self, action: CreatePod) -> CreatePod:
        assert self.experiment.spec is not None
        return replace(action, revision=self.experiment.spec.trial_template.revision)

    def pod(self, rank: int) -> Any:
        return self.cluster.get(f"{PODS}/digits-0-1-{rank}")

    @property
    def writes(self) -> list[tuple[str, str]]:
        return [(call.method, call.path) for call in self.cluster.calls if call.method != "GET"]


@pytest.fixture
def bench() -> Bench:
    return Bench()


async def test_the_ranks_know_each_other_and_their_attempt(bench: Bench) -> None:
    assert await bench.create() == DONE
    assert bench.seen.names == ["digits-0-1-0", "digits-0-1-1", "digits-0-1-2"]
    leader = bench.pod(0)["metadata"]["uid"]
    for rank in range(3):
        pod = bench.pod(rank)
        program, agent = env(container(pod, "main")), env(container(pod, "podtune-agent"))
        assert (program["RANK"], program["WORLD_SIZE"]) == (program["PODTUNE_RANK"], "3") == (str(rank), "3")
        assert program["PODTUNE_REPLICAS"] == "3"
        assert program["MASTER_ADDR"] == "attempt-1-rank-0.gang-digits-0"
        assert program["MASTER_PORT"] == "29500"
        assert (pod["spec"]["hostname"], pod["spec"]["subdomain"]) == (f"attempt-1-rank-{rank}", "gang-digits-0")
        assert agent["PODTUNE_RANK"] == str(rank)
        assert agent.get("PODTUNE_ATTEMPT_ID") == (leader if rank else None)
        record = decode_pod({**pod, "metadata": {**pod["metadata"], "resourceVersion": "1"}})
        assert (record.rank, record.gated, record.attempt) == (rank, True, 1)


async def test_only_rank_0_has_a_token_for_the_operator_and_all_have_their_parameters(bench: Bench) -> None:
    await bench.create()
    assert ["serviceAccountToken" in json.dumps(bench.pod(rank)) for rank in range(3)] == [True, False, False]
    for rank in range(3):
        pod = bench.pod(rank)
        volumes = {volume["name"] for volume in pod["spec"]["volumes"]}
        agent, program = container(pod, "podtune-agent")["volumeMounts"], container(pod, "main")["volumeMounts"]
        assert {mount["name"] for mount in [*agent, *program]} <= volumes
        assert ("podtune-inputs" in {mount["name"] for mount in agent}) == (rank == 0)
        assert "/podtune/parameters.json" in {mount["mountPath"] for mount in program}


async def test_the_service_names_pods_that_are_not_ready_and_goes_with_the_trial(bench: Bench) -> None:
    await bench.create()
    service = bench.cluster.get(f"{SERVICES}/gang-digits-0")
    assert service is not None
    assert (service["spec"]["clusterIP"], service["spec"]["publishNotReadyAddresses"]) == ("None", True)
    assert service["spec"]["selector"].items() <= bench.pod(2)["metadata"]["labels"].items()
    (owner,) = service["metadata"]["ownerReferences"]
    assert (owner["kind"], owner["uid"]) == ("Trial", "t-1")


async def test_a_creation_that_broke_off_is_completed(bench: Bench) -> None:
    bench.cluster.before = lambda call: (
        bench.cluster.fail("POST", "pods$", refusal(500, "etcd is slow"))
        if call.method == "POST" and (call.body or {})["metadata"]["name"] == "digits-0-1-2"
        else None
    )
    assert (await bench.create()).status is ActionStatus.FAILED
    assert bench.pod(1) is not None
    assert bench.pod(2) is None
    bench.cluster.before = lambda call: None
    assert await bench.create() == DONE
    leader = bench.pod(0)["metadata"]["uid"]
    assert env(container(bench.pod(2), "podtune-agent"))["PODTUNE_ATTEMPT_ID"] == leader


async def test_ranks_of_a_leader_that_was_lost_are_no_part_of_the_attempt(bench: Bench) -> None:
    await bench.create()
    bench.cluster.remove(f"{PODS}/digits-0-1-0")
    outcome = await bench.create()
    assert outcome.status is ActionStatus.REFUSED
    assert "digits-0-1-1 was made for a pod of rank 0 that is gone" in outcome.message


async def test_a_service_of_somebody_else_is_left_alone(bench: Bench) -> None:
    bench.cluster.put(SERVICES, {"kind": "Service", "metadata": {"name": "gang-digits-0"}})
    outcome = await bench.create()
    assert outcome.status is ActionStatus.FAILED
    assert "gang-digits-0 with another owner already exists; delete it" in outcome.message
    assert bench.pod(0) is None


async def test_opening_the_gates_leaves_those_of_others() -> None:
    bench = Bench(spec={**POD_SPEC, "schedulingGates": [{"name": "example.com/quota"}]})
    await bench.create()
    uids = [(f"digits-0-1-{rank}", bench.pod(rank)["metadata"]["uid"]) for rank in range(3)]
    assert await bench.executor.execute(bench.experiment, OpenGates("digits-0", tuple(uids))) == DONE
    assert [bench.pod(rank)["spec"]["schedulingGates"] for rank in range(3)] == [[{"name": "example.com/quota"}]] * 3
    assert [pod["metadata"]["name"] for pod in bench.seen.bodies[3:]] == [name for name, _ in uids], "it is not seen"


async def test_a_pod_of_another_life_keeps_its_gate(bench: Bench) -> None:
    await bench.create()
    assert await bench.executor.execute(bench.experiment, OpenGates("digits-0", (("digits-0-1-1", "other"),))) == DONE
    assert bench.pod(1)["spec"]["schedulingGates"] == [{"name": "podtune.dev/gang"}]


async def test_a_queue_of_kueue_is_told_of_the_whole_group() -> None:
    bench = Bench(metadata={"labels": {"kueue.x-k8s.io/queue-name": "team"}})
    await bench.create()
    for rank in range(3):
        metadata = bench.pod(rank)["metadata"]
        assert metadata["labels"]["kueue.x-k8s.io/queue-name"] == "team"
        assert metadata["labels"]["kueue.x-k8s.io/pod-group-name"] == "digits-0-1"
        assert metadata["annotations"]["kueue.x-k8s.io/pod-group-total-count"] == "3"
        assert metadata["annotations"]["kueue.x-k8s.io/retriable-in-group"] == "false", "an attempt gets no other pods"


async def test_all_ranks_have_the_limits_that_are_on_record(bench: Bench) -> None:
    """A rank that is there was asked for before its trial's limits changed."""
    assert await bench.create(own_limits={"memory": "3Gi"}) == DONE
    for rank in (1, 2):
        bench.cluster.remove(f"{PODS}/digits-0-1-{rank}")
    assert (await bench.create(own_limits={"memory": "4Gi"})).status is ActionStatus.FAILED
    assert await bench.create(own_limits={"memory": "3Gi"}) == DONE


async def test_all_ranks_are_made_from_one_template(bench: Bench) -> None:
    """A rank that is there was made before the template changed: the others are not made to it."""
    assert await bench.create() == DONE
    changed = Bench(spec={"containers": [{"name": "main", "image": "mended"}]})
    for rank in (1, 2):
        bench.cluster.remove(f"{PODS}/digits-0-1-{rank}")
    bench.experiment = changed.experiment
    result = await bench.create()
    assert (result.status, result.reason) == (ActionStatus.FAILED, ExperimentReason.TEMPLATE_CHANGED)
    assert "pod digits-0-1-0 was made from another trial template" in result.message
    assert (bench.pod(1), bench.seen.names[-1]) == (None, "digits-0-1-0"), "the machine sees it, and gives it up"


async def test_a_pod_that_is_alone_costs_one_request_and_has_nothing_of_a_gang() -> None:
    bench = Bench(replicas=1)
    alone = CreatePod("digits-0", "t-1", 1, SPEC, restore=(), iteration=0)
    assert await bench.executor.execute(bench.experiment, bench.made_of_its_template(alone)) == DONE
    assert bench.writes == [("POST", PODS)]
    pod = bench.cluster.get(f"{PODS}/digits-0-1")
    assert pod is not None
    assert not {"schedulingGates", "hostname", "subdomain"} & pod["spec"].keys()
    assert "podtune.dev/rank" not in pod["metadata"]["labels"]
    assert not {"RANK", "WORLD_SIZE", "MASTER_ADDR"} & env(container(pod, "main")).keys()
