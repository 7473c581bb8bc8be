"""An Experiment of a Git repository: each commit is applied, and the operator leaves it as the commit has it."""

from __future__ import annotations

import json
from typing import Any

from e2e.devcluster import Cluster
from e2e.experiments import counter, experiment, store
from e2e.kubernetes import Kubernetes, Object, eventually
from podtune.api.names import FIELD_MANAGER
from tests.gitops import flux
from tests.gitops.argo_cd import ArgoCustomization
from tests.gitops.kstatus import Kstatus, compute_kstatus
from tests.gitops.managed_fields import find_managers_of_spec

EXPERIMENT, TRIAL = "experiments.podtune.dev", "trials.podtune.dev"
TOOL = "gitops"
SERVER_SIDE = ("--server-side", f"--field-manager={TOOL}")
UNTIL_COMPLETE = flux.read_kustomization("complete.yaml")


def commit(namespace: Kubernetes, manifest: Object, **spec: Any) -> None:
    """Changes the spec in the repository, and has it applied."""
    manifest["spec"] |= spec
    namespace.kubectl("apply", *SERVER_SIDE, "-f", "-", stdin=json.dumps(manifest))


def read(namespace: Kubernetes, kind: str, name: str) -> Object:
    found: Object = json.loads(namespace.kubectl("get", kind, name, "--show-managed-fields", "-o", "json"))
    return found


def look(namespace: Kubernetes, manifest: Object) -> tuple[str, str, str]:
    """What Argo CD, Flux and whoever goes by kstatus say of it."""
    found = read(namespace, EXPERIMENT, manifest["metadata"]["name"])
    health, _ = ArgoCustomization("Experiment").find_health(found)
    return health, flux.check_health(UNTIL_COMPLETE, found), compute_kstatus(found)


def assert_untouched(namespace: Kubernetes, manifest: Object) -> None:
    """Nothing differs from the commit, and the operator has written no field of the spec."""
    stdin = json.dumps(manifest)
    assert namespace.kubectl("diff", *SERVER_SIDE, "-f", "-", stdin=stdin) == ""
    found = read(namespace, EXPERIMENT, manifest["metadata"]["name"])
    assert find_managers_of_spec(found) == {TOOL}
    assert FIELD_MANAGER in {entry["manager"] for entry in found["metadata"]["managedFields"]}


def test_an_experiment_stays_as_its_commit_has_it(cluster: Cluster, namespace: Kubernetes) -> None:
    search = {"algorithm": "random", "maxTrials": 2, "seed": 1}
    held = counter({"EPOCHS": "8", "HOLD_AT": "4"})
    checkpoints = {"store": store(cluster), "deletionPolicy": "Delete"}
    manifest = experiment("committed", held, search=search, checkpoints=checkpoints)
    commit(namespace, manifest)
    eventually(
        lambda: read(namespace, TRIAL, "committed-0"),
        lambda trial: int(trial.get("status", {}).get("checkpoint", {}).get("step", 0)) >= 2,
        what="a trial has a checkpoint",
    )
    assert look(namespace, manifest) == ("Progressing", Kstatus.IN_PROGRESS, Kstatus.CURRENT)
    assert_untouched(namespace, manifest)

    commit(namespace, manifest, suspend=True)
    seen: list[tuple[str, str, str]] = []

    def look_again() -> bool:
        seen.append(look(namespace, manifest))
        return seen[-1][0] == "Suspended"

    eventually(look_again)
    assert seen[-1] == ("Suspended", Kstatus.IN_PROGRESS, Kstatus.CURRENT)
    assert {kstatus for health, _, kstatus in seen if health != "Suspended"} <= {Kstatus.IN_PROGRESS}
    assert_untouched(namespace, manifest)

    user_made = {
        "apiVersion": manifest["apiVersion"],
        "kind": "Trial",
        "metadata": {"name": "committed-100000"},
        "spec": {"experiment": "committed", "parameters": {"base": "0.75"}},
    }
    namespace.kubectl("apply", *SERVER_SIDE, "-f", "-", stdin=json.dumps(user_made))
    # The program held still until it went on from a checkpoint, which the added trial does not.
    pod = {"spec": {"containers": [counter({"EPOCHS": "8"})], "terminationGracePeriodSeconds": 20}}
    commit(namespace, manifest, suspend=False, trialTemplate=pod)
    namespace.wait_for_condition(EXPERIMENT, "committed", "Complete")
    assert look(namespace, manifest) == ("Healthy", Kstatus.CURRENT, Kstatus.CURRENT)
    assert_untouched(namespace, manifest)
    added = read(namespace, TRIAL, "committed-100000")
    assert ArgoCustomization("Trial").find_health(added)[0] == "Healthy"
    assert find_managers_of_spec(added) == {TOOL}
    assert namespace.kubectl("diff", *SERVER_SIDE, "-f", "-", stdin=json.dumps(user_made)) == ""
