"""Checkpoints at Google and Azure: clones, pauses, exports and deletion by agents and storage pods.

The servers are processes of this machine, on the cluster's network. With kind, pods don't reach it.
"""

from __future__ import annotations

import base64
import hashlib
import json
import os
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from pathlib import Path

import pytest
from botocore.credentials import ReadOnlyCredentials

from e2e.devcluster import Cluster, kind
from e2e.devcluster.layout import NODES
from e2e.experiments import counter, experiment, program
from e2e.kubernetes import DEADLINE, Kubernetes, Object, eventually
from e2e.stores.azure_server import ACCOUNT, running_azure_server
from e2e.stores.google_server import make_service_account, running_google_server
from e2e.trials import finish, trial_status
from podtune.storage.address import AzureAddress, GcsAddress
from podtune.storage.cloud.store import CloudStore

EXPERIMENTS, TRIALS = "experiments.podtune.dev", "trials.podtune.dev"
SECRET = "models-key"
pytestmark = pytest.mark.skipif(kind.is_used(), reason="kind's pods don't reach servers on this machine")


@dataclass(frozen=True)
class Cloud:
    """A bucket and its server.

    Attributes:
        spec: As a manifest has it.
        secret: What its Secret holds.
        wrong: What is refused.
    """

    address: GcsAddress | AzureAddress
    spec: Object
    secret: Mapping[str, str]
    wrong: Mapping[str, str]
    files: Path

    @property
    def store(self) -> CloudStore:
        """The bucket, as it is reached from here."""
        directory = self.files / SECRET
        directory.mkdir(exist_ok=True)
        for key, value in self.secret.items():
            (directory / key).write_text(value)
        return CloudStore(replace(self.address, credentials=str(directory)))

    def list(self, prefix: str) -> list[str]:
        """The keys below a prefix."""
        return list(self.store.list(prefix))

    def find_key(self, uri: str) -> str:
        """The key that an URI means."""
        return self.address.find_key(uri)


@pytest.fixture(params=[pytest.param("google", marks=pytest.mark.long), "azure"])
def cloud(request: pytest.FixtureRequest, cluster: Cluster, namespace: Kubernetes, tmp_path: Path) -> Iterator[Cloud]:
    """A bucket, with its Secret in the namespace."""
    prefix, address = namespace.namespace, NODES[0].address
    shared = {"prefix": prefix, "credentialsSecret": SECRET}
    if request.param == "google":
        credentials = ReadOnlyCredentials(cluster.s3.access_key, cluster.s3.secret_key, None)
        with running_google_server(cluster.s3.endpoint, credentials, address) as server:
            bucket = cluster.s3.bucket
            found = Cloud(
                GcsAddress(bucket, prefix, server.url),
                {"gcs": {"bucket": bucket}, "endpoint": server.url, **shared},
                {"serviceAccountKey": server.add_account("trials").key_file},
                {"serviceAccountKey": make_service_account("stranger").key_file},
                tmp_path,
            )
            apply_secret(namespace, found.secret)
            yield found
            end_all(namespace)
    else:
        with running_azure_server(address) as azure:
            container = f"models-{os.urandom(4).hex()}"
            azure.create_container(container)
            found = Cloud(
                AzureAddress(container, ACCOUNT, prefix, azure.url),
                {"azure": {"account": ACCOUNT, "container": container}, "endpoint": azure.url, **shared},
                {"accountKey": azure.key},
                {"accountKey": base64.b64encode(b"wrong").decode()},
                tmp_path,
            )
            apply_secret(namespace, found.secret)
            yield found
            end_all(namespace)


def end_all(namespace: Kubernetes) -> None:
    """Ends all trials while there is a store: without one, their agents would hold their GPUs for ten minutes."""
    namespace.kubectl("delete", EXPERIMENTS, "--all", "--wait=false")
    eventually(lambda: not namespace.list("pods", "podtune.dev/experiment"), what="all pods have ended")


def apply_secret(namespace: Kubernetes, values: Mapping[str, str]) -> None:
    data = {key: base64.b64encode(value.encode()).decode() for key, value in values.items()}
    namespace.apply({"apiVersion": "v1", "kind": "Secret", "metadata": {"name": SECRET}, "data": data})


def test_clones_and_pauses_go_on_and_the_best_is_exported_and_downloaded(
    namespace: Kubernetes, cloud: Cloud, tmp_path: Path
) -> None:
    namespace.apply(
        experiment(
            "population",
            program("population", {"EPOCHS": "6", "EPOCH_SECONDS": "0.5"}),
            parameters=[{"name": "rate", "float": {"min": 0.1, "max": 1.0}}],
            checkpoints={"store": cloud.spec, "export": {}},
            search={"algorithm": "random", "maxTrials": 4, "seed": 5},
            scheduler={"pbt": {"timeAttribute": "epoch", "interval": 2, "resampleProbability": 0}},
            maxConcurrentTrials=3,
        )
    )
    eventually(
        lambda: [trial for trial in namespace.list(TRIALS) if "parameters" in trial.get("status", {})],
        what="a trial clones another",
    )
    namespace.kubectl("patch", EXPERIMENTS, "population", "--type=merge", "-p", '{"spec": {"suspend": true}}')
    eventually(lambda: not namespace.list("pods", "podtune.dev/trial"), what="all trials are paused")
    namespace.kubectl("patch", EXPERIMENTS, "population", "--type=merge", "-p", '{"spec": {"suspend": false}}')
    finish(namespace, "population")
    clones = [trial for trial in namespace.list(TRIALS) if "parameters" in trial["status"]]
    assert all(clone["status"]["attempt"] >= 2 and clone["status"]["failures"] == 0 for clone in clones)

    best = namespace.get(EXPERIMENTS, "population")["status"]["best"]
    assert best["exported"] == f"{cloud.address.uri}/{cloud.address.prefix}/exports/population/best"
    root = cloud.find_key(best["exported"])
    card = json.loads(cloud.store.get_bytes(f"{root}/model-card.json", 1 << 20))
    assert (card["trial"], card["checkpoint"]["uri"]) == (best["trial"], best["checkpoint"])
    manifest = json.loads(cloud.store.get_bytes(f"{root}/manifest.json", 1 << 20))

    said = namespace.podtune("checkpoints", "download", "population", str(tmp_path / "best"))
    assert best["trial"] in said
    for file in manifest["files"]:
        assert hashlib.sha256((tmp_path / "best" / file["path"]).read_bytes()).hexdigest() == file["sha256"]
    results = namespace.podtune("results", best["trial"]).splitlines()
    assert len(results) >= 6
    assert "epoch" in results[0]


@pytest.mark.long
def test_a_corrected_secret_reaches_agents_that_run_and_a_retry_goes_on(namespace: Kubernetes, cloud: Cloud) -> None:
    apply_secret(namespace, cloud.wrong)
    container = counter({"EPOCHS": "400", "EPOCH_SECONDS": "0.5", "CRASH_AT": "380"})
    search = {"algorithm": "random", "maxTrials": 1}
    namespace.apply(experiment("mended", container, search=search, checkpoints={"store": cloud.spec}))

    def read_condition() -> Object:
        conditions = trial_status(namespace, "mended-0").get("conditions", [])
        return next((each for each in conditions if each["type"] == "CheckpointsStored"), {})

    refused = eventually(read_condition, lambda found: found.get("status") == "False", what="the refusal is told")
    assert f"in Secret '{SECRET}'; running agents will read it within two minutes" in refused["message"]
    assert trial_status(namespace, "mended-0").get("lostCheckpoint") is None, "nothing is held for lost"
    apply_secret(namespace, cloud.secret)
    eventually(
        lambda: trial_status(namespace, "mended-0").get("checkpoint"), what="a checkpoint is stored", deadline=180
    )
    assert trial_status(namespace, "mended-0")["attempt"] == 1
    namespace.kubectl("delete", "pods", "-l", "podtune.dev/trial=mended-0", "--wait=false", "--grace-period=1")
    status = eventually(
        lambda: trial_status(namespace, "mended-0"),
        lambda found: found.get("attempt") == 2 and int((found.get("lastResult") or {}).get("start", 0)) >= 1,
        what="the next attempt goes on from the checkpoint",
    )
    assert status["checkpoint"]["uri"].startswith(f"{cloud.address.uri}/{cloud.address.prefix}/")


def test_nothing_is_left_of_an_experiment_that_is_to_be_deleted(namespace: Kubernetes, cloud: Cloud) -> None:
    checkpoints: Object = {"store": cloud.spec, "deletionPolicy": "Delete"}
    endless = counter({"EPOCHS": "10000", "EPOCH_SECONDS": "0.5"})
    namespace.apply(experiment("gone", endless, checkpoints=checkpoints))
    eventually(lambda: any(t.get("status", {}).get("checkpoint") for t in namespace.list(TRIALS)))
    uid = namespace.get(EXPERIMENTS, "gone")["metadata"]["uid"]
    prefix = cloud.address.experiment_prefix(uid)
    assert cloud.list(prefix)
    namespace.kubectl("delete", EXPERIMENTS, "gone", f"--timeout={DEADLINE:.0f}s", timeout=DEADLINE + 30)
    assert cloud.list(prefix) == []
