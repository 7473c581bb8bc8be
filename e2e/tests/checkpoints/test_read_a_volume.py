"""What a person reads from a volume: through a pod with that person's own rights, which is gone afterwards."""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from e2e.devcluster import Cluster
from e2e.devcluster.errors import ClusterError
from e2e.experiments import counter, experiment
from e2e.kubernetes import Kubernetes, eventually
from e2e.person import Person
from e2e.trials import finish, trial_status
from e2e.volumes import make_claim, provide_volume

EXPERIMENTS = "experiments.podtune.dev"
CLAIM = "checkpoints"
STORE = {"volume": {"claimName": CLAIM}, "prefix": "team"}
READERS = "podtune.dev/reader"
KILLED = """
import os, sys, pathlib
from podtune.cli.client.api_client import open_api
from podtune.cli.client.resources import get_experiment
from podtune.cli.client.store_access import StoreOptions, open_experiment_store
api, namespace = open_api(pathlib.Path(sys.argv[1]), None, sys.argv[2])
with open_experiment_store(api, get_experiment(api, namespace, "kept"), StoreOptions()) as opened:
    next(opened.store.list(""))
    os.kill(os.getpid(), 9)
"""
"""A command line that is killed while it reads."""


@pytest.fixture(params=["ReadWriteMany", pytest.param("ReadWriteOnce", marks=pytest.mark.long)])
def kept(cluster: Cluster, namespace: Kubernetes, request: pytest.FixtureRequest) -> Iterator[Kubernetes]:
    """A namespace with an experiment whose first trial waits in its third epoch, and that stores on a volume."""
    with provide_volume(cluster, namespace.namespace, request.param) as storage_class:
        make_claim(namespace, CLAIM, storage_class, request.param)
        program = counter({"EPOCHS": "4", "HOLD_AT": "3", "PRINT": "1", "WEIGHTS_MIB": "40"})
        checkpoints = {"store": STORE, "layout": "Packed"}
        search = {"algorithm": "random", "maxTrials": 1, "seed": 1}
        namespace.apply(experiment("kept", program, search=search, checkpoints=checkpoints, logs={"keep": "1Mi"}))
        eventually(lambda: trial_status(namespace, "kept-0").get("checkpoint", {}).get("step") == 2)
        yield namespace


def read_epochs(person: Person) -> list[Any]:
    lines = person.podtune("results", "kept", "-o", "json").splitlines()
    return [json.loads(line)["metrics"]["epoch"] for line in lines]


def test_somebody_with_the_role_edit_reads_from_a_volume_while_trials_run_and_afterwards(
    cluster: Cluster, kept: Kubernetes, tmp_path: Path
) -> None:
    """Somebody who may only look is told which rights are missing."""
    ada = Person(cluster, kept, "edit", tmp_path)
    eventually(lambda: read_epochs(ada) == [1, 2], what="the results so far are read")
    command = [sys.executable, "-c", KILLED, str(ada.kubeconfig), kept.namespace]
    assert cluster.run(command, check=False).returncode in (-9, 137)
    # Nobody has deleted it; those of the readers before are going.
    (left,) = [pod["metadata"] for pod in kept.list("pods", READERS) if "deletionTimestamp" not in pod["metadata"]]
    assert left["ownerReferences"][0]["kind"] == "Experiment"
    finish(kept, "kept")
    assert read_epochs(ada) == [1, 2, 3, 4]
    assert "==> attempt 1, rank 0 <==" in ada.podtune("logs", "kept-0", "--stored")
    said = ada.podtune("checkpoints", "download", "kept-0", str(tmp_path / "weights"))
    assert said.startswith(f"{tmp_path}/weights: iteration 4 of kept-0, 2 files, 41,")
    assert json.loads((tmp_path / "weights" / "state.json").read_text()) == {"epoch": 4}
    uri = kept.get(EXPERIMENTS, "kept")["status"]["best"]["checkpoint"]
    ada.podtune("checkpoints", "download", uri, str(tmp_path / "best"))
    assert (tmp_path / "best" / "state.json").exists()
    # On a slow machine, somebody who has read after its end has deleted it already.
    eventually(
        lambda: [p["status"]["phase"] for p in kept.list("pods", READERS) if p["metadata"]["uid"] == left["uid"]],
        lambda phases: phases in (["Succeeded"], []),
        what="the pod whose reader was killed has ended by itself",
    )
    assert read_epochs(ada) == [1, 2, 3, 4]
    eventually(lambda: kept.list("pods", READERS), lambda pods: not pods, what="the next reader has deleted it")
    with pytest.raises(ClusterError, match=r"you may not create pods in namespace e2e-.* and create on pods/exec"):
        Person(cluster, kept, "view", tmp_path).podtune("results", "kept")
