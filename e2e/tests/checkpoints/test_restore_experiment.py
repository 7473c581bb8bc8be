"""An experiment that is lost while it runs, made anew from its store alone: a bucket, or a volume.

Either its namespace is thrown away, or etcd with all that the cluster knows.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from typing import Any

import pytest
import yaml

from e2e.devcluster import Cluster, kind
from e2e.devcluster.errors import ClusterError
from e2e.devcluster.native import NativeCluster
from e2e.experiments import EXAMPLES_IMAGE, counter, experiment, program, store
from e2e.install import Image, build, install
from e2e.kubernetes import DEADLINE, Kubernetes, Object, eventually
from e2e.tests.conftest import make_namespace
from e2e.trials import EXPERIMENTS, OF_TRIALS, TRIALS, finish, let_go_on
from e2e.volumes import Volume, make_claim, provide_volume, set_free
from podtune.api.names import ANNOTATION_FORMER
from podtune.client import Client, Experiment, StoreOptions
from podtune.storage.snapshots.record_store import SNAPSHOT_FOLDER, parse_key

FIELDS: dict[str, Any] = {
    "search": {"algorithm": "tpe", "maxTrials": 5, "seed": 3, "tpe": {"startupTrials": 2}},
    "scheduler": {"asha": {"timeAttribute": "epoch", "maxTime": 8, "gracePeriod": 2, "reductionFactor": 2}},
    "maxConcurrentTrials": 1,
}
"""The search proposes the last three by what the first two reached; the scheduler stops one of each."""
CLAIM = "checkpoints"
ACCESS_MODE = "ReadWriteMany"


@dataclass(frozen=True)
class Store:
    """Where an experiment is stored that is lost.

    Attributes:
        spec: What its checkpoints.store says.
        root: What the address of its folder begins with.
        options: What else `restore` is told.
        list_keys: Lists what is in a folder.
        read: Reads a key.
        move: Has another namespace reach it, whose own objects are those of a new cluster.
        needs_pod: Whether every command that reads it starts a pod, which takes a while.
    """

    spec: Object
    root: str
    options: Sequence[str]
    list_keys: Callable[[str], list[str]]
    read: Callable[[str], Object]
    move: Callable[[Kubernetes], None]
    needs_pod: bool = False


@dataclass(frozen=True)
class Lost:
    """An experiment as it is lost: two trials have ended, one holds at its fifth epoch; its checkpoint is the fourth's.

    Attributes:
        stored: Where it is stored.
        uid: Of the Experiment.
        parameters: Of its Trials.
        ends: How the two trials have ended.
    """

    stored: Store
    uid: str
    parameters: dict[str, Object]
    ends: dict[str, tuple[str, str]]


def find_bucket(cluster: Cluster) -> Store:
    """The local S3 server's bucket; every namespace has its Secret."""
    client = cluster.s3_client
    return Store(
        store(cluster),
        f"s3://{cluster.s3.bucket}",
        ("--endpoint", cluster.s3.endpoint),
        lambda folder: [*client.list(f"{folder}/")],
        lambda key: json.loads(client.get(key)),
        lambda _: None,
    )


def claim_volume(namespace: Kubernetes, storage_class: str) -> Store:
    """A volume that outlives its claim, as after the loss of etcd."""

    def claim(user: Kubernetes) -> None:
        make_claim(user, CLAIM, storage_class, ACCESS_MODE)

    def claim_anew(user: Kubernetes) -> None:
        set_free(user.cluster, storage_class)
        claim(user)

    claim(namespace)
    volume = Volume(namespace, CLAIM)
    return Store(
        {"volume": {"claimName": CLAIM}, "prefix": "e2e"},
        f"volume://{CLAIM}",
        ("--agent-image", Image("agent").tag),
        volume.list,
        volume.read,
        claim_anew,
        needs_pod=True,
    )


def read_records(stored: Store, experiment: str) -> dict[str, Object]:
    """The newest record of each Trial that is stored, and the Experiment's own, by `RecordName.trial`."""
    found: dict[str, Object] = {}
    prefix = f"e2e/{experiment}/"
    for key in sorted(stored.list_keys(f"{prefix}{SNAPSHOT_FOLDER}")):  # the newest of each comes last
        name = parse_key(prefix, key)
        if name is not None:
            found[name.trial] = stored.read(key)
    return found


def find_parameters(trials: list[Object]) -> dict[str, Object]:
    return {trial["metadata"]["name"]: trial["spec"]["parameters"] for trial in trials}


def find_ends(trials: list[Object]) -> dict[str, tuple[str, str]]:
    """How trials have ended: that is what the scheduler has decided."""
    statuses = {trial["metadata"]["name"]: trial["status"] for trial in trials}
    return {name: (status["state"], status["reason"]) for name, status in statuses.items()}


def test_an_experiment_whose_namespace_is_lost_goes_on_from_the_bucket(cluster: Cluster, namespace: Kubernetes) -> None:
    check_restore(namespace, find_bucket(cluster))


@pytest.mark.long
def test_an_experiment_whose_namespace_is_lost_goes_on_from_its_volume(cluster: Cluster, namespace: Kubernetes) -> None:
    with provide_volume(cluster, namespace.namespace, ACCESS_MODE) as storage_class:
        check_restore(namespace, claim_volume(namespace, storage_class))


def climb(config: Mapping[str, Any]) -> Iterator[dict[str, float]]:
    """A function that is tuned; trials have its source alone."""
    for epoch in range(1, 4):
        yield {"value": config["base"] * epoch}


def test_a_namespace_may_go_as_soon_as_its_experiment_is_complete(cluster: Cluster, namespace: Kubernetes) -> None:
    """Its function goes with it; the store has its source, so that more trials can run."""
    stored = find_bucket(cluster)
    container = program("counter")
    del container["command"]
    made = Experiment.from_function(
        climb,
        name="over",
        metric="value",
        mode="max",
        parameters={"base": {"float": {"min": 0.5, "max": 1.0}}},
        image=EXAMPLES_IMAGE,
        store=stored.spec,
        search={"algorithm": "random", "seed": 1},
        max_trials=2,
        spec={"snapshot": {"period": "1h"}, "trialTemplate": {"spec": {"containers": [container]}}},
    )
    function = made.config_map
    assert function is not None
    Client(kubeconfig=cluster.kubeconfig, namespace=namespace.namespace).create(made)
    namespace.wait_for_condition(EXPERIMENTS, "over", "Complete")
    before, ended = namespace.get(EXPERIMENTS, "over"), find_ends(namespace.list(TRIALS))
    namespace.kubectl("delete", "namespace", namespace.namespace, "--wait=false")
    other = make_namespace(cluster)
    try:
        other.podtune("restore", f"{stored.root}/e2e/{before['metadata']['uid']}", *stored.options)
        assert find_ends(other.list(TRIALS)) == ended
        other.wait_for_condition(EXPERIMENTS, "over", "Complete")
        assert other.get(EXPERIMENTS, "over")["status"]["best"] == before["status"]["best"]
        assert {trial["status"]["attempt"] for trial in other.list(TRIALS)} == {1}, "none runs again"
        again = other.get("configmap", function["metadata"]["name"])
        assert again["data"] == function["data"]
        assert again["metadata"]["ownerReferences"][0]["name"] == "over"
        other.kubectl("patch", f"{EXPERIMENTS}/over", "--type=merge", "-p", '{"spec": {"search": {"maxTrials": 3}}}')
        last = eventually(
            lambda: [trial.get("status", {}) for trial in other.list(TRIALS)],
            lambda found: len(found) == 3 and all(status.get("completionTime") for status in found),
            what="one more trial runs the function",
        )[-1]
        assert (last["reason"], last["iteration"]) == ("Completed", 3)
    finally:
        other.kubectl("delete", "namespace", other.namespace, "--wait=false")


@pytest.mark.long
@pytest.mark.alone
@pytest.mark.skipif(kind.is_used(), reason="etcd can be thrown away only where it is a process of this machine")
def test_experiments_outlive_the_loss_of_etcd(cluster: Cluster, namespace: Kubernetes) -> None:
    """What is left: the bucket, and the data of a volume on its node.

    Users find a cluster without Experiments, Trials, Secrets and claims, where nothing of theirs runs any more:
    kubelets kill pods that the API server does not know. The operator is installed anew, the Secret and a claim to the
    volume are made anew, and `restore` does the rest.
    """
    assert isinstance(cluster, NativeCluster)
    with (
        made_namespaces(cluster, 1) as (another,),
        provide_volume(cluster, another.namespace, ACCESS_MODE) as storage_class,
    ):
        in_bucket = run_until_stored(namespace, find_bucket(cluster))
        on_volume = run_until_stored(another, claim_volume(another, storage_class))
        cluster.lose_etcd()
        install(cluster, build(cluster))
        assert cluster.kubectl("get", f"{EXPERIMENTS},{TRIALS}", "-A", "-o", "name") == ""
        eventually(lambda: not cluster.node_processes("n2")["pods"], what="nothing of before runs any more")
        with (
            made_namespaces(cluster, 3) as (first, second, undisturbed),
            provide_volume(cluster, storage_class, ACCESS_MODE),
        ):
            undisturbed.apply(experiment("lost", counter({"EPOCHS": "8"}), **FIELDS))
            check_goes_on(first, in_bucket, undisturbed)
            make_claim(second, CLAIM, storage_class, ACCESS_MODE)
            check_goes_on(second, on_volume, undisturbed)


@contextmanager
def made_namespaces(cluster: Cluster, count: int) -> Iterator[list[Kubernetes]]:
    """Some namespaces, with the bucket's credentials."""
    made = [make_namespace(cluster) for _ in range(count)]
    try:
        yield made
    finally:
        for user in made:
            user.kubectl("delete", "namespace", user.namespace, "--wait=false", "--ignore-not-found")


def check_restore(namespace: Kubernetes, stored: Store) -> None:
    """Its namespace is thrown away, and what it has in its store is restored in another one."""
    with made_namespaces(namespace.cluster, 2) as (other, undisturbed):
        undisturbed.apply(experiment("lost", counter({"EPOCHS": "8"}), **FIELDS))
        lost = run_until_stored(namespace, stored)
        gone = f"--timeout={DEADLINE:.0f}s"
        namespace.kubectl("delete", "namespace", namespace.namespace, gone, timeout=DEADLINE + 30)
        stored.move(other)
        said = check_goes_on(other, lost, undisturbed)
        assert re.search(r"^lost-2 +[45] +4 +5$", said, re.MULTILINE), "what runs again is listed"
        check_results(other, lost)
        if not stored.needs_pod:
            check_logs(other, lost)
            check_decisions(other, lost)
            check_results_in_python(other, lost)


def check_results(other: Kubernetes, lost: Lost) -> None:
    """Each result is told once, also those of trials that have not run since: they are in the former folder alone."""
    printed = other.podtune("results", "lost", "-o", "json", *lost.stored.options).splitlines()
    told = [(line["trial"], line["metrics"]["epoch"]) for line in map(json.loads, printed)]
    for trial in other.list(TRIALS):
        check_epochs(trial, [epoch for name, epoch in told if name == trial["metadata"]["name"]])


def check_epochs(trial: Object, epochs: list[int]) -> None:
    """All that a trial has reported is told once; one that was stopped may have told more than is on record."""
    assert epochs == [*range(1, len(epochs) + 1)], trial["metadata"]["name"]
    assert len(epochs) >= trial["status"]["iteration"]


def check_logs(other: Kubernetes, lost: Lost) -> None:
    """A log is told whole, first what is in the former folder."""
    told = {
        name: [
            int(epoch)
            for epoch in re.findall(
                r"^epoch (\d+)$", other.podtune("logs", name, "--stored", *lost.stored.options), re.MULTILINE
            )
        ]
        for name in ("lost-0", "lost-2")
    }
    check_epochs(other.get(TRIALS, "lost-0"), told["lost-0"])
    assert told["lost-2"] == [*range(1, 6), *range(5, 9)]


def check_decisions(other: Kubernetes, lost: Lost) -> None:
    """A file with all decisions has those on trials that have not run since."""
    exported = yaml.safe_load(other.podtune("export", "lost", "--decisions", "-o", "-", *lost.stored.options))
    stopped = {name for name, (_, reason) in lost.ends.items() if reason == "StoppedByScheduler"}
    assert stopped, "the scheduler stops one of the first two"
    for name in stopped:
        assert [each["action"] for each in exported["decisions"][name]].count("STOP") == 1


def check_results_in_python(other: Kubernetes, lost: Lost) -> None:
    """The table of the Python API has the same rows."""
    client = Client(
        kubeconfig=other.cluster.kubeconfig,
        namespace=other.namespace,
        store=StoreOptions(endpoint=other.cluster.s3.endpoint),
    )
    frame = client.get("lost").results_df(source="store")
    for name in lost.parameters:
        check_epochs(other.get(TRIALS, name), frame[frame["trial"] == name]["epoch"].tolist())


def check_goes_on(other: Kubernetes, lost: Lost, undisturbed: Kubernetes) -> str:
    """Restores an experiment, and holds it to one that nothing happened to; returns what `restore` has said."""
    said = other.podtune("restore", f"{lost.stored.root}/e2e/{lost.uid}", *lost.stored.options)
    assert "with 3 trials" in said
    eventually(lambda: list(other.get(EXPERIMENTS, "lost")["metadata"]["annotations"]) == [ANNOTATION_FORMER])
    assert find_parameters(other.list(TRIALS)).items() >= lost.parameters.items()
    finish(other, "lost")
    undisturbed.wait_for_condition(EXPERIMENTS, "lost", "Complete")
    ended = {trial["metadata"]["name"]: trial for trial in other.list(TRIALS)}
    assert int(ended["lost-2"]["status"]["lastResult"]["start"]) == 4, "it goes on from its checkpoint"
    assert ended["lost-2"]["status"]["lastResult"]["epoch"] == "8"
    assert ended["lost-0"]["status"]["attempt"] == 1, "what had ended does not run again"
    expected = undisturbed.list(TRIALS)
    assert find_parameters(list(ended.values())) == find_parameters(expected)
    assert find_ends(list(ended.values())) == find_ends(expected)
    return said


def run_until_stored(namespace: Kubernetes, stored: Store) -> Lost:
    """Runs an experiment until all of that is in its store which `Lost` names.

    Its pods may take little time at their ends: Kubernetes looks whether a namespace is empty after half of that.
    """
    container = counter({"EPOCHS": "8", "HOLD_AT": "6", "STORE_EACH": "2", "PRINT": "1"})
    checkpoints = {"store": stored.spec, "drain": "30s"}
    fields = {**FIELDS, "checkpoints": checkpoints, "snapshot": {"period": "5s"}, "logs": {"keep": "1Mi"}}
    namespace.apply(experiment("lost", container, **fields))
    uid = str(namespace.get(EXPERIMENTS, "lost")["metadata"]["uid"])

    def is_stored() -> bool:
        records = read_records(stored, uid)
        states = {name: record.get("status", {}).get("state") for name, record in records.items() if name}
        step = records.get("lost-2", {}).get("status", {}).get("checkpoint", {}).get("step")
        for name in ("lost-0", "lost-1"):
            if states.get(name) != "TERMINATED":
                with suppress(ClusterError):  # its pod is not there yet, or has ended
                    let_go_on(namespace, f"{OF_TRIALS}={name}")
        return (
            "" in records
            and states == {"lost-0": "TERMINATED", "lost-1": "TERMINATED", "lost-2": "RUNNING"}
            and step == 4
        )

    eventually(is_stored)
    trials = namespace.list(TRIALS)
    return Lost(stored, uid, find_parameters(trials), find_ends([t for t in trials if "completionTime" in t["status"]]))
