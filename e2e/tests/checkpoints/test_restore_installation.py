"""The drill of docs/how-to/restore-an-installation.md: all that is left of an installation is its bucket."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
import yaml

from docs.fenced_blocks import ROOT, find_session
from e2e.devcluster import Cluster, kind
from e2e.devcluster.native import NativeCluster
from e2e.experiments import counter, experiment, store
from e2e.install import build, install
from e2e.kubernetes import Kubernetes, Object, eventually
from e2e.namespaces import run_label
from e2e.tests.checkpoints.test_restore_experiment import made_namespaces
from e2e.tests.conftest import store_secret
from e2e.tests.typed_commands import make_environment, run_typed
from e2e.trials import EXPERIMENTS, TRIALS, finish
from podtune.storage.snapshots.record_store import SNAPSHOT_FOLDER, parse_key

SESSION = str(Path(__file__).relative_to(ROOT))
STORED = 4
"""The epoch of the last checkpoint of each trial; it holds before its sixth."""
SMALL: Object = {"requests": {"cpu": "10m", "memory": "32Mi"}}


def start(namespace: Kubernetes, name: str, prefix: str, **spec: object) -> None:
    container = counter({"EPOCHS": "8", "HOLD_AT": "6", "STORE_EACH": "2"}, resources=SMALL)
    kept = {"store": store(namespace.cluster, prefix=prefix)}
    namespace.apply(experiment(name, container, checkpoints=kept, snapshot={"period": "5s"}, **spec))


def count_recorded(cluster: Cluster, prefix: str, uid: str) -> int:
    """How many trials the newest records of a snapshot know with a checkpoint of that epoch."""
    folder, newest = f"{prefix}/{uid}/", dict[str, str]()
    for key in sorted(cluster.s3_client.list(f"{folder}{SNAPSHOT_FOLDER}/")):
        name = parse_key(folder, key)
        if name is not None:
            newest[name.trial] = key
    if "" not in newest:
        return 0
    records = [json.loads(cluster.s3_client.get(key)) for trial, key in newest.items() if trial]
    return [record["status"].get("checkpoint", {}).get("step") for record in records].count(STORED)


def write_repository(folder: Path, cluster: Cluster, namespaces: list[str]) -> None:
    """What a team has in Git: namespaces and Secrets."""
    folder.mkdir()
    for number, name in enumerate(namespaces):
        labels = {**run_label(), "pod-security.kubernetes.io/enforce": "restricted"}
        space = {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name, "labels": labels}}
        secret = store_secret(cluster.s3.access_key, cluster.s3.secret_key)
        secret["metadata"] = {"name": "podtune-s3", "namespace": name}
        (folder / f"{number}.yaml").write_text(yaml.safe_dump_all([space, secret]), encoding="utf-8")


@pytest.mark.long
@pytest.mark.alone
@pytest.mark.skipif(kind.is_used(), reason="etcd can be thrown away only where it is a process of this machine")
def test_an_installation_is_restored_from_its_bucket_by_the_commands_of_the_page(
    cluster: Cluster, namespace: Kubernetes, tmp_path: Path
) -> None:
    assert isinstance(cluster, NativeCluster)
    prefix = f"drill-{namespace.namespace}"
    with made_namespaces(cluster, 1) as (second,):
        lost = [(namespace, "digits"), (namespace, "numbers"), (second, "digits")]
        for user, name in lost:
            start(user, name, prefix)
        uids = {(user.namespace, name): user.get(EXPERIMENTS, name)["metadata"]["uid"] for user, name in lost}
        eventually(
            lambda: [count_recorded(cluster, prefix, uid) for uid in uids.values()],
            lambda counts: counts == [2] * len(lost),
            what="snapshots know of the checkpoints of all trials",
        )
        cluster.lose_etcd()
        install(cluster, build(cluster))
        eventually(lambda: not cluster.node_processes("n2")["pods"], what="nothing of before runs any more")
        write_repository(tmp_path / "cluster", cluster, [user.namespace for user in (namespace, second)])

        environment = make_environment(cluster, Kubernetes(cluster, "default"), tmp_path)
        environment |= {"STORE": f"s3://{cluster.s3.bucket}/{prefix}", "S3_ENDPOINT": cluster.s3.endpoint}
        printed = [
            run_typed(command, environment, tmp_path, place=block.place)
            for block in find_session(SESSION)
            for command in block.commands()
        ]

        assert not (tmp_path / "failed.txt").exists(), printed
        addresses = [line.split()[-1] for line in (tmp_path / "todo.txt").read_text().splitlines()]
        assert {address.rpartition("/")[2] for address in addresses} == set(uids.values())
        found = json.loads((tmp_path / "found.json").read_text())["items"]
        assert all(item["secrets"] == ["podtune-s3"] for item in found)
        for user, name in lost:
            assert printed[-1].count(user.namespace) >= 1
            finish(user, name)
            assert user.get(EXPERIMENTS, name)["metadata"]["uid"] != uids[user.namespace, name]
            statuses = [trial["status"] for trial in user.list(TRIALS, f"podtune.dev/experiment={name}")]
            ends = [(status["lastResult"]["start"], status["lastResult"]["epoch"]) for status in statuses]
            assert ends == [(str(STORED), "8")] * 2, "each went on from its checkpoint"
