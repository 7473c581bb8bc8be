"""Work in the bucket without a running trial: done by storage pods, against a real S3 server."""

from __future__ import annotations

import hashlib
import json
from pathlib import Path

import pytest

from e2e.devcluster import Cluster
from e2e.devcluster.errors import ClusterError
from e2e.experiments import counter, experiment, store
from e2e.kubernetes import DEADLINE, Kubernetes, Object, eventually
from e2e.tests.conftest import make_namespace, store_secret
from e2e.trials import finish, trial_status
from podtune.api.names import ANNOTATION_FORMER

EXPERIMENTS = "experiments.podtune.dev"
TRIALS = "trials.podtune.dev"


def job(namespace: Kubernetes, name: str, purpose: str) -> Object:
    jobs = (namespace.get(EXPERIMENTS, name)["status"].get("storage") or {}).get("jobs", [])
    return next((job for job in jobs if job["purpose"] == purpose), {})


def keys(cluster: Cluster, prefix: str) -> list[str]:
    return sorted(cluster.s3_client.list(prefix))


def manifests(cluster: Cluster, prefix: str) -> list[str]:
    return [key for key in keys(cluster, prefix) if key.endswith("/manifest.json")]


def key_of(cluster: Cluster, uri: str) -> str:
    return uri.removeprefix(f"s3://{cluster.s3.bucket}/")


def test_an_ended_experiment_leaves_as_many_checkpoints_as_are_to_be_kept(
    cluster: Cluster, namespace: Kubernetes
) -> None:
    namespace.apply(
        experiment(
            "tidy", counter({"EPOCHS": "4"}), checkpoints={"store": store(cluster), "keep": {"count": 1, "by": "best"}}
        )
    )
    namespace.wait_for_condition(EXPERIMENTS, "tidy", "Complete")
    namespace.wait_for_condition(EXPERIMENTS, "tidy", "BucketPruned")
    done = job(namespace, "tidy", "Prune")
    assert done["state"] == "Done", done
    uid = namespace.get(EXPERIMENTS, "tidy")["metadata"]["uid"]
    recorded = [c["uri"] for trial in namespace.list(TRIALS) for c in trial["status"]["checkpoints"]]
    assert manifests(cluster, f"e2e/{uid}/") == sorted(f"{key_of(cluster, uri)}/manifest.json" for uri in recorded)
    assert len(recorded) == 2
    eventually(lambda: namespace.list("pods", "podtune.dev/storage"), lambda pods: not pods)
    eventually(lambda: namespace.list("configmaps", "podtune.dev/experiment=tidy"), lambda found: not found)


def test_stopped_trials_keep_nothing_but_the_best_while_others_run(cluster: Cluster, namespace: Kubernetes) -> None:
    """The first trial waits in the middle; the others are stopped, the last of them as one that is not the best."""
    scheduler = {"asha": {"timeAttribute": "epoch", "maxTime": 4, "gracePeriod": 1, "reductionFactor": 2}}
    initial = [{"parameters": {"base": base}} for base in (1.0, 0.5, 0.6, 0.55)]
    made = experiment(
        "halving",
        counter({"EPOCHS": "4", "HOLD_AT": "2"}),
        checkpoints={"store": store(cluster), "keep": {"stopped": 0}},
        search={"algorithm": "random", "maxTrials": 4, "seed": 1, "initial": initial},
        scheduler=scheduler,
        maxConcurrentTrials=1,
    )
    namespace.apply(made)
    # The others are compared with the first, so its result has to be there before theirs.
    eventually(lambda: trial_status(namespace, "halving-0").get("iteration") == 1, what="the first has a result")
    made["spec"]["maxConcurrentTrials"] = 2
    namespace.apply(made)

    def read_stopped() -> dict[str, Object]:
        trials = {trial["metadata"]["name"]: trial.get("status", {}) for trial in namespace.list(TRIALS)}
        return {name: status for name, status in trials.items() if status.get("state") == "TERMINATED"}

    stopped = eventually(read_stopped, lambda stopped: len(stopped) == 3, what="all but the first are stopped")
    assert {status["reason"] for status in stopped.values()} == {"StoppedByScheduler"}
    assert stopped["halving-3"]["decision"]["discards"]
    uid = namespace.get(EXPERIMENTS, "halving")["metadata"]["uid"]
    eventually(lambda: manifests(cluster, f"e2e/{uid}/halving-3/"), lambda found: not found)
    best = eventually(read_stopped, lambda now: [name for name in now if now[name].get("checkpoints")] == ["halving-2"])
    assert "lostCheckpoint" not in best["halving-3"]
    finish(namespace, "halving")
    namespace.wait_for_condition(EXPERIMENTS, "halving", "BucketPruned")
    recorded = [c["uri"] for trial in namespace.list(TRIALS) for c in trial["status"].get("checkpoints", ())]
    assert {uri.split("/")[-3] for uri in recorded} == {"halving-0"}
    assert manifests(cluster, f"e2e/{uid}/") == sorted(f"{key_of(cluster, uri)}/manifest.json" for uri in recorded)


def download(cluster: Cluster, namespace: Kubernetes, name: str, folder: Path) -> str:
    """Downloads a checkpoint; Experiments name the store's server as pods find it, which this machine does not."""
    words = ("checkpoints", "download", name, str(folder), "--endpoint", cluster.s3.endpoint)
    return namespace.podtune(*words)


def test_a_checkpoint_is_downloaded_whole_or_not_at_all(
    cluster: Cluster, namespace: Kubernetes, tmp_path: Path
) -> None:
    program = counter({"EPOCHS": "3", "WEIGHTS_MIB": "2"})
    checkpoints = {"store": store(cluster), "layout": "Packed"}
    namespace.apply(experiment("fetched", program, checkpoints=checkpoints))
    namespace.wait_for_condition(EXPERIMENTS, "fetched", "Complete")
    folder = tmp_path / "weights"
    said = download(cluster, namespace, "fetched-0", folder)
    assert said.startswith(f"{folder}: iteration 3 of fetched-0, 2 files")
    best = namespace.get(EXPERIMENTS, "fetched")["status"]["best"]
    manifest = json.loads(cluster.s3_client.get(f"{key_of(cluster, best['checkpoint'])}/manifest.json"))
    download(cluster, namespace, "fetched", tmp_path / "best")
    for file in manifest["files"]:
        assert hashlib.sha256((tmp_path / "best" / file["path"]).read_bytes()).hexdigest() == file["sha256"]
    latest = namespace.get(TRIALS, "fetched-0")["status"]["checkpoint"]["uri"]
    key = next(key for key in keys(cluster, f"{key_of(cluster, latest)}/") if "/packs/" in key or "/data/" in key)
    content = cluster.s3_client.get(key)
    cluster.s3_client.put(key, bytes([content[0] ^ 1]) + content[1:])
    with pytest.raises(ClusterError, match="is damaged: its size or its SHA-256 is not what the manifest says"):
        download(cluster, namespace, "fetched-0", tmp_path / "damaged")
    assert not (tmp_path / "damaged").exists()


def slow(cluster: Cluster, name: str, drain: str = "10m") -> Object:
    """An experiment that runs until it is deleted, with a checkpoint every half second."""
    program = counter({"EPOCHS": "10000", "EPOCH_SECONDS": "0.5"})
    return experiment(name, program, checkpoints={"store": store(cluster), "deletionPolicy": "Delete", "drain": drain})


def started(namespace: Kubernetes, name: str) -> str:
    """Waits until there is a checkpoint; the experiment's UID."""
    eventually(lambda: any(t.get("status", {}).get("checkpoint") for t in namespace.list(TRIALS)))
    found: Object = namespace.get(EXPERIMENTS, name)["metadata"]
    assert found["finalizers"] == ["podtune.dev/checkpoints"]
    return str(found["uid"])


def test_a_deleted_experiment_takes_with_it_all_that_it_has_stored(cluster: Cluster, namespace: Kubernetes) -> None:
    namespace.apply(slow(cluster, "gone"))
    uid = started(namespace, "gone")
    assert keys(cluster, f"e2e/{uid}/")
    namespace.kubectl("delete", EXPERIMENTS, "gone", f"--timeout={DEADLINE:.0f}s", timeout=DEADLINE + 30)
    assert keys(cluster, f"e2e/{uid}/") == []
    eventually(lambda: namespace.list("pods"), lambda pods: not pods)


def delete_without_keys(cluster: Cluster, namespace: Kubernetes, name: str) -> str:
    """Deletes an experiment with checkpoints whose Secret has come to have wrong keys; its UID.

    Agents can't store their last checkpoints then, so they are given little time for it.
    """
    namespace.apply(slow(cluster, name, drain="5s"))
    uid = started(namespace, name)
    namespace.kubectl("delete", "secret", "podtune-s3")
    namespace.apply(store_secret("nobody", "wrong"))
    namespace.kubectl("delete", EXPERIMENTS, name, "--wait=false")
    return uid


def test_a_bucket_that_can_not_be_emptied_is_tried_again(cluster: Cluster, namespace: Kubernetes) -> None:
    uid = delete_without_keys(cluster, namespace, "refused")
    refused = eventually(
        lambda: job(namespace, "refused", "Purge"), lambda job: job.get("state") == "Waiting", what="a try has failed"
    )
    assert "podtune-s3" in refused["message"]
    assert keys(cluster, f"e2e/{uid}/")
    namespace.apply(store_secret(cluster.s3.access_key, cluster.s3.secret_key))
    words = ["wait", "--for=delete", f"{EXPERIMENTS}/refused", f"--timeout={DEADLINE:.0f}s"]
    namespace.kubectl(*words, timeout=DEADLINE + 30)
    assert keys(cluster, f"e2e/{uid}/") == []


@pytest.mark.long
def test_where_the_bucket_can_not_be_emptied_a_warning_names_what_is_left(
    cluster: Cluster, namespace: Kubernetes
) -> None:
    """After five tries, with a pause before each that is twice as long as the one before."""
    uid = delete_without_keys(cluster, namespace, "denied")
    namespace.kubectl("wait", "--for=delete", f"{EXPERIMENTS}/denied", "--timeout=400s", timeout=420)
    (event,) = [e for e in namespace.list("events") if e["reason"] == "CheckpointsLeft"]
    assert event["type"] == "Warning"
    assert f"s3://{cluster.s3.bucket}/e2e/{uid}/" in event["message"]


@pytest.mark.long
def test_a_corrected_secret_reaches_trials_that_run(cluster: Cluster, namespace: Kubernetes) -> None:
    """As long as the kubelet takes to bring a mounted Secret up to date."""
    namespace.apply(store_secret(cluster.s3.access_key, "not the key"))
    namespace.apply(slow(cluster, "corrected"))
    trials = eventually(
        lambda: namespace.list(TRIALS),
        lambda found: [t for t in found if "correct the keys" in problem(t)] == found != [],
    )
    assert all("Secret 'podtune-s3'" in problem(trial) for trial in trials)
    before = sorted(pod["metadata"]["uid"] for pod in namespace.list("pods"))
    namespace.apply(store_secret(cluster.s3.access_key, cluster.s3.secret_key))
    eventually(
        lambda: namespace.list(TRIALS),
        lambda found: all(t["status"].get("checkpoint") and not problem(t) for t in found),
    )
    assert sorted(pod["metadata"]["uid"] for pod in namespace.list("pods")) == before
    pod = namespace.list("pods")[0]["metadata"]["name"]
    assert mounted_keys(namespace, pod, "trial") == set()
    assert mounted_keys(namespace, pod, "podtune-agent") == {"accessKeyID", "secretAccessKey"}
    namespace.kubectl("delete", "secret", "podtune-s3")
    eventually(lambda: mounted_keys(namespace, pod, "podtune-agent"), lambda keys: not keys)
    stored = [trial["status"]["checkpoint"]["step"] for trial in namespace.list(TRIALS)]
    eventually(
        lambda: [trial["status"]["checkpoint"]["step"] for trial in namespace.list(TRIALS)],
        lambda steps: all(now > then + 5 for now, then in zip(steps, stored, strict=True)),
    )


def mounted_keys(namespace: Kubernetes, pod: str, container: str) -> set[str]:
    """The keys of the store's Secret that a container sees."""
    program = "import glob, os; print(*map(os.path.basename, glob.glob('/etc/podtune/credentials/podtune-s3/*')))"
    return set(namespace.kubectl("exec", pod, "-c", container, "--", "python3", "-c", program).split())


def problem(trial: Object) -> str:
    """What a trial says of its store; empty where there is nothing to say."""
    conditions = trial.get("status", {}).get("conditions", [])
    return next((c["message"] for c in conditions if c["type"] == "CheckpointsStored" and c["status"] == "False"), "")


def test_a_namespace_is_not_held_up(cluster: Cluster, namespace: Kubernetes) -> None:
    """Its pods may take little time: Kubernetes looks again after half of what a pod may take, ended or not."""
    namespace.apply(slow(cluster, "held", drain="10s"))
    started(namespace, "held")
    namespace.kubectl("delete", "namespace", namespace.namespace, f"--timeout={DEADLINE:.0f}s", timeout=DEADLINE + 30)


def test_the_best_checkpoint_is_exported_with_a_model_card_before_the_experiment_is_complete(
    cluster: Cluster, namespace: Kubernetes
) -> None:
    place = f"s3://{cluster.s3.bucket}/models/{namespace.namespace}"
    checkpoints = {"store": store(cluster), "export": {"to": place}, "deletionPolicy": "Delete"}
    namespace.apply(experiment("model", counter(), checkpoints=checkpoints))
    namespace.wait_for_condition(EXPERIMENTS, "model", "Complete")
    status = namespace.get(EXPERIMENTS, "model")["status"]
    best = status["best"]
    assert best["exported"] == f"{place}/best"
    root = key_of(cluster, best["exported"])
    card = json.loads(cluster.s3_client.get(f"{root}/model-card.json"))
    assert card["experiment"]["name"] == "model"
    assert card["trial"] == best["trial"]
    assert card["parameters"] == best["parameters"]
    assert card["checkpoint"]["uri"] == best["checkpoint"]
    manifest = cluster.s3_client.get(f"{root}/manifest.json")
    assert card["manifest"] == f"sha256:{hashlib.sha256(manifest).hexdigest()}"
    state = cluster.s3_client.get(f"{root}/data/state.json")
    assert hashlib.sha256(state).hexdigest() == json.loads(manifest)["files"][0]["sha256"]
    namespace.kubectl("delete", EXPERIMENTS, "model", f"--timeout={DEADLINE:.0f}s", timeout=DEADLINE + 30)
    assert cluster.s3_client.get(f"{root}/data/state.json") == state, "an export outlives its experiment"


def test_an_experiment_is_deleted_some_time_after_its_end(namespace: Kubernetes) -> None:
    namespace.apply(experiment("brief", counter({"EPOCHS": "1"}), ttlSecondsAfterFinished=3))
    words = ["wait", "--for=delete", f"{EXPERIMENTS}/brief", f"--timeout={DEADLINE:.0f}s"]
    namespace.kubectl(*words, timeout=DEADLINE + 30)
    eventually(lambda: namespace.list(TRIALS), lambda trials: not trials)


@pytest.mark.long
def test_a_half_done_experiment_goes_on_in_another_namespace(cluster: Cluster, namespace: Kubernetes) -> None:
    program = counter({"EPOCHS": "8", "HOLD_AT": "4"})
    search = {"algorithm": "random", "maxTrials": 3, "seed": 3}
    namespace.apply(experiment("moves", program, checkpoints={"store": store(cluster)}, search=search))
    eventually(lambda: any(t.get("status", {}).get("checkpoint") for t in namespace.list(TRIALS)))
    namespace.kubectl("patch", EXPERIMENTS, "moves", "--type=merge", "-p", '{"spec": {"suspend": true}}')
    eventually(
        lambda: namespace.get(EXPERIMENTS, "moves")["status"],
        lambda status: (
            status["trials"].get("running", 0) == 0
            and any(c["type"] == "Suspended" and c["status"] == "True" for c in status["conditions"])
        ),
    )
    archive = namespace.podtune("export", "moves", "-o", "-")
    paused = {t["metadata"]["name"]: t for t in namespace.list(TRIALS)}
    other = make_namespace(cluster)
    try:
        other.podtune("import", "-", stdin=archive)
        eventually(lambda: list(other.get(EXPERIMENTS, "moves")["metadata"]["annotations"]) == [ANNOTATION_FORMER])
        imported = {t["metadata"]["name"]: t for t in other.list(TRIALS)}
        assert imported.keys() == paused.keys()
        other.kubectl("patch", EXPERIMENTS, "moves", "--type=merge", "-p", '{"spec": {"suspend": false}}')
        finish(other, "moves")
        ended = {t["metadata"]["name"]: t for t in other.list(TRIALS)}
        assert sorted(ended) == ["moves-0", "moves-1", "moves-2"]
        for name, before in paused.items():
            assert ended[name]["spec"]["parameters"] == before["spec"]["parameters"]
        begun = [name for name, trial in paused.items() if trial["status"].get("checkpoint")]
        for name in begun:
            step = paused[name]["status"]["checkpoint"]["step"]
            assert int(ended[name]["status"]["lastResult"]["start"]) >= step, "it goes on from its checkpoint"
            assert ended[name]["status"]["lastResult"]["epoch"] == "8"
    finally:
        other.kubectl("delete", "namespace", other.namespace, "--wait=false")
