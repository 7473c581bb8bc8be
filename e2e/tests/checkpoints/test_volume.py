"""A volume in place of a bucket: clones, pauses, exports and deletion, without any server."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from e2e.devcluster import Cluster
from e2e.experiments import counter, experiment, program
from e2e.kubernetes import DEADLINE, Kubernetes, Object, eventually
from e2e.trials import finish, live_pods, trial_status
from e2e.volumes import Volume, make_claim, provide_volume

EXPERIMENTS = "experiments.podtune.dev"
TRIALS = "trials.podtune.dev"
CLAIM = "checkpoints"
STORE = {"volume": {"claimName": CLAIM}, "prefix": "team"}


@pytest.fixture
def volume(cluster: Cluster, namespace: Kubernetes, request: pytest.FixtureRequest) -> Iterator[Volume]:
    access_mode = getattr(request, "param", "ReadWriteMany")
    with provide_volume(cluster, namespace.namespace, access_mode) as storage_class:
        make_claim(namespace, CLAIM, storage_class, access_mode)
        yield Volume(namespace, CLAIM)


def find_path(uri: str) -> str:
    return uri.removeprefix(f"volume://{CLAIM}/")


def test_clones_and_pauses_go_on_from_a_volume(namespace: Kubernetes, volume: Volume) -> None:
    namespace.apply(
        experiment(
            "population",
            program("population", {"EPOCHS": "6", "EPOCH_SECONDS": "0.5"}),
            parameters=[{"name": "rate", "float": {"min": 0.1, "max": 1.0}}],
            checkpoints={"store": STORE, "export": {}},
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
    assert best["exported"] == f"volume://{CLAIM}/team/exports/population/best"
    card = volume.read(f"{find_path(best['exported'])}/model-card.json")
    assert card["trial"] == best["trial"]
    assert card["checkpoint"]["uri"] == best["checkpoint"]
    assert not [path for path in volume.list() if "/.podtune-" in path], "nothing unfinished is left"


@pytest.mark.parametrize("volume", ["ReadWriteOnce"], indirect=True)
def test_trials_that_share_a_node_are_retried_from_a_volume_that_no_program_sees(
    namespace: Kubernetes, volume: Volume
) -> None:
    container = counter({"EPOCHS": "5", "HOLD_AT": "4", "CRASH_AT": "4"})
    namespace.apply(experiment("again", container, checkpoints={"store": STORE}))
    names = ("again-0", "again-1")
    eventually(
        lambda: [trial_status(namespace, name).get("checkpoint") for name in names],
        all,
        what="two trials beside each other store checkpoints",
    )
    pods = live_pods(namespace, "again")
    assert len(pods) == 2, "both wait"
    assert len({pod["spec"]["nodeName"] for pod in pods}) == 1
    for pod in pods:
        (term,) = pod["spec"]["affinity"]["podAffinity"]["requiredDuringSchedulingIgnoredDuringExecution"]
        assert term["topologyKey"] == "kubernetes.io/hostname", "also where other nodes have room for it"
        assert term["labelSelector"]["matchLabels"].items() <= pod["metadata"]["labels"].items()
    finish(namespace, "again")
    for name in names:
        status = trial_status(namespace, name)
        assert (status["attempt"], status["iteration"]) == (2, 5)
        assert int(status["lastResult"]["start"]) >= 1, "it goes on from its checkpoint"
        path = find_path(status["checkpoint"]["uri"])
        assert volume.read(f"{path}/data/state.json") == {"epoch": status["checkpoint"]["step"]}
    for pod in namespace.list("pods", "podtune.dev/trial"):
        (program,) = pod["spec"]["containers"]
        assert "podtune-store" not in [mount["name"] for mount in program["volumeMounts"]]


def test_nothing_is_left_on_it_of_an_experiment_that_is_to_be_deleted(namespace: Kubernetes, volume: Volume) -> None:
    checkpoints: Object = {"store": STORE, "deletionPolicy": "Delete"}
    endless = counter({"EPOCHS": "10000", "EPOCH_SECONDS": "0.5"})
    namespace.apply(experiment("gone", endless, checkpoints=checkpoints))
    eventually(lambda: any(t.get("status", {}).get("checkpoint") for t in namespace.list(TRIALS)))
    uid = namespace.get(EXPERIMENTS, "gone")["metadata"]["uid"]
    assert volume.list(f"team/{uid}")
    namespace.kubectl("delete", EXPERIMENTS, "gone", f"--timeout={DEADLINE:.0f}s", timeout=DEADLINE + 30)
    assert volume.list("team") == []
