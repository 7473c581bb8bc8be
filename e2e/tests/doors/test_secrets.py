"""Credentials are where they belong, and nowhere else that anybody looks."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path

from e2e.devcluster import Cluster
from e2e.experiments import counter, experiment, store
from e2e.install import OPERATOR_PODS, RELEASE
from e2e.kubernetes import Kubernetes, Object, eventually
from e2e.soak.operator_metrics import reading_metrics
from e2e.tests.conftest import store_secret
from e2e.tests.credentials import NO_CORE_DUMP, PRIVATE_KEYS, find_credentials, list_core_limits
from e2e.trials import trial_status
from podtune.api.pods.pod_template import AGENT_CONTAINER

WRONG_KEY = "a-key-that-opens-nothing-4e2b"
ONE = {"algorithm": "random", "maxTrials": 1, "seed": 1}
OTHER_SECRET = "other-s3"
LOOK = """
import glob
for path in glob.glob("/proc/[0-9]*/environ") + glob.glob("/proc/[0-9]*/cmdline"):
    print(open(path, errors="replace").read().replace("\\0", "\\n"))
"""


def test_no_credential_is_anywhere_but_where_it_belongs(
    cluster: Cluster, namespace: Kubernetes, operator: Kubernetes
) -> None:
    wrong: Object = store_secret(WRONG_KEY, WRONG_KEY) | {"metadata": {"name": OTHER_SECRET}}
    holding = counter({"EPOCHS": "4", "HOLD_AT": "3"})
    namespace.apply(
        wrong,
        experiment("good", holding, search=ONE, checkpoints={"store": store(cluster)}),
        experiment("bad", holding, search=ONE, checkpoints={"store": store(cluster, credentialsSecret=OTHER_SECRET)}),
    )
    eventually(lambda: trial_status(namespace, "good-0").get("checkpoint"), what="one checkpoint is stored")
    eventually(
        lambda: [
            c for c in trial_status(namespace, "bad-0").get("conditions", []) if OTHER_SECRET in c.get("message", "")
        ],
        what="the wrong key is told",
    )
    credentials = {cluster.s3.access_key, cluster.s3.secret_key, WRONG_KEY}
    for place, text in show_all(namespace, operator):
        assert find_credentials(text, credentials) == set(), place
    for pod in namespace.list("pods"):
        assert set(list_core_limits(pod, AGENT_CONTAINER)) == {NO_CORE_DUMP}, pod["metadata"]["name"]
    for pod in operator.list("pods", OPERATOR_PODS):
        assert set(list_core_limits(pod)) == {NO_CORE_DUMP}, "the operator's"
    secrets = {secret["metadata"]["name"]: json.dumps(secret) for secret in operator.list("secrets")}
    holders = {name for name, text in secrets.items() if find_credentials(text) & PRIVATE_KEYS}
    assert holders == {f"{RELEASE}-results-tls"}, "the authorities' keys and the server's are in one Secret alone"


def show_all(namespace: Kubernetes, operator: Kubernetes) -> Iterator[tuple[str, str]]:
    """All that people may come to read, each with its name: objects, logs, metrics, and processes."""
    for kind in ("experiments,trials", "pods", "events", "configmaps", "controllerrevisions"):
        yield kind, namespace.kubectl("get", kind, "-o", "yaml")
        yield f"the operator's {kind}", operator.kubectl("get", kind, "-o", "yaml")
    for pod in ("good-0-1", "bad-0-1"):
        yield f"logs of {pod}", namespace.kubectl("logs", pod, "--all-containers")
        yield f"processes of {pod}", namespace.kubectl("exec", pod, "-c", "trial", "--", "python3", "-c", LOOK)
    yield "the operator's log", operator.kubectl("logs", "-l", OPERATOR_PODS, "--tail=-1")
    with reading_metrics(operator) as reader:
        metrics = reader.read_all()
    assert "podtune_leading 1.0" in metrics
    yield "the operator's metrics", metrics
    yield "processes of the nodes", "\n".join(read(path) for path in Path("/proc").glob("[0-9]*/cmdline"))


def read(path: Path) -> str:
    """What the kernel says of a process; nothing of one that has ended."""
    try:
        return path.read_text(errors="replace")
    except (FileNotFoundError, ProcessLookupError):
        return ""
