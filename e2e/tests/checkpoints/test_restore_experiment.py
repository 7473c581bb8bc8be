"""An experiment whose namespace is thrown away while it runs, made anew from the bucket alone."""

from __future__ import annotations

import json
from contextlib import suppress
from typing import Any

from e2e.devcluster import Cluster
from e2e.devcluster.errors import ClusterError
from e2e.experiments import counter, experiment, store
from e2e.kubernetes import DEADLINE, Kubernetes, Object, eventually
from e2e.tests.conftest import make_namespace
from e2e.trials import OF_TRIALS, finish, let_go_on

EXPERIMENTS, TRIALS = "experiments.podtune.dev", "trials.podtune.dev"
SEARCH = {"algorithm": "tpe", "maxTrials": 5, "seed": 3}


def read_records(cluster: Cluster, prefix: str) -> dict[str, Object]:
    """The newest record of each Trial that is in the bucket, and of the Experiment, whose name is empty."""
    found: dict[str, Object] = {}
    for key in sorted(cluster.s3_client.list(f"{prefix}_snapshot/")):  # the newest of each comes last
        kind, _, rest = key.removeprefix(f"{prefix}_snapshot/").partition("/")
        found[rest.partition("/")[0] if kind == "trials" else ""] = json.loads(cluster.s3_client.get(key))
    return found


def find_parameters(trials: list[Object]) -> dict[str, Object]:
    return {trial["metadata"]["name"]: trial["spec"]["parameters"] for trial in trials}


def test_an_experiment_whose_namespace_is_lost_goes_on_from_the_bucket(cluster: Cluster, namespace: Kubernetes) -> None:
    """Two trials end, one holds at its fifth epoch with a checkpoint of the fourth when all objects go."""
    program = counter({"EPOCHS": "8", "HOLD_AT": "5"})
    fields: dict[str, Any] = {"search": SEARCH, "maxConcurrentTrials": 1, "snapshot": {"period": "5s"}}
    namespace.apply(experiment("lost", program, checkpoints={"store": store(cluster)}, **fields))
    prefix = f"e2e/{namespace.get(EXPERIMENTS, 'lost')['metadata']['uid']}/"

    def is_stored() -> bool:
        records = read_records(cluster, prefix)
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
    before = find_parameters(namespace.list(TRIALS))
    namespace.kubectl("delete", "namespace", namespace.namespace, f"--timeout={DEADLINE:.0f}s", timeout=DEADLINE + 30)
    other, undisturbed = make_namespace(cluster), make_namespace(cluster)
    try:
        undisturbed.apply(experiment("lost", counter({"EPOCHS": "8"}), **fields))
        address = f"s3://{cluster.s3.bucket}/{prefix.rstrip('/')}"
        said = other.podtune("restore", address, "--endpoint", cluster.s3.endpoint)
        assert "with 3 trials" in said
        eventually(lambda: "annotations" not in other.get(EXPERIMENTS, "lost")["metadata"])
        assert find_parameters(other.list(TRIALS)).items() >= before.items()
        finish(other, "lost")
        undisturbed.wait_for_condition(EXPERIMENTS, "lost", "Complete")
        ended = {trial["metadata"]["name"]: trial for trial in other.list(TRIALS)}
        assert int(ended["lost-2"]["status"]["lastResult"]["start"]) == 4, "it goes on from its checkpoint"
        assert ended["lost-2"]["status"]["lastResult"]["epoch"] == "8"
        assert ended["lost-0"]["status"]["attempt"] == 1, "what had ended does not run again"
        assert find_parameters(list(ended.values())) == find_parameters(undisturbed.list(TRIALS))
    finally:
        for made in (other, undisturbed):
            made.kubectl("delete", "namespace", made.namespace, "--wait=false")
