"""Pausing, suspending, stopping and going on, as users ask for it: GPUs really given back, training really gone on."""

from __future__ import annotations

import pytest

from e2e.devcluster import Cluster
from e2e.experiments import counter, experiment, store
from e2e.kubernetes import Kubernetes, Object, condition, eventually
from e2e.trials import epochs_of_attempt, finish

TRIALS, EXPERIMENTS = "trials.podtune.dev", "experiments.podtune.dev"
ONE = {"algorithm": "random", "maxTrials": 1}
EPOCHS = 8
HELD = {"EPOCHS": str(EPOCHS), "HOLD_AT": "4"}
"""Trains on its own up to epoch 3; one that goes on from a checkpoint is not held."""


def status_of(namespace: Kubernetes, name: str, kind: str = TRIALS) -> Object:
    status: Object = namespace.get(kind, name).get("status", {})
    return status


def pods_of(namespace: Kubernetes, experiment: str) -> list[Object]:
    return [
        pod
        for pod in namespace.list("pods", f"podtune.dev/experiment={experiment},podtune.dev/trial")
        if pod["status"].get("phase") not in ("Succeeded", "Failed")
    ]


def has_checkpoint(namespace: Kubernetes, trial: str, step: int = 2) -> bool:
    return int(status_of(namespace, trial).get("checkpoint", {}).get("step", 0)) >= step


def end_of(namespace: Kubernetes, experiment: str) -> Object:
    return condition(namespace.get(EXPERIMENTS, experiment), "Complete")


@pytest.mark.every_version
def test_a_paused_trial_gives_its_gpu_back_and_goes_on_with_new_values(cluster: Cluster, namespace: Kubernetes) -> None:
    namespace.apply(
        experiment("pause", counter(HELD), search=ONE, checkpoints={"store": store(cluster), "keep": {"count": 2}})
    )
    eventually(lambda: has_checkpoint(namespace, "pause-0"))
    assert "will pause" in namespace.podtune("pause", "pause-0")
    paused = eventually(lambda: status_of(namespace, "pause-0"), lambda status: status.get("state") == "PAUSED")
    assert paused["reason"] == "PausedByUser"
    eventually(lambda: not pods_of(namespace, "pause"), what="the GPU is free")
    step = paused["checkpoint"]["step"]
    assert step >= paused["iteration"] - 1, "what was learnt is stored"
    namespace.podtune("resume", "pause-0", "--set", "base=0.75")
    again = eventually(
        lambda: status_of(namespace, "pause-0"),
        lambda status: status.get("attempt") == 2 and status.get("iteration", 0) > paused["iteration"],
    )
    assert again["parameters"] == {"base": "0.75"}
    namespace.wait_for_condition(EXPERIMENTS, "pause", "Complete")
    done = status_of(namespace, "pause-0")
    assert (done["state"], done["attempt"], done["iteration"]) == ("TERMINATED", 2, EPOCHS)
    assert float(done["lastResult"]["value"]) == 0.75 * (1 - 1 / (EPOCHS + 1))
    assert done["lastResult"]["start"] == str(step)
    assert "CONFIGURE" in [entry["action"] for entry in done["ledger"]]


def test_a_suspended_experiment_holds_no_gpu_and_goes_on_where_it_was(cluster: Cluster, namespace: Kubernetes) -> None:
    search = {"algorithm": "random", "maxTrials": 3}
    namespace.apply(experiment("suspend", counter(HELD), search=search, checkpoints={"store": store(cluster)}))
    eventually(lambda: all(has_checkpoint(namespace, f"suspend-{index}") for index in (0, 1)))
    namespace.podtune("pause", "suspend")
    namespace.wait_for_condition(EXPERIMENTS, "suspend", "Suspended")
    assert pods_of(namespace, "suspend") == []
    assert status_of(namespace, "suspend", EXPERIMENTS)["state"] == "Suspended"
    before = [status_of(namespace, f"suspend-{index}") for index in (0, 1)]
    assert [(status["state"], status["reason"]) for status in before] == [("PAUSED", "Suspended")] * 2
    namespace.podtune("resume", "suspend")
    finish(namespace, "suspend")
    for index, earlier in enumerate(before):
        status = status_of(namespace, f"suspend-{index}")
        assert (status["iteration"], status.get("failures", 0)) == (EPOCHS, 0)
        assert status["lastResult"]["start"] == str(earlier["checkpoint"]["step"])


def test_an_experiment_is_stopped_and_goes_on_after_its_end(cluster: Cluster, namespace: Kubernetes) -> None:
    namespace.apply(experiment("stop", counter(HELD), search=ONE, checkpoints={"store": store(cluster)}))
    eventually(lambda: has_checkpoint(namespace, "stop-0"))
    namespace.podtune("stop", "stop")
    namespace.wait_for_condition(EXPERIMENTS, "stop", "Complete")
    assert end_of(namespace, "stop")["reason"] == "StoppedByUser"
    stopped = status_of(namespace, "stop-0")
    assert (stopped["state"], stopped["reason"]) == ("TERMINATED", "StoppedByExperiment")
    assert stopped["checkpoint"]["step"] >= stopped["iteration"] - 1, "the last checkpoint was stored"
    namespace.podtune("resume", "stop")
    eventually(
        lambda: end_of(namespace, "stop"),
        lambda end: (end.get("status"), end.get("reason")) == ("True", "TrialsComplete"),
    )
    done = status_of(namespace, "stop-0")
    assert (done["attempt"], done["iteration"]) == (2, EPOCHS)
    assert done["lastResult"]["start"] == str(stopped["checkpoint"]["step"])


def test_more_trials_continue_a_complete_experiment(cluster: Cluster, namespace: Kubernetes) -> None:
    namespace.apply(experiment("more", counter(), search=ONE, checkpoints={"store": store(cluster)}))
    namespace.wait_for_condition(EXPERIMENTS, "more", "Complete")
    first = status_of(namespace, "more-0")
    patch = '{"spec": {"search": {"maxTrials": 2}}}'
    namespace.kubectl("patch", f"{EXPERIMENTS}/more", "--type=merge", "-p", patch)
    done = eventually(
        lambda: status_of(namespace, "more", EXPERIMENTS), lambda status: status["trials"].get("terminated") == 2
    )
    assert done["resumption"]["runGeneration"] == 1
    namespace.wait_for_condition(EXPERIMENTS, "more", "Complete")
    assert status_of(namespace, "more-0") == first, "what was done is done"


def test_a_trial_is_stopped_while_it_waits_and_while_it_runs(cluster: Cluster, namespace: Kubernetes) -> None:
    search = {"algorithm": "random", "maxTrials": 2}
    namespace.apply(
        experiment("halt", counter(HELD), search=search, maxConcurrentTrials=1, checkpoints={"store": store(cluster)})
    )
    eventually(lambda: has_checkpoint(namespace, "halt-0"))
    namespace.podtune("pause", "halt-0")
    eventually(lambda: status_of(namespace, "halt-0").get("state") == "PAUSED")
    namespace.podtune("stop", "trial/halt-0")
    assert eventually(lambda: status_of(namespace, "halt-0").get("reason")) in ("StoppedByUser", "PausedByUser")
    eventually(lambda: status_of(namespace, "halt-0").get("reason") == "StoppedByUser")
    eventually(lambda: status_of(namespace, "halt-1").get("state") == "RUNNING")
    namespace.podtune("stop", "halt-1")
    namespace.wait_for_condition(EXPERIMENTS, "halt", "Complete")
    assert status_of(namespace, "halt-1")["reason"] == "StoppedByUser"


def test_a_trial_starts_from_another_experiments_checkpoint(cluster: Cluster, namespace: Kubernetes) -> None:
    checkpoints = {"store": store(cluster)}
    initial = [{"parameters": {"base": 0.6}, "restoreFrom": {"experiment": "donor", "trial": "donor-0"}}]
    heir = experiment("heir", counter({"EPOCHS": "6"}), search={**ONE, "initial": initial}, checkpoints=checkpoints)
    namespace.apply(heir)
    eventually(lambda: status_of(namespace, "heir-0").get("reason") == "WaitingForCheckpoint")
    namespace.apply(experiment("donor", counter(), search=ONE, checkpoints=checkpoints))
    namespace.wait_for_condition(EXPERIMENTS, "heir", "Complete")
    status = status_of(namespace, "heir-0")
    donated = int(status["restoreSource"]["step"])
    assert donated >= 1
    assert (status["state"], status["iteration"]) == ("TERMINATED", 6)
    assert status["lastResult"]["start"] == str(donated)
    assert "/donor-0/" in status["restoreSource"]["uri"]
    assert float(status["lastResult"]["value"]) == 0.6 * (1 - 1 / 7)


def test_a_checkpoint_that_is_gone_is_told_of(cluster: Cluster, namespace: Kubernetes) -> None:
    checkpoints = {"store": store(cluster)}
    namespace.apply(experiment("giver", counter(), search=ONE, checkpoints=checkpoints))
    namespace.wait_for_condition(EXPERIMENTS, "giver", "Complete")
    wanted = {"experiment": "giver", "trial": "giver-0", "step": 77}
    initial = [{"parameters": {"base": 0.6}, "restoreFrom": wanted}]
    namespace.apply(experiment("taker", counter(), search={**ONE, "initial": initial}, checkpoints=checkpoints))
    namespace.wait_for_condition(EXPERIMENTS, "taker", "Failed")
    status = status_of(namespace, "taker-0")
    assert (status["state"], status["reason"]) == ("ERROR", "CheckpointUnavailable")
    assert "giver-0 no longer has a checkpoint of iteration 77" in status["message"]


def test_a_trial_deleted_by_hand_goes_on_from_its_checkpoint(cluster: Cluster, namespace: Kubernetes) -> None:
    namespace.apply(experiment("again", counter(HELD), search=ONE, checkpoints={"store": store(cluster)}))
    eventually(lambda: has_checkpoint(namespace, "again-0", step=3))
    before = namespace.get(TRIALS, "again-0")
    namespace.kubectl("delete", TRIALS, "again-0")
    made_anew = eventually(
        lambda: namespace.get(TRIALS, "again-0"),
        lambda trial: trial["metadata"]["uid"] != before["metadata"]["uid"] and trial.get("status", {}).get("ledger"),
    )
    former = made_anew["spec"]["former"]
    assert former["uid"] == before["metadata"]["uid"]
    step = former["checkpoints"][-1]["step"]
    assert step >= 3
    entry = made_anew["status"]["ledger"][0]
    assert (entry["action"], entry["inputs"]) == ("RECREATE", {"checkpoint": str(step)})
    goes_on = f"continues from the checkpoint of iteration {step}"
    assert goes_on in entry["message"]
    told = eventually(lambda: [e["message"] for e in namespace.list("events") if e["reason"] == "TrialMadeAnew"])
    assert [message for message in told if message.startswith("again-0 was recreated") and goes_on in message]
    namespace.wait_for_condition(EXPERIMENTS, "again", "Complete")
    status = status_of(namespace, "again-0")
    assert (status["state"], status["attempt"], status["iteration"]) == ("TERMINATED", 1, EPOCHS)
    assert status["lastResult"]["start"] == str(step)
    assert epochs_of_attempt(cluster, status["checkpoint"]["uri"]) == list(range(step + 1, EPOCHS + 1))
