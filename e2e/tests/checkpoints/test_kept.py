"""What is in the bucket of trials that run, and of pods that have vanished."""

from __future__ import annotations

import json
import re

import pytest

from e2e.devcluster import Cluster
from e2e.experiments import counter, experiment, store
from e2e.kubernetes import Kubernetes, Object, eventually
from e2e.trials import EXPERIMENTS, finish, read_stored_logs, read_stored_results, trial_status

EPOCHS = 14
HELD_AT = 12
"""Before this epoch the program waits: it does not end before its pod vanishes, however long that takes."""
ONE = {"algorithm": "random", "maxTrials": 1}
STDOUT = {"stdout": {"pattern": r"epoch=(?P<epoch>\d+) value=(?P<value>\S+)"}}


def find_epochs(log: list[str]) -> list[int]:
    """The epochs that a program has printed the begin or the result of."""
    return [int(found[1]) for line in log if (found := re.match(r"epoch[ =](\d+)", line))]


@pytest.mark.parametrize("results", [{}, pytest.param(STDOUT, marks=pytest.mark.long)], ids=["reported", "printed"])
def test_a_pod_that_vanishes_has_left_its_results_and_its_log(
    cluster: Cluster, namespace: Kubernetes, results: Object
) -> None:
    environment = {"EPOCHS": str(EPOCHS), "EPOCH_SECONDS": "0.5", "HOLD_AT": str(HELD_AT)}
    program = counter(environment | {"STDOUT" if results else "PRINT": "1"})
    checkpoints = {"store": store(cluster)}
    namespace.apply(
        experiment("vanished", program, search=ONE, checkpoints=checkpoints, results=results, logs={"keep": "1Mi"})
    )
    uid = namespace.get(EXPERIMENTS, "vanished")["metadata"]["uid"]
    folder = f"e2e/{uid}/"

    def read() -> list[tuple[int, int, int]]:
        stored = read_stored_results(cluster, folder, "vanished-0")
        assert not any(found.missed for found in stored)
        return [(found.number, found.result.seq, int(found.result.metrics["epoch"])) for found in stored]

    def read_log() -> list[tuple[int, str]]:
        stored = read_stored_logs(cluster, folder, "vanished-0")
        assert not any(line.missed for line in stored)
        return [(line.number, line.text) for line in stored]

    # All that the program has told is stored while its attempt goes on.
    before = eventually(read, lambda found: len(found) == HELD_AT - 1)
    logged = eventually(read_log, lambda found: len(found) == HELD_AT - 1)
    namespace.kubectl("delete", "pod", "vanished-0-1", "--force", "--grace-period=0")
    finish(namespace, "vanished")
    after, log = read(), read_log()
    assert after[: len(before)] == before
    assert log[: len(logged)] == logged
    assert trial_status(namespace, "vanished-0")["folder"] == f"s3://{cluster.s3.bucket}/{folder}vanished-0/"
    said = {number: [text for attempt, text in log if attempt == number] for number in (1, 2)}
    for number, last in ((1, HELD_AT - 1), (2, EPOCHS)):
        seqs, epochs = zip(*[(seq, epoch) for attempt, seq, epoch in after if attempt == number], strict=True)
        assert seqs == tuple(range(1, len(seqs) + 1))
        assert list(epochs) == list(range(epochs[0], last + 1)) == find_epochs(said[number])
    if not results:
        assert said[2][0] == f"resumed from epoch {find_epochs(said[2])[0] - 1}"

    server = ("--endpoint", cluster.s3.endpoint)
    printed = [
        json.loads(line) for line in namespace.podtune("results", "vanished-0", "-o", "json", *server).splitlines()
    ]
    assert [(line["attempt"], line["metrics"]["epoch"]) for line in printed] == [
        (attempt, epoch) for attempt, _, epoch in after
    ]
    titled = ["==> attempt 1, rank 0 <==", *said[1], "==> attempt 2, rank 0 <==", *said[2]]
    assert namespace.podtune("logs", "vanished-0", "--stored", *server).splitlines() == titled
