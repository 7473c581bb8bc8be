"""Schedulers that pause, promote and clone trials: GPUs really given back, weights really taken over."""

from __future__ import annotations

from pathlib import Path

import pytest

from e2e.devcluster import Cluster
from e2e.experiments import counter, experiment, program, store
from e2e.kubernetes import Kubernetes, Object, eventually
from e2e.trials import Escort, finish
from podtune.dashboard.charts.lineage.stretches import read_population, trace_lineage
from podtune.dashboard.sources import open_archive
from podtune.dashboard.trial_rows import collect_rows

TRIALS = "trials.podtune.dev"


def actions(trial: Object) -> list[str]:
    return [entry["action"] for entry in trial["status"].get("ledger", [])]


def pods_of(namespace: Kubernetes, trial: str) -> list[Object]:
    """The pods of a trial that hold a GPU."""
    pods = namespace.list("pods", f"podtune.dev/trial={trial}")
    return [pod for pod in pods if pod["status"]["phase"] in ("Pending", "Running")]


def rungs(name: str, scheduler: Object, cluster: Cluster, trials: int) -> Object:
    """An experiment in which trials are paused after epochs 1 and 2, and the best of them run up to 4."""
    return experiment(
        name,
        counter({"EPOCHS": "4", "HOLD_EACH": "1"}),
        checkpoints={"store": store(cluster)},
        search={"algorithm": "random", "maxTrials": trials, "seed": 3},
        scheduler=scheduler,
        maxConcurrentTrials=2,
    )


def check_promotions(namespace: Kubernetes) -> None:
    """The promoted trials have gone on from their checkpoints, and the best one is among them."""
    trials = namespace.list(TRIALS)
    promoted = [trial for trial in trials if "PROMOTE" in actions(trial)]
    assert promoted
    assert len(promoted) < len(trials), "somebody has to be left behind"
    for trial in promoted:
        status = trial["status"]
        assert status["attempt"] >= 2
        assert status["failures"] == 0
        assert int(status["lastResult"]["start"]) >= 1, "it began anew instead of going on from its checkpoint"
        assert int(status["lastResult"]["epoch"]) > int(status["lastResult"]["start"])
    best = max(trials, key=lambda trial: float(trial["spec"]["parameters"]["base"]))
    assert best["metadata"]["name"] in {trial["metadata"]["name"] for trial in promoted}
    assert best["status"]["lastResult"]["epoch"] == "4"


def test_asha_promotion_frees_the_gpu_of_a_paused_trial_and_resumes_the_best(
    cluster: Cluster, namespace: Kubernetes
) -> None:
    scheduler = {"ashaPromotion": {"timeAttribute": "epoch", "maxTime": 4, "gracePeriod": 1, "reductionFactor": 2}}
    namespace.apply(rungs("promotion", scheduler, cluster, trials=5))
    programs = Escort(namespace, "promotion")
    paused = eventually(lambda: [t for t in programs.go_on() if t.get("status", {}).get("state") == "PAUSED"])[0]
    assert paused["status"]["reason"] == "PausedByScheduler"
    assert paused["status"]["checkpoint"]["step"] >= 1
    pods = pods_of(namespace, paused["metadata"]["name"])
    if "PROMOTE" not in actions(namespace.get(TRIALS, paused["metadata"]["name"])):
        assert pods == []
    programs.finish()
    check_promotions(namespace)


@pytest.mark.long
def test_hyperband_waits_for_a_bracket_and_resumes_its_best(cluster: Cluster, namespace: Kubernetes) -> None:
    scheduler = {"hyperband": {"timeAttribute": "epoch", "maxTime": 4, "reductionFactor": 2}}
    namespace.apply(rungs("bands", scheduler, cluster, trials=5))
    Escort(namespace, "bands").finish()
    trials = namespace.list(TRIALS)
    assert {trial["status"]["state"] for trial in trials} == {"TERMINATED"}
    assert any("PROMOTE" in actions(trial) and int(trial["status"]["lastResult"]["start"]) >= 1 for trial in trials)


def test_an_exploit_takes_over_the_donors_weights_and_a_new_configuration(
    cluster: Cluster, namespace: Kubernetes, tmp_path: Path
) -> None:
    namespace.apply(
        experiment(
            "population",
            program("population", {"EPOCHS": "6", "EPOCH_SECONDS": "0.5"}),
            parameters=[{"name": "rate", "float": {"min": 0.1, "max": 1.0}}],
            checkpoints={"store": store(cluster)},
            search={"algorithm": "random", "maxTrials": 4, "seed": 5},
            scheduler={"pbt": {"timeAttribute": "epoch", "interval": 2, "resampleProbability": 0}},
            maxConcurrentTrials=4,
        )
    )
    eventually(
        lambda: [trial for trial in namespace.list(TRIALS) if "parameters" in trial.get("status", {})],
        what="a trial clones another",
    )
    finish(namespace, "population")
    trials = namespace.list(TRIALS)
    clones = [trial for trial in trials if "parameters" in trial["status"]]
    assert clones
    # A clone of a clone has the weights of the first donor, which has cloned nobody: clones stay below it.
    donated = {trial["status"]["lastResult"]["weights"] for trial in trials if trial not in clones}
    for clone in clones:
        status = clone["status"]
        assert status["attempt"] >= 2
        assert status["failures"] == 0
        assert status["lastResult"]["weights"] in donated
        assert status["parameters"] != clone["spec"]["parameters"]
        assert float(status["lastResult"]["rate"]) == float(status["parameters"]["rate"])
    check_ancestry(namespace, cluster, tmp_path / "population.yaml")


def check_ancestry(namespace: Kubernetes, cluster: Cluster, file: Path) -> None:
    """With all decisions of the store, the dashboard leads each trial's weights back to who they are from."""
    words = ("export", "population", "--decisions", "--endpoint", cluster.s3.endpoint, "-o", str(file))
    namespace.podtune(*words)
    source = open_archive(file)
    (view,) = source.list_experiments()
    population = read_population(collect_rows(view, source.list_trials(view.namespace, view.name)))
    weights = {row.name: row.view.status.last_result["weights"] for row in population.experiment.rows}
    assert population.exploits
    assert population.unexplained == 0
    for name, own in weights.items():
        lineage = trace_lineage(population, name)
        assert lineage is not None
        assert lineage.lack == ""
        root = lineage.ancestors[0].stretch.row.name
        assert population.stretches[root][0] is lineage.ancestors[0].stretch
        if len(population.stretches[root]) == 1:
            assert weights[root] == own
