"""An experiment from `kubectl apply` to its end."""

from __future__ import annotations

import pytest

from e2e.devcluster import Cluster
from e2e.experiments import counter, experiment, store
from e2e.kubernetes import Kubernetes, condition, eventually
from e2e.trials import finish, live_pods
from podtune.trial.layout import TIME_TOTAL

COMPLETE = "Complete"
TRIALS = "trials.podtune.dev"


@pytest.mark.every_version
def test_a_small_experiment_completes_and_says_what_was_best(cluster: Cluster, namespace: Kubernetes) -> None:
    namespace.apply(experiment("small", counter(), checkpoints={"store": store(cluster), "keep": {"count": 2}}))
    namespace.wait_for_condition("experiments.podtune.dev", "small", COMPLETE)
    status = namespace.get("experiments.podtune.dev", "small")["status"]
    assert status["state"] == "Complete"
    assert status["trials"]["terminated"] == status["trials"]["total"] == 2
    assert status["observedGeneration"] == 1
    trials = {t["metadata"]["name"]: t for t in namespace.list("trials.podtune.dev")}
    assert sorted(trials) == ["small-0", "small-1"]
    best = max(trials.values(), key=lambda t: float(t["spec"]["parameters"]["base"]))
    assert status["best"]["trial"] == best["metadata"]["name"]
    assert float(status["best"]["value"]) == float(best["spec"]["parameters"]["base"]) * 0.75
    assert status["best"]["checkpoint"].startswith("s3://")
    for trial in trials.values():
        assert trial["status"]["state"] == "TERMINATED"
        assert trial["status"]["lastResult"]["epoch"] == "3"
        assert trial["status"]["curve"]["steps"] == [1, 2, 3]
        assert trial["status"]["attempt"] == 1
        assert [c["step"] for c in trial["status"]["checkpoints"]] == [2, 3]


def without_times(result: dict[str, str]) -> dict[str, str]:
    """A result without its training time, which is there, and no other: a status is to stay small."""
    assert 0 <= float(result["time_total_s"]) < 600
    return {name: value for name, value in result.items() if name != TIME_TOTAL}


def test_results_are_read_off_standard_output(namespace: Kubernetes) -> None:
    pattern = r"epoch=(?P<epoch>\d+) value=(?P<value>\S+)"
    namespace.apply(
        experiment("printed", counter({"STDOUT": "1", "EPOCHS": "4"}), results={"stdout": {"pattern": pattern}})
    )
    script = 'for e in 1 2 3; do echo "epoch $e:"; echo "value=0.$e"; echo "loss = 1e-$e"; done'
    named = r"epoch (?P<epoch>\d+):|(?P<name>[\w|-]+)\s*=\s*(?P<value>[+-]?\d*(\.\d+)?([Ee][+-]?\d+)?)"
    container = counter(image="localhost/busybox:1", command=["sh", "-c", script])
    search = {"algorithm": "random", "maxTrials": 1, "seed": 1}
    namespace.apply(experiment("named", container, search=search, results={"stdout": {"pattern": named}}))
    namespace.wait_for_condition("experiments.podtune.dev", "printed", COMPLETE)
    namespace.wait_for_condition("experiments.podtune.dev", "named", COMPLETE)
    trials = namespace.list(TRIALS)
    results = {trial["metadata"]["name"]: without_times(trial["status"]["lastResult"]) for trial in trials}
    assert results.pop("named-0") == {"value": "0.3", "epoch": "3", "loss": "0.001", "training_iteration": "3"}
    assert [(result["epoch"], result["training_iteration"]) for result in results.values()] == [("4", "4")] * 2


def test_results_of_a_shell_script_are_read_from_the_file(namespace: Kubernetes) -> None:
    script = (
        'for e in 1 2 3; do echo "{\\"epoch\\": $e, \\"value\\": $PODTUNE_PARAM_base}" >> /podtune/results.jsonl; done'
    )
    namespace.apply(
        experiment(
            "shell",
            counter(image="localhost/busybox:1", command=["sh", "-c", script]),
        )
    )
    namespace.wait_for_condition("experiments.podtune.dev", "shell", COMPLETE)
    for trial in namespace.list("trials.podtune.dev"):
        assert without_times(trial["status"]["lastResult"]) == {
            "epoch": "3",
            "value": trial["status"]["best"]["value"],
            "training_iteration": "3",
        }
        assert float(trial["status"]["best"]["value"]) == float(trial["spec"]["parameters"]["base"])


def test_parameters_come_by_file_environment_and_argument(namespace: Kubernetes) -> None:
    script = (
        "import json, sys; by_file = json.load(open('/podtune/parameters.json'))['base']; "
        "from podtune import trial; assert float(sys.argv[1]) == by_file == trial.params()['base']; "
        "trial.report({'value': by_file})"
    )
    namespace.apply(
        experiment("given", counter(command=["python3", "-c", script, "$(PODTUNE_PARAM_base)"]), maxConcurrentTrials=1)
    )
    namespace.wait_for_condition("experiments.podtune.dev", "given", COMPLETE)
    for trial in namespace.list("trials.podtune.dev"):
        assert trial["status"]["best"]["value"] == trial["spec"]["parameters"]["base"]


def test_never_more_pods_than_places_and_all_trials_get_their_turn(namespace: Kubernetes) -> None:
    namespace.apply(
        experiment(
            "queue",
            counter({"EPOCHS": "2", "HOLD_AT": "2"}),
            search={"algorithm": "random", "maxTrials": 6},
            maxConcurrentTrials=2,
        )
    )
    eventually(lambda: live_pods(namespace, "queue"), lambda pods: len(pods) >= 2, what="two run side by side")
    assert finish(namespace, "queue") == 2
    assert len(namespace.list("trials.podtune.dev")) == 6


def test_two_experiments_in_two_namespaces_do_not_meet(cluster: Cluster, namespace: Kubernetes) -> None:
    from e2e.tests.conftest import make_namespace

    other = make_namespace(cluster)
    try:
        for kubernetes, epochs in ((namespace, "2"), (other, "4")):
            kubernetes.apply(
                experiment(
                    "twin", counter({"EPOCHS": epochs}), checkpoints={"store": store(cluster)}, maxConcurrentTrials=2
                )
            )
        for kubernetes, epochs in ((namespace, "2"), (other, "4")):
            kubernetes.wait_for_condition("experiments.podtune.dev", "twin", COMPLETE)
            trials = kubernetes.list("trials.podtune.dev")
            assert len(trials) == 2
            assert {t["status"]["lastResult"]["epoch"] for t in trials} == {epochs}
    finally:
        other.kubectl("delete", "namespace", other.namespace, "--wait=false")


def test_a_grid_is_tried_whole_and_then_the_experiment_is_complete(namespace: Kubernetes) -> None:
    parameters = [{"name": "base", "choice": {"values": [1, 2, 3]}}]
    namespace.apply(
        experiment(
            "grid", counter({"EPOCHS": "1"}), parameters=parameters, search={"algorithm": "grid", "maxTrials": 10}
        )
    )
    namespace.wait_for_condition("experiments.podtune.dev", "grid", COMPLETE)
    resource = namespace.get("experiments.podtune.dev", "grid")
    assert condition(resource, COMPLETE)["reason"] == "SpaceExhausted"
    assert resource["status"]["best"]["parameters"] == {"base": "3"}


def test_a_trial_is_stopped_where_its_metric_reaches_the_threshold(namespace: Kubernetes) -> None:
    namespace.apply(experiment("enough", counter({"EPOCHS": "100000"}), stop={"metrics": {"epoch": 3}}))
    namespace.wait_for_condition("experiments.podtune.dev", "enough", COMPLETE)
    for trial in namespace.list("trials.podtune.dev"):
        assert trial["status"]["reason"] == "StoppedByCriterion"
        assert "epoch" in trial["status"]["message"]


def test_a_spec_that_cannot_work_is_stalled_with_the_remedy(namespace: Kubernetes) -> None:
    container = counter(volumeMounts=[{"name": "podtune-shared", "mountPath": "/podtune/mine"}])
    namespace.apply(experiment("wrong", container))
    namespace.wait_for_condition("experiments.podtune.dev", "wrong", "Stalled")
    stalled = condition(namespace.get("experiments.podtune.dev", "wrong"), "Stalled")
    assert "volumeMounts" in stalled["message"]
    assert namespace.list("trials.podtune.dev") == []
