"""What is in the bucket of trials that run, and of pods that have vanished."""

from __future__ import annotations

import json
import time
from datetime import datetime

import pytest

from e2e.devcluster import Cluster
from e2e.experiments import counter, experiment, store
from e2e.kubernetes import Kubernetes, Object, eventually
from e2e.trials import read_stored_logs, read_stored_results, trial_status

EXPERIMENTS = "experiments.podtune.dev"
EPOCHS = 60
HELD = {"HOLD_AT": str(EPOCHS - 2)}
"""Does not end before its pod vanishes, however long a slow machine takes for that."""
BEHIND = 10.0
"""Seconds that the bucket may be behind a program."""
STORING = 6.0
"""Seconds more that storing may take, on a slow machine."""
ON_THEIR_WAY = 2.0
"""Seconds more that lines may take to come from the kubelet."""
ONE = {"algorithm": "random", "maxTrials": 1}
STDOUT = {"stdout": {"pattern": r"epoch=(?P<epoch>\d+) value=(?P<value>\S+)"}}


@pytest.mark.parametrize("results", [{}, pytest.param(STDOUT, marks=pytest.mark.long)], ids=["reported", "printed"])
def test_a_pod_that_vanishes_has_left_its_results(cluster: Cluster, namespace: Kubernetes, results: Object) -> None:
    environment = {"EPOCHS": str(EPOCHS), "EPOCH_SECONDS": "0.5"} | ({"STDOUT": "1"} if results else HELD)
    namespace.apply(
        experiment("vanished", counter(environment), search=ONE, checkpoints={"store": store(cluster)}, results=results)
    )
    uid = namespace.get(EXPERIMENTS, "vanished")["metadata"]["uid"]

    def read() -> list[tuple[int, int, int, float]]:
        stored = read_stored_results(cluster, f"e2e/{uid}/", "vanished-0")
        assert not any(found.missed for found in stored)
        return [(s.number, s.result.seq, int(s.result.metrics["epoch"]), s.result.time) for s in stored]

    before = eventually(read, lambda found: len(found) >= EPOCHS // 4)
    assert time.time() - before[-1][3] <= BEHIND + STORING
    namespace.kubectl("delete", "pod", "vanished-0-1", "--force", "--grace-period=0")
    namespace.wait_for_condition(EXPERIMENTS, "vanished", "Complete")
    after = read()
    assert after[: len(before)] == before
    assert trial_status(namespace, "vanished-0")["folder"] == f"s3://{cluster.s3.bucket}/e2e/{uid}/vanished-0/"
    for attempt in (1, 2):
        seqs, epochs = zip(*[(seq, epoch) for number, seq, epoch, _ in after if number == attempt], strict=True)
        assert seqs == tuple(range(1, len(seqs) + 1))
        assert epochs == tuple(range(epochs[0], epochs[0] + len(epochs)))
    assert after[-1][2] == EPOCHS
    words = ("results", "vanished-0", "--output", "json", "--endpoint", cluster.s3.endpoint)
    printed = [json.loads(line) for line in namespace.podtune(*words).splitlines()]
    assert [(line["attempt"], line["metrics"]["epoch"]) for line in printed] == [
        (attempt, epoch) for attempt, _, epoch, _ in after
    ]


def test_a_pod_that_vanishes_has_left_its_log(cluster: Cluster, namespace: Kubernetes) -> None:
    program = counter({"EPOCHS": str(EPOCHS), "EPOCH_SECONDS": "0.5", "PRINT": "1", **HELD})
    checkpoints = {"store": store(cluster)}
    namespace.apply(experiment("logged", program, search=ONE, checkpoints=checkpoints, logs={"keep": "1Mi"}))
    uid = namespace.get(EXPERIMENTS, "logged")["metadata"]["uid"]

    def read() -> list[tuple[int, str, float]]:
        stored = read_stored_logs(cluster, f"e2e/{uid}/", "logged-0")
        assert not any(line.missed for line in stored)
        return [(line.number, line.text, datetime.fromisoformat(line.time).timestamp()) for line in stored]

    before = eventually(read, lambda found: len(found) >= EPOCHS // 4)
    vanished = time.time()
    namespace.kubectl("delete", "pod", "logged-0-1", "--force", "--grace-period=0")
    namespace.wait_for_condition(EXPERIMENTS, "logged", "Complete")
    after = read()
    assert after[: len(before)] == before
    assert vanished - max(time for number, _, time in after if number == 1) <= BEHIND + ON_THEIR_WAY + STORING
    first, second = ([text for number, text, _ in after if number == attempt] for attempt in (1, 2))
    assert first == [f"epoch {n}" for n in range(1, len(first) + 1)]
    resumed = int(second[0].removeprefix("resumed from epoch "))
    assert second[1:] == [f"epoch {n}" for n in range(resumed + 1, EPOCHS + 1)]
    said = namespace.podtune("logs", "logged-0", "--stored", "--endpoint", cluster.s3.endpoint)
    titled = ["==> attempt 1, rank 0 <==", *first, "==> attempt 2, rank 0 <==", *second]
    assert said.splitlines() == titled
