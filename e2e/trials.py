"""What tests look at of a trial, and how they lead its program."""

from __future__ import annotations

import json
from contextlib import suppress

from e2e.devcluster import Cluster
from e2e.devcluster.errors import ClusterError
from e2e.kubernetes import Kubernetes, Object, condition, eventually
from podtune.protocol.assignment import format_attempt_folder
from podtune.storage.address import S3Address
from podtune.storage.s3.store import S3Store
from podtune.storage.segments.reader import StoredLine, StoredResult, read_logs, read_results

EXPERIMENTS, TRIALS = "experiments.podtune.dev", "trials.podtune.dev"
OF_TRIALS = "podtune.dev/trial"


def trial_status(namespace: Kubernetes, name: str) -> Object:
    status: Object = namespace.get(TRIALS, name).get("status", {})
    return status


def epochs_of_attempt(cluster: Cluster, checkpoint_uri: str) -> list[int]:
    """The epochs that the attempt of this checkpoint has reported, as the bucket has them."""
    key = checkpoint_uri.removeprefix(f"s3://{cluster.s3.bucket}/")
    prefix, trial, attempt, _ = key.rsplit("/", 3)
    stored = read_stored_results(cluster, f"{prefix}/", trial)
    return [int(found.result.metrics["epoch"]) for found in stored if format_attempt_folder(found.attempt) == attempt]


def read_stored_results(cluster: Cluster, experiment_prefix: str, trial: str) -> list[StoredResult]:
    """The results of a trial that are in the bucket; the credentials are in the environment."""
    store = S3Store(S3Address(cluster.s3.bucket, endpoint=cluster.s3.endpoint, region=cluster.s3.region))
    return list(read_results(store, experiment_prefix, trial=trial))


def read_stored_logs(cluster: Cluster, experiment_prefix: str, trial: str) -> list[StoredLine]:
    """The log of a trial that is in the bucket; the credentials are in the environment."""
    store = S3Store(S3Address(cluster.s3.bucket, endpoint=cluster.s3.endpoint, region=cluster.s3.region))
    return list(read_logs(store, experiment_prefix, trial))


def let_go_on(namespace: Kubernetes, pods: str = OF_TRIALS) -> None:
    """Has the programs of some pods go on that wait at an epoch (HOLD_AT).

    Args:
        namespace: Where they are.
        pods: A selector of pods whose programs run.
    """
    for pod in namespace.list("pods", pods):
        touch(namespace, pod["metadata"]["name"], "go")


def finish(namespace: Kubernetes, experiment: str) -> int:
    """Has all programs of an experiment go on (HOLD_AT), those yet to start, too, until it is complete.

    Returns:
        How many of its pods were seen at most at a time that had not ended.
    """
    let_go: set[str] = set()
    most = 0

    def is_complete() -> bool:
        nonlocal most
        pods = live_pods(namespace, experiment)
        most = max(most, len(pods))
        for pod in pods:
            name = pod["metadata"]["name"]
            if name not in let_go and pod["status"]["phase"] == "Running":
                with suppress(ClusterError):  # its container may not run yet, or not any more
                    touch(namespace, name, "go")
                    let_go.add(name)
        return condition(namespace.get(EXPERIMENTS, experiment), "Complete").get("status") == "True"

    eventually(is_complete, what=f"{experiment} is complete")
    return most


def live_pods(namespace: Kubernetes, experiment: str) -> list[Object]:
    """The pods of an experiment's trials that have not ended."""
    pods = namespace.list("pods", f"podtune.dev/experiment={experiment},{OF_TRIALS}")
    return [pod for pod in pods if pod["status"].get("phase") in ("Pending", "Running")]


class Escort:
    """Has the programs of an experiment go from epoch to epoch (HOLD_EACH), none ahead of what is decided of it."""

    def __init__(self, namespace: Kubernetes, experiment: str) -> None:
        self._namespace = namespace
        self._experiment = experiment
        self._let_go: set[tuple[str, int]] = set()

    def go_on(self) -> list[Object]:
        """Lets those go on whose latest result is recorded, and no end or pause with it; returns all trials."""
        trials = self._namespace.list(TRIALS, f"podtune.dev/experiment={self._experiment}")
        for status in (trial.get("status", {}) for trial in trials):
            epoch = int(status.get("lastResult", {}).get("epoch", "0"))
            if not epoch or status.get("state") != "RUNNING" or "decision" in status:
                continue
            pod = status["pod"]["name"]
            if (pod, epoch) not in self._let_go:
                with suppress(ClusterError):  # it may have ended by itself
                    touch(self._namespace, pod, f"go-{epoch + 1}")
                    self._let_go.add((pod, epoch))
        return trials

    def finish(self) -> None:
        """Has them go on to the experiment's end."""

        def is_complete() -> bool:
            self.go_on()
            experiment = self._namespace.get(EXPERIMENTS, self._experiment)
            return condition(experiment, "Complete").get("status") == "True"

        eventually(is_complete, what=f"{self._experiment} is complete")


def touch(namespace: Kubernetes, pod: str, file: str) -> None:
    """Makes a file in the directory that a pod's program shares with its agent."""
    namespace.kubectl("exec", pod, "-c", "trial", "--", "touch", f"/podtune/{file}")


def list_created_pods(cluster: Cluster, namespace: str) -> list[str]:
    """Names of all trials' pods that were ever created in a namespace, from the audit log."""
    names = []
    with cluster.audit_log.open() as lines:
        for event in (json.loads(line) for line in lines if namespace in line):
            reference = event.get("objectRef", {})
            if (
                event.get("verb") == "create"
                and event.get("stage") == "ResponseComplete"
                and reference.get("resource") == "pods"
                and "subresource" not in reference
                and reference.get("namespace") == namespace
                and event["responseStatus"]["code"] == 201
            ):
                names.append(reference["name"])
    return [name for name in names if "-storage-" not in name]
