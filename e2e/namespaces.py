"""Namespaces that tests make, each labelled with the test run whose it is, so that a later run can clear it away.

A run that is killed leaves its namespaces behind: their pods hold the GPUs that other tests need. While a run's process
lives it holds a lock, which the kernel releases however the process ends. `remove_stale` removes the namespaces of runs
whose lock is free, and leaves all others alone.
"""

from __future__ import annotations

import fcntl
import functools
import json
import time
import uuid
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import IO

from e2e.devcluster import Cluster
from e2e.devcluster.errors import ClusterError
from e2e.devcluster.layout import Layout
from e2e.kubernetes import Kubernetes

RUN_LABEL = "podtune.dev/test-run"
_LOOKED_AT = "podtune.dev/looked-at"
_GRACE = 60.0
"""Seconds in which a stale namespace's pods may end."""
_DEADLINE = 600.0
"""Seconds in which a namespace is gone once its pods are told to end at once and its finalizers are taken off: with ten
thousand Trials, minutes."""
_WITH_FINALIZERS = ("experiments.podtune.dev", "trials.podtune.dev", "pods", "persistentvolumeclaims")


def create_namespace(cluster: Cluster, name: str, labels: Mapping[str, str] | None = None) -> Kubernetes:
    """Makes a namespace of this run."""
    metadata = {"name": name, "labels": {**run_label(), **(labels or {})}}
    kubernetes = Kubernetes(cluster, name)
    kubernetes.kubectl(
        "create", "-f", "-", stdin=json.dumps({"apiVersion": "v1", "kind": "Namespace", "metadata": metadata})
    )
    return kubernetes


@contextmanager
def fresh_namespace(cluster: Cluster, name: str) -> Iterator[Kubernetes]:
    """A namespace of a known name with nothing in it, for what is set up for it and for what is measured there.

    It is gone afterwards: its end costs what is measured next nothing.
    """
    _remove(cluster, name)
    kubernetes = create_namespace(cluster, name)
    try:
        yield kubernetes
    finally:
        _remove(cluster, name)


def run_label() -> dict[str, str]:
    """The label of this process's namespaces; from now on it holds the lock that says that they are in use."""
    return {RUN_LABEL: _begin_run()[0]}


def remove_stale(cluster: Cluster) -> list[str]:
    """Removes the namespaces of runs that are over, and returns their names.

    Nothing there is worth waiting for: pods get a second, and finalizers are taken off, for the operator that they wait
    for may be gone.

    Raises:
        ClusterError: One of them did not go away.
    """
    folder = _find_locks()
    listed = json.loads(cluster.kubectl("get", "namespaces", "-l", RUN_LABEL, "-o", "json"))["items"]
    by_run: dict[str, list[str]] = {}
    for namespace in listed:
        by_run.setdefault(namespace["metadata"]["labels"][RUN_LABEL], []).append(namespace["metadata"]["name"])
    stale = sorted(name for run, names in by_run.items() if _is_over(folder / run) for name in names)
    for name in stale:
        cluster.kubectl("delete", "namespace", name, "--wait=false", "--ignore-not-found")
    installed = cluster.kubectl("api-resources", "-o", "name").split() if stale else []
    for name in stale:
        _clear(cluster, name, [kind for kind in _WITH_FINALIZERS if kind in installed])
    return stale


@functools.cache
def _begin_run() -> tuple[str, IO[str]]:
    """The name of this process's run, and its lock, which is held for as long as the process lives."""
    name = uuid.uuid4().hex
    folder = _find_locks()
    folder.mkdir(parents=True, exist_ok=True)
    lock = (folder / name).open("w")
    fcntl.flock(lock, fcntl.LOCK_EX)
    return name, lock


def _find_locks() -> Path:
    return Layout.from_environment().state / "test-runs"


def _is_over(lock: Path) -> bool:
    """Whether a run's lock is there and free; without one, the run may be another machine's, and nobody can tell."""
    try:
        with lock.open() as opened:
            fcntl.flock(opened, fcntl.LOCK_SH | fcntl.LOCK_NB)
    except (FileNotFoundError, BlockingIOError):
        return False
    return True


def _clear(cluster: Cluster, namespace: str, kinds: Sequence[str]) -> None:
    """Waits until a namespace that is being deleted is gone, and removes what keeps it."""
    begun = time.monotonic()
    while cluster.kubectl("get", "namespace", namespace, "--ignore-not-found", "-o", "name"):
        taken = time.monotonic() - begun
        if taken > _DEADLINE:
            left = cluster.kubectl("get", "namespace", namespace, "-o", "jsonpath={.status.conditions[*].message}")
            raise ClusterError(f"namespace {namespace} of an earlier test run is not gone in {_DEADLINE:.0f} s: {left}")
        # As the namespace is being deleted, nothing new comes into it.
        # A kubelet may keep to a longer grace period that was given before: its pod is forgotten then.
        grace = ["--grace-period=1"] if taken < _GRACE else ["--grace-period=0", "--force"]
        cluster.kubectl("delete", "pods", "--all", "-n", namespace, *grace, "--wait=false")
        for kind in kinds:
            _take_off_finalizers(cluster, namespace, kind)
        # What is left is deleted when the pods are gone, which Kubernetes looks at after half their grace periods only,
        # unless the namespace changes.
        looked_at = f"{_LOOKED_AT}={time.time():.1f}"
        cluster.run(["kubectl", "annotate", "--overwrite", "namespace", namespace, looked_at], check=False)
        time.sleep(0.5)


def _take_off_finalizers(cluster: Cluster, namespace: str, kind: str) -> None:
    """Takes finalizers off the objects that are being deleted: the others are about to be."""
    for found in json.loads(cluster.kubectl("get", kind, "-n", namespace, "-o", "json"))["items"]:
        metadata = found["metadata"]
        if metadata.get("finalizers") and metadata.get("deletionTimestamp"):
            patch = json.dumps({"metadata": {"finalizers": None}})
            command = ["kubectl", "patch", kind, metadata["name"], "-n", namespace, "--type=merge", "-p", patch]
            cluster.run(command, check=False)  # it may have gone meanwhile; if not, the next round says so


def _remove(cluster: Cluster, name: str) -> None:
    cluster.kubectl("delete", "namespace", name, "--ignore-not-found", "--timeout=300s", timeout=310)
