"""A person adds trials of their own, by manifest and by command, while the experiment runs."""

from __future__ import annotations

from pathlib import Path

import pytest

from e2e.devcluster import Cluster
from e2e.devcluster.errors import ClusterError
from e2e.experiments import Object, counter, experiment, store
from e2e.kubernetes import Kubernetes, condition, eventually
from e2e.person import Person
from e2e.trials import finish, trial_status

EXPERIMENTS, TRIALS = "experiments.podtune.dev", "trials.podtune.dev"
EPOCHS = 8
HELD = {"EPOCHS": str(EPOCHS), "HOLD_AT": "4"}


def own_trial(number: int, base: str, **spec: object) -> Object:
    made = {"experiment": "own", "parameters": {"base": base}, **spec}
    return {
        "apiVersion": "podtune.dev/v1alpha1",
        "kind": "Trial",
        "metadata": {"name": f"own-{number}"},
        "spec": made,
    }


def test_trials_of_ones_own_run_beside_the_proposals(cluster: Cluster, namespace: Kubernetes, tmp_path: Path) -> None:
    search = {"algorithm": "random", "maxTrials": 1, "seed": 1}
    namespace.apply(
        experiment("own", counter(HELD), search=search, maxConcurrentTrials=3, checkpoints={"store": store(cluster)})
    )
    eventually(lambda: int(trial_status(namespace, "own-0").get("checkpoint", {}).get("step", 0)) >= 2)

    for wrong, words in (
        (own_trial(7, "0.6"), "with a number from 100000 on"),
        (own_trial(100000, "0.6", index=1), "spec.index is for the operator to set"),
        (own_trial(100000, "0.6", seed=3), "are for the operator to set"),
        (own_trial(100000, "0.6", restoreFrom={"experiment": "x", "trial": "x-0"}), "a trial of another experiment"),
    ):
        with pytest.raises(ClusterError, match=words):
            namespace.apply(wrong)

    namespace.apply(own_trial(100000, "0.6", restoreFrom={"trial": "own-0"}), own_trial(100001, "7"))
    ada = Person(cluster, namespace, "edit", tmp_path)
    assert "own-100002 is added" in ada.podtune("try", "own", "--set", "base=0.95")
    refused = eventually(
        lambda: condition(namespace.get(TRIALS, "own-100001"), "Accepted"), lambda found: found.get("status") == "False"
    )
    assert "spec.parameters.base: '7' is not a value of the parameter" in refused["message"]

    finish(namespace, "own")
    status = trial_status(namespace, "own-100000")
    assert (status["state"], status["iteration"]) == ("TERMINATED", EPOCHS)
    assert "/own-0/" in status["restoreSource"]["uri"]
    assert status["lastResult"]["start"] == str(status["restoreSource"]["step"])
    adopted = namespace.get(TRIALS, "own-100000")["metadata"]
    assert [owner["name"] for owner in adopted["ownerReferences"]] == ["own"]
    found = namespace.get(EXPERIMENTS, "own")["status"]
    assert (found["trials"]["total"], found["trials"]["added"], found["trials"]["terminated"]) == (3, 2, 3)
    assert found["best"]["trial"] == "own-100002"
    assert "comes from a person" in namespace.podtune("why", "own-100002")
    assert not [pod for pod in namespace.list("pods") if "own-100001" in pod["metadata"]["name"]]
    assert len(namespace.list(TRIALS)) == 4, "no proposal was made for them"
