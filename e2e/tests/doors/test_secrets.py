"""Credentials are where they belong, and nowhere else that anybody looks."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path

from e2e.devcluster import Cluster
from e2e.experiments import counter, experiment, store
from e2e.install import OPERATOR_PODS
from e2e.kubernetes import Kubernetes, Object, eventually
from e2e.tests.conftest import store_secret
from e2e.trials import trial_status

WRONG_KEY = "a-key-that-opens-nothing-4e2b"
TOKEN = re.compile(r"eyJ[\w-]{20,}\.eyJ[\w-]{20,}")
"""A JSON Web Token, as service accounts have them."""
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
    for place, text in show_all(cluster, namespace, operator):
        assert [key for key in credentials if key in text] == [], place
        assert not TOKEN.search(text), place
    limits = [read(path.parent / "limits") for path in find_agents(namespace)]
    assert limits
    assert all(re.search(r"Max core file size\s+0\s+0", text) for text in limits)


def show_all(cluster: Cluster, namespace: Kubernetes, operator: Kubernetes) -> Iterator[tuple[str, str]]:
    """All that people may come to read, each with its name: objects, logs, metrics, and processes."""
    for kind in ("experiments,trials", "pods", "events", "configmaps", "controllerrevisions"):
        yield kind, namespace.kubectl("get", kind, "-o", "yaml")
        yield f"the operator's {kind}", operator.kubectl("get", kind, "-o", "yaml")
    for pod in ("good-0-1", "bad-0-1"):
        yield f"logs of {pod}", namespace.kubectl("logs", pod, "--all-containers")
        yield f"processes of {pod}", namespace.kubectl("exec", pod, "-c", "trial", "--", "python3", "-c", LOOK)
    yield "the operator's log", operator.kubectl("logs", "-l", OPERATOR_PODS, "--tail=-1")
    yield "processes of the nodes", "\n".join(read(path) for path in Path("/proc").glob("[0-9]*/cmdline"))


def find_agents(namespace: Kubernetes) -> Iterator[Path]:
    """The command lines of the agents' processes, which the nodes of this machine run."""
    uids = {pod["metadata"]["uid"] for pod in namespace.list("pods")}
    for path in Path("/proc").glob("[0-9]*/cmdline"):
        if "podtune-agent" in read(path) and any(uid in read(path.parent / "cgroup") for uid in uids):
            yield path


def read(path: Path) -> str:
    """What the kernel says of a process; nothing of one that has ended."""
    try:
        return path.read_text(errors="replace")
    except (FileNotFoundError, ProcessLookupError):
        return ""
