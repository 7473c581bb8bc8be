"""What the pod of a job in the bucket looks like, and what is made with it."""

from __future__ import annotations

import base64
import json
from typing import Any

import pytest

from podtune.api.pods.pod_template import AGENT_UID
from podtune.cluster.decoders import decode_storage_pod
from podtune.cluster.events import Reporter
from podtune.cluster.executor import Executor
from podtune.cluster.pods.manifest import AgentSettings
from podtune.cluster.pods.storage_pod import make_storage_pod
from podtune.kube.manifests import Manifest
from podtune.protocol.storage_job import StoragePurpose, StoredTrial, parse_task, read_chunk
from podtune.runner.actions import DONE, ActionResult, ActionStatus, CreateStoragePod
from podtune.runner.records import PodPhase
from tests.unit.cluster.fake_client import Failure, FakeCluster, no_answer
from tests.unit.cluster.objects import NAMESPACE, PODS, experiment_record

AGENT = AgentSettings("agent:1", "IfNotPresent", "http://results")
CHECKPOINTS = {"store": {"bucket": "bucket", "prefix": "demo", "credentialsSecret": "s3"}}
CONFIG_MAPS = f"/api/v1/namespaces/{NAMESPACE}/configmaps"
ACTION = CreateStoragePod(StoragePurpose.PRUNE, 3, (StoredTrial("digits-0", ("s3://bucket/demo/x/digits-0/a/1",)),))
EXPERIMENT = experiment_record(checkpoints=CHECKPOINTS)


class Seen:
    """The observer."""

    def __init__(self) -> None:
        self.bodies: list[dict[str, Any]] = []

    def observe_pod(self, body: dict[str, Any]) -> None:
        self.bodies.append(body)

    observe_experiment = observe_trial = observe_pod

    def observe_experiment_status(self, metadata: Manifest, status: object) -> None:
        """No storage pod changes a status."""

    observe_trial_status = observe_experiment_status


async def execute(cluster: FakeCluster, seen: Seen | None = None) -> ActionResult:
    reporter = Reporter("operator-1", lambda: "2024-05-01T12:00:00.000000Z", lambda _, trial: "")
    return await Executor(cluster, seen or Seen(), AGENT, reporter).execute(EXPERIMENT, ACTION)


def test_it_is_confined_and_gets_the_credentials_as_a_trials_agent_does() -> None:
    spec = make_storage_pod(EXPERIMENT, ACTION, AGENT, 1)["spec"]
    assert (spec["restartPolicy"], spec["automountServiceAccountToken"]) == ("Never", False)
    (container,) = spec["containers"]
    assert container["securityContext"]["runAsNonRoot"] is True
    assert container["securityContext"]["readOnlyRootFilesystem"] is True
    environment = {variable["name"]: variable for variable in container["env"]}
    assert environment["PODTUNE_STORE_KEY_ID"]["valueFrom"]["secretKeyRef"]["name"] == "s3"
    (mount,) = [mount for mount in container["volumeMounts"] if mount["name"] == "podtune-credentials"]
    assert json.loads(environment["PODTUNE_STORE"]["value"])["credentials"] == mount["mountPath"]
    assert [volume["secret"]["secretName"] for volume in spec["volumes"] if "secret" in volume] == ["s3"]
    task = parse_task(environment["PODTUNE_STORAGE_JOB"]["value"])
    assert (task.purpose, task.experiment, task.experiment_uid, task.chunks) == ("Prune", "digits", "e-1", 1)
    assert json.loads(environment["PODTUNE_STORE"]["value"])["bucket"] == "bucket"


def test_it_gets_at_the_tracking_server_as_agents_do() -> None:
    server = {"uri": "http://mlflow:5000", "experiment": "team", "credentialsSecret": "mlflow"}
    experiment = experiment_record(checkpoints=CHECKPOINTS, trackers={"mlflow": server})
    spec = make_storage_pod(experiment, ACTION, AGENT, 1)["spec"]
    (container,) = spec["containers"]
    environment = {variable["name"]: variable.get("value", "") for variable in container["env"]}
    told = {"uri": "http://mlflow:5000", "experiment": "team", "credentials": "/etc/podtune/tracker"}
    assert json.loads(environment["PODTUNE_TRACKER"]) == told
    assert {"name": "podtune-tracker", "mountPath": told["credentials"], "readOnly": True} in container["volumeMounts"]
    assert [volume["secret"]["secretName"] for volume in spec["volumes"] if "secret" in volume] == ["s3", "mlflow"]


@pytest.mark.parametrize(("trackers", "ends"), [({}, False), ({"tensorBoard": {}}, True)])
def test_it_ends_event_files_where_agents_store_them(trackers: dict[str, Any], ends: bool) -> None:
    experiment = experiment_record(checkpoints=CHECKPOINTS, trackers=trackers)
    (container,) = make_storage_pod(experiment, ACTION, AGENT, 1)["spec"]["containers"]
    (job,) = [variable["value"] for variable in container["env"] if variable["name"] == "PODTUNE_STORAGE_JOB"]
    assert parse_task(job).ends_event_files is ends


@pytest.mark.parametrize(("own", "group"), [({}, AGENT_UID), ({"securityContext": {"fsGroup": 7}}, 7)])
def test_it_mounts_the_volume_that_checkpoints_are_on(own: dict[str, Any], group: int) -> None:
    template = {"containers": [{"name": "main", "image": "i"}]} | own
    experiment = experiment_record(
        checkpoints={"store": {"volume": {"claimName": "models"}}}, trialTemplate={"spec": template}
    )
    spec = make_storage_pod(experiment, ACTION, AGENT, 1)["spec"]
    assert spec["volumes"][0] == {"name": "podtune-store", "persistentVolumeClaim": {"claimName": "models"}}
    assert spec["containers"][0]["volumeMounts"][0] == {"name": "podtune-store", "mountPath": "/podtune-store"}
    assert spec["securityContext"]["fsGroup"] == group


async def test_the_pod_is_made_with_what_it_has_to_know_which_goes_with_it() -> None:
    cluster, seen = FakeCluster(), Seen()
    assert await execute(cluster, seen) == DONE
    pod = cluster.get(f"{PODS}/digits-storage-3")
    assert pod is not None
    (owner,) = pod["metadata"]["ownerReferences"]
    assert (owner["kind"], owner["uid"]) == ("Experiment", "e-1")
    (volume,) = [volume for volume in pod["spec"]["volumes"] if "projected" in volume]
    (source,) = volume["projected"]["sources"]
    config_map = cluster.get(f"{CONFIG_MAPS}/{source['configMap']['name']}")
    assert config_map is not None
    assert config_map["metadata"]["ownerReferences"][0]["uid"] == pod["metadata"]["uid"]
    (item,) = source["configMap"]["items"]
    assert tuple(read_chunk(base64.b64decode(config_map["binaryData"][item["key"]]))) == ACTION.trials
    assert [body["metadata"]["name"] for body in seen.bodies] == ["digits-storage-3"]


async def test_an_operator_that_was_killed_in_between_makes_what_is_missing() -> None:
    cluster = FakeCluster()
    cluster.failures.append(Failure("POST", "configmaps", no_answer()))
    assert (await execute(cluster)).status is ActionStatus.FAILED
    assert cluster.get(f"{CONFIG_MAPS}/digits-storage-3-0") is None
    assert await execute(cluster) == DONE
    assert await execute(cluster) == DONE
    assert cluster.get(f"{CONFIG_MAPS}/digits-storage-3-0") is not None


async def test_a_config_map_of_somebody_else_is_not_what_it_reads() -> None:
    cluster = FakeCluster()
    cluster.put(CONFIG_MAPS, {"metadata": {"name": "digits-storage-3-0"}, "binaryData": {}})
    outcome = await execute(cluster)
    assert outcome.status is ActionStatus.FAILED
    assert "a ConfigMap digits-storage-3-0 with another owner already exists; delete it" in outcome.message


async def test_what_became_of_it_is_read_from_the_pod() -> None:
    cluster = FakeCluster()
    await execute(cluster)
    body = cluster.get(f"{PODS}/digits-storage-3")
    assert body is not None
    assert not decode_storage_pod(body).is_over
    ended = {"exitCode": 1, "reason": "Error", "message": "the report", "startedAt": "2024-05-01T12:00:00Z"}
    body["status"] = {
        "phase": "Failed",
        "containerStatuses": [{"name": "podtune-storage", "state": {"terminated": ended}}],
    }
    pod = decode_storage_pod(body)
    assert (pod.phase, pod.started, pod.is_over, pod.message) == (PodPhase.FAILED, True, True, "the report")
    body["status"] = {"phase": "Failed", "reason": "DeadlineExceeded", "message": "active longer than it may"}
    assert decode_storage_pod(body).reason == "DeadlineExceeded: active longer than it may"
