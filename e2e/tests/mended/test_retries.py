"""What a person asks of a trial that runs: another attempt, or a checkpoint now."""

from __future__ import annotations

import pytest

from e2e.devcluster import Cluster
from e2e.devcluster.errors import ClusterError
from e2e.experiments import counter, experiment, store
from e2e.kubernetes import Kubernetes, eventually
from e2e.trials import finish, trial_status

EXPERIMENTS = "experiments.podtune.dev"
REVISION = "podtune.dev/template-revision"
ONE = {"algorithm": "random", "maxTrials": 1, "seed": 1}


def test_a_running_trial_that_is_retried_takes_the_changed_template(cluster: Cluster, namespace: Kubernetes) -> None:
    held = {"EPOCHS": "6", "HOLD_AT": "4"}
    strict = {"maxFailures": 0, "maxDisruptions": 0}
    made = experiment(
        "retried",
        counter(held),
        search=ONE,
        checkpoints={"store": store(cluster)},
        failures=strict,
        podRetention="All",
    )
    namespace.apply(made)
    eventually(
        lambda: trial_status(namespace, "retried-0"),
        lambda status: status.get("state") == "RUNNING" and status.get("iteration", 0) >= 3,
        what="it waits at epoch 4",
    )
    first = namespace.get(EXPERIMENTS, "retried")["status"]["template"]["first"]
    assert namespace.get("pods", "retried-0-1")["metadata"]["labels"][REVISION] == first
    made["spec"]["trialTemplate"]["metadata"] = {"labels": {"team": "a"}}
    namespace.apply(made)
    assert "attempt 1 of trial retried-0 stores a checkpoint" in namespace.podtune("retry", "retried-0")
    eventually(lambda: trial_status(namespace, "retried-0"), lambda status: status.get("attempt") == 2)
    finish(namespace, "retried")
    status = trial_status(namespace, "retried-0")
    assert (status["state"], status["attempt"], status["retriedAttempt"]) == ("TERMINATED", 2, 1)
    assert [status.get(counter, 0) for counter in ("failures", "disruptions", "infrastructureFailures")] == [0, 0, 0]
    assert status["lastResult"]["start"] == "3", "it went on from its checkpoint"
    labels = namespace.get("pods", "retried-0-2")["metadata"]["labels"]
    assert labels[REVISION] == status["revision"] != first
    assert labels["team"] == "a"
    assert "is retried by request" in namespace.podtune("why", "retried-0")


def test_a_trial_goes_back_to_an_earlier_checkpoint(cluster: Cluster, namespace: Kubernetes) -> None:
    """Of its checkpoints of epochs 1, 2 and 3, it goes on from the first."""
    held = {"EPOCHS": "6", "HOLD_AT": "4"}
    kept = {"store": store(cluster), "keep": {"count": 8}}
    strict = {"maxFailures": 0, "maxDisruptions": 0}
    namespace.apply(experiment("back", counter(held), search=ONE, checkpoints=kept, failures=strict))
    eventually(
        lambda: trial_status(namespace, "back-0").get("checkpoints", []),
        lambda checkpoints: [checkpoint["step"] for checkpoint in checkpoints] == [1, 2, 3],
        what="its first three epochs are stored",
    )
    with pytest.raises(ClusterError, match="the checkpoints of these iterations are kept: 1, 2, 3"):
        namespace.podtune("retry", "back-0", "--step", "5")
    assert "goes on from the checkpoint of iteration 1" in namespace.podtune("retry", "back-0", "--step", "1")
    eventually(lambda: trial_status(namespace, "back-0"), lambda status: status.get("attempt") == 2)
    finish(namespace, "back")
    status = trial_status(namespace, "back-0")
    assert (status["state"], status["attempt"], status["iteration"]) == ("TERMINATED", 2, 6)
    assert [status.get(counter, 0) for counter in ("failures", "disruptions", "infrastructureFailures")] == [0, 0, 0]
    assert status["lastResult"]["start"] == "1", "it went on from the checkpoint that was chosen"
    assert "from the checkpoint of iteration 1" in namespace.podtune("why", "back-0")


def test_a_trial_stores_a_checkpoint_by_request_and_goes_on(cluster: Cluster, namespace: Kubernetes) -> None:
    """The program takes one only when it is asked, and trains on until it is told to end."""
    endless = {"EPOCHS": "100000", "ON_REQUEST": "1", "UNTIL_GO": "1"}
    namespace.apply(experiment("asked", counter(endless), search=ONE, checkpoints={"store": store(cluster)}))
    eventually(lambda: trial_status(namespace, "asked-0").get("iteration", 0) >= 2, what="it trains")
    assert "checkpoint" not in trial_status(namespace, "asked-0")
    uri = namespace.podtune("checkpoint", "asked-0", "--wait").split()[-1]
    status = trial_status(namespace, "asked-0")
    assert status["checkpointRequest"]["checkpoint"]["uri"] == uri == status["checkpoint"]["uri"]
    assert (status["state"], status["attempt"]) == ("RUNNING", 1)
    finish(namespace, "asked")
    status = trial_status(namespace, "asked-0")
    assert (status["state"], status["attempt"]) == ("TERMINATED", 1)
    assert status["iteration"] >= status["checkpoint"]["step"]
    assert status["checkpoint"]["uri"] == uri, "nobody has asked for another"
