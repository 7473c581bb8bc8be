"""A trial template that is changed while its experiment runs."""

from __future__ import annotations

import pytest

from e2e.devcluster import Cluster
from e2e.devcluster.errors import ClusterError
from e2e.experiments import Object, counter, experiment, store
from e2e.kubernetes import Kubernetes, condition, eventually
from e2e.trials import finish, trial_status

EXPERIMENTS, TRIALS = "experiments.podtune.dev", "trials.podtune.dev"
REVISION = "podtune.dev/template-revision"


def labels(namespace: Kubernetes) -> dict[str, str]:
    """Revisions by pod of a trial."""
    pods = namespace.list("pods", "podtune.dev/trial")
    return {pod["metadata"]["name"]: pod["metadata"]["labels"].get(REVISION, "") for pod in pods}


def kept(namespace: Kubernetes) -> dict[str, Object]:
    """By name, what the ControllerRevisions of an experiment hold."""
    return {item["metadata"]["name"]: item["data"] for item in namespace.list("controllerrevisions")}


def test_a_broken_image_is_mended_while_the_experiment_runs(namespace: Kubernetes) -> None:
    waits = {"maxFailures": 0, "startDeadline": "10m"}
    namespace.apply(experiment("mended", counter(image="localhost/none:1"), failures=waits))
    eventually(
        lambda: [trial.get("status", {}).get("reason") for trial in namespace.list(TRIALS)],
        lambda reasons: reasons == ["PullingImage", "PullingImage"],
        what="no pod finds its image",
    )
    first = namespace.get(EXPERIMENTS, "mended")["status"]["template"]["first"]
    assert set(labels(namespace).values()) == {first}
    assert list(kept(namespace)) == [f"mended-{first}"]

    namespace.apply(experiment("mended", counter(), failures=waits))
    namespace.wait_for_condition(EXPERIMENTS, "mended", "Complete")
    (present,) = namespace.get(EXPERIMENTS, "mended")["status"]["template"]["revisions"]
    assert (present["number"], present["name"] != first) == (2, True)
    for name in ("mended-0", "mended-1"):
        status = trial_status(namespace, name)
        assert (status["state"], status["attempt"], status["revision"]) == ("TERMINATED", 2, present["name"])
        assert (status.get("failures", 0), status.get("infrastructureFailures", 0)) == (0, 0)
        assert any("has changed before its pod could start" in entry["message"] for entry in status["ledger"])
    holds = kept(namespace)
    assert list(holds) == [f"mended-{present['name']}"], "nobody runs the first one any more"
    image = holds[f"mended-{present['name']}"]["trialTemplate"]["spec"]["containers"][0]["image"]
    assert image == counter()["image"]


def test_trials_that_run_keep_their_template_and_new_ones_take_the_present(
    cluster: Cluster, namespace: Kubernetes
) -> None:
    slow = {"EPOCHS": "6", "EPOCH_SECONDS": "0.5", "HOLD_AT": "4"}
    search = {"algorithm": "random", "maxTrials": 3, "seed": 1}
    checkpoints = {"store": store(cluster)}
    made = experiment(
        "changed",
        counter(slow),
        search=search,
        maxConcurrentTrials=1,
        checkpoints=checkpoints,
        podRetention="All",
    )
    namespace.apply(made)
    eventually(lambda: trial_status(namespace, "changed-0").get("iteration", 0) >= 1, what="the first trial trains")
    first = namespace.get(EXPERIMENTS, "changed")["status"]["template"]["first"]
    made["spec"]["trialTemplate"]["metadata"] = {"labels": {"team": "a"}}
    namespace.apply(made)
    told = eventually(
        lambda: condition(namespace.get(EXPERIMENTS, "changed"), "TemplateCurrent"),
        lambda found: found.get("status") == "False",
        what="it is told who runs the earlier template",
    )
    assert told["message"].startswith("1 trial runs template revision 1; ")
    made["spec"]["trialTemplate"]["replicas"] = 2
    with pytest.raises(ClusterError, match=r"replicas can't be changed once the experiment exists"):
        namespace.apply(made)
    finish(namespace, "changed")
    (present,) = set(labels(namespace).values()) - {first}
    assert labels(namespace) == {"changed-0-1": first, "changed-1-1": present, "changed-2-1": present}
    assert [trial_status(namespace, f"changed-{n}").get("revision", "") for n in range(3)] == ["", present, present]
