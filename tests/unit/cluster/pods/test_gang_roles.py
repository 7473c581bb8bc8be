"""The pods of a gang with roles, as they are made on the API server."""

from __future__ import annotations

import json
from typing import Any

from podtune.api.names import ExperimentReason
from podtune.cluster.decoders import decode_pod
from podtune.runner.actions import DONE, ActionStatus, CreateTrial, KeepRevision, TryPod
from tests.unit.cluster.fake_client import Failure, refusal
from tests.unit.cluster.objects import NAMESPACE, PODS, experiment_record
from tests.unit.cluster.pods.test_gang import CREATE, SPEC, Bench
from tests.unit.cluster.pods.test_manifest import container, env

DRIVER = {"spec": {"containers": [{"name": "drive", "image": "driver"}], "nodeSelector": {"pool": "cpu"}}}
GPUS = {"resources": {"limits": {"nvidia.com/gpu": 1, "memory": "4Gi"}}}
WORKER: dict[str, Any] = {
    "metadata": {"labels": {"tier": "gpu"}},
    "spec": {
        "containers": [{"name": "side", "image": "side"}, {"name": "trial", "image": "worker", **GPUS}],
        "terminationGracePeriodSeconds": 7,
    },
}
ROLES = [{"name": "driver", "template": DRIVER}, {"name": "worker", "replicas": 2, "template": WORKER}]


class RolesBench(Bench):
    def __init__(self, **template: Any) -> None:
        super().__init__()
        self.experiment = experiment_record(trialTemplate={"roles": ROLES, **template})


async def test_each_rank_is_made_from_the_template_of_its_role() -> None:
    bench = RolesBench(metadata={"labels": {"team": "a"}})
    assert await bench.create() == DONE
    driver, *workers = (bench.pod(rank) for rank in range(3))
    assert container(driver, "drive")["image"] == "driver"
    assert driver["spec"]["nodeSelector"] == {"pool": "cpu"}
    assert driver["metadata"]["labels"]["team"] == "a"
    assert "tier" not in driver["metadata"]["labels"]
    for worker in workers:
        assert container(worker, "trial")["image"] == "worker"
        assert "nodeSelector" not in worker["spec"]
        assert (worker["metadata"]["labels"]["team"], worker["metadata"]["labels"]["tier"]) == ("a", "gpu")
    records = [
        decode_pod({**pod, "metadata": {**pod["metadata"], "resourceVersion": "1"}}) for pod in (driver, *workers)
    ]
    assert [(record.role, record.program, record.gpus, record.own_grace) for record in records] == [
        ("driver", "drive", 0, 30),
        ("worker", "trial", 1, 7),
        ("worker", "trial", 1, 7),
    ]


async def test_programs_know_their_role_and_find_rank_0() -> None:
    bench = RolesBench()
    await bench.create()
    expected = [("driver", "0", "1"), ("worker", "0", "2"), ("worker", "1", "2")]
    for rank, (role, index, replicas) in enumerate(expected):
        pod = bench.pod(rank)
        program = env(container(pod, "trial" if rank else "drive"))
        found = (program["PODTUNE_ROLE"], program["PODTUNE_ROLE_INDEX"], program["PODTUNE_ROLE_REPLICAS"])
        assert found == (role, index, replicas)
        assert json.loads(program["PODTUNE_ROLES"]) == {"driver": 1, "worker": 2}
        assert (program["RANK"], program["WORLD_SIZE"], program["PODTUNE_REPLICAS"]) == (str(rank), "3", "3")
        assert program["MASTER_ADDR"] == "attempt-1-rank-0.gang-digits-0"
        assert pod["spec"]["hostname"] == f"attempt-1-rank-{rank}"
        assert pod["metadata"]["labels"]["podtune.dev/role"] == role
        assert env(container(pod, "podtune-agent"))["PODTUNE_RANK"] == str(rank)


async def test_a_gang_of_one_template_has_no_roles() -> None:
    bench = Bench()
    await bench.create()
    assert "podtune.dev/role" not in bench.pod(1)["metadata"]["labels"]
    assert not [name for name in env(container(bench.pod(1), "main")) if name.startswith("PODTUNE_ROLE")]


async def test_limits_are_those_of_the_role() -> None:
    bench = RolesBench()
    limits = {"worker:memory": "6Gi", "driver:cpu": "2"}
    assert await bench.create(limits=limits, own_limits={"worker:memory": "6Gi"}) == DONE
    assert container(bench.pod(0), "drive")["resources"]["limits"] == {"cpu": "2"}
    for rank in (1, 2):
        assert container(bench.pod(rank), "trial")["resources"]["limits"] == {"nvidia.com/gpu": 1, "memory": "6Gi"}
        assert "resources" not in container(bench.pod(rank), "side")
    annotations = [bench.pod(rank)["metadata"]["annotations"]["podtune.dev/own-limits"] for rank in range(3)]
    assert set(annotations) == {'{"worker:memory":"6Gi"}'}, "ranks of one attempt have different limits on record"


async def test_a_queue_of_kueue_is_told_of_the_pods_of_all_roles() -> None:
    bench = RolesBench(metadata={"labels": {"kueue.x-k8s.io/queue-name": "team"}})
    await bench.create()
    for rank in range(3):
        metadata = bench.pod(rank)["metadata"]
        assert metadata["labels"]["kueue.x-k8s.io/queue-name"] == "team"
        assert metadata["annotations"]["kueue.x-k8s.io/pod-group-total-count"] == "3"


async def test_the_api_server_is_asked_about_a_pod_of_each_role() -> None:
    bench = RolesBench()
    action = TryPod(bench.made_of_its_template(CREATE))
    assert await bench.executor.execute(bench.experiment, action) == DONE
    tried = [(call.params, (call.body or {})["metadata"]["name"]) for call in bench.cluster.calls]
    assert tried == [({"dryRun": "All"}, "digits-0-1-0"), ({"dryRun": "All"}, "digits-0-1-1")]
    is_there = refusal(409, "already exists", "AlreadyExists")
    of_worker = refusal(403, 'pods "digits-0-1-1" is forbidden: no GPUs for you', "Forbidden")
    bench.cluster.failures += [Failure("POST", PODS, error) for error in (is_there, of_worker)]
    outcome = await bench.executor.execute(bench.experiment, action)
    assert (outcome.status, outcome.reason) == (ActionStatus.REFUSED, ExperimentReason.POD_REFUSED)
    assert "no GPUs for you" in outcome.message


async def test_a_revision_keeps_the_templates_of_all_roles() -> None:
    bench = RolesBench()
    assert bench.experiment.spec is not None
    template = bench.experiment.spec.trial_template
    await bench.executor.execute(bench.experiment, KeepRevision("digits-r", template.revision, 1, template))
    kept = bench.cluster.get(f"/apis/apps/v1/namespaces/{NAMESPACE}/controllerrevisions/digits-r")
    assert kept is not None
    roles = kept["data"]["trialTemplate"]["roles"]
    images = [role["template"]["spec"]["containers"][-1]["image"] for role in roles]
    assert images == ["driver", "worker"]


async def test_labels_of_parameters_are_added_to_the_pods_of_all_roles_and_to_the_trial() -> None:
    bench = RolesBench(metadata={"labels": {"rate": "lr-$(PODTUNE_PARAM_lr)"}})
    await bench.create()
    assert [bench.pod(rank)["metadata"]["labels"]["rate"] for rank in range(3)] == ["lr-0.01"] * 3
    assert await bench.executor.execute(bench.experiment, CreateTrial("digits-1", SPEC)) == DONE
    made = bench.cluster.get(f"/apis/podtune.dev/v1alpha1/namespaces/{NAMESPACE}/trials/digits-1")
    assert made is not None
    assert made["metadata"]["labels"]["rate"] == "lr-0.01"
