"""What a tenant's fields must not reach: other namespaces, by the names in them, and what the operator did not make."""

from __future__ import annotations

import json

import pytest

from e2e.devcluster import Cluster
from e2e.devcluster.errors import ClusterError
from e2e.experiments import counter, experiment, store
from e2e.kubernetes import Kubernetes, Object, eventually
from e2e.trials import trial_status

TRIALS = "trials.podtune.dev"
CLAIM = "persistentvolumeclaim"


@pytest.mark.parametrize(
    ("origin", "field"),
    [
        ({"experiment": "victim", "trial": "../../other/trials/victim-0"}, "restoreFrom.trial"),
        ({"experiment": "victim", "trial": "../trials?watch=1&n=0"}, "restoreFrom.trial"),
        ({"experiment": "../victim", "trial": "victim-0"}, "restoreFrom.experiment"),
    ],
    ids=["another namespace", "a watch", "another experiment"],
)
def test_a_name_is_no_path(cluster: Cluster, namespace: Kubernetes, origin: Object, field: str) -> None:
    initial = [{"parameters": {"base": 0.6}, "restoreFrom": origin}]
    body = experiment("doors", counter(), checkpoints={"store": store(cluster)})
    body["spec"]["search"]["initial"] = initial
    with pytest.raises(ClusterError, match=f"{field}.*is not a valid object name"):
        namespace.apply(body)


@pytest.mark.parametrize("field", ["prefix", "to"])
def test_a_prefix_does_not_lead_upwards(cluster: Cluster, namespace: Kubernetes, field: str) -> None:
    address = store(cluster)
    checkpoints: Object = {"store": address}
    if field == "prefix":
        address["prefix"] = "team-a/../team-b"
    else:
        checkpoints["export"] = {"to": f"s3://{address['bucket']}/team-a/../team-b"}
    with pytest.raises(ClusterError, match=rf"{field}.*without \. or \.\."):
        namespace.apply(experiment("doors", counter(), checkpoints=checkpoints))


def test_a_claim_that_is_not_the_trials_stays(cluster: Cluster, namespace: Kubernetes) -> None:
    claim: Object = {
        "apiVersion": "v1",
        "kind": "PersistentVolumeClaim",
        "metadata": {"name": "data-0-scratch"},
        "spec": {
            "accessModes": ["ReadWriteOnce"],
            "storageClassName": "",
            "resources": {"requests": {"storage": "1Gi"}},
        },
    }
    namespace.apply(claim)
    uid = namespace.get(CLAIM, "data-0-scratch")["metadata"]["uid"]
    checkpoints = {"store": store(cluster), "scratch": {"size": "1Gi"}}
    namespace.apply(experiment("data", counter(), checkpoints=checkpoints))
    eventually(lambda: namespace.list(TRIALS) != [], what="there is no trial")
    stop = json.dumps({"spec": {"desiredState": "Stopped"}})
    namespace.kubectl("patch", TRIALS, "data-0", "--type=merge", "-p", stop)
    eventually(lambda: trial_status(namespace, "data-0").get("state") == "TERMINATED", what="data-0 has not ended")
    kept = namespace.get(CLAIM, "data-0-scratch")["metadata"]
    assert (kept["uid"], "deletionTimestamp" in kept) == (uid, False)
