"""How soon a first trial's program runs after `kubectl apply`, beside a pod of the same image without anything else."""

from __future__ import annotations

import statistics
import time

from e2e.bench.measurement import Figure, Measurement
from e2e.bench.on_cluster.lifecycle import experiment_of
from e2e.bench.on_cluster.short import NO_OP, SIDECAR
from e2e.devcluster import Cluster
from e2e.kubernetes import Kubernetes, Object
from e2e.namespaces import fresh_namespace

NAMESPACE = "bench-start"
ROUNDS, FULL_ROUNDS = 3, 15
SAY = r"""
now=$(date +%s.%N)
echo $now
[ -z "$PODTUNE_DIR" ] || echo "{\"value\": $now}" >> "$PODTUNE_DIR/results.jsonl"
"""
TELLS_TIME: Object = {**NO_OP, "command": ["sh", "-c", SAY]}
"""Kubernetes tells to the second when a container was started, the program to the microsecond when it runs."""


def measure(full: bool) -> Measurement:
    """Starts a plain pod, one with a sidecar, and an Experiment in turn, and takes the median of each."""
    rounds = FULL_ROUNDS if full else ROUNDS
    plain, sidecar, trial = [], [], []
    with fresh_namespace(Cluster.connect(), NAMESPACE) as kubernetes:
        for number in range(rounds):
            plain.append(_pod(kubernetes, f"plain-{number}", []))
            sidecar.append(_pod(kubernetes, f"sidecar-{number}", [SIDECAR]))
            trial.append(_trial(kubernetes, f"first-{number}"))
    pod, beside, first = map(statistics.median, (plain, sidecar, trial))
    figures = [
        Figure("kubectl apply to a plain pod's program", pod, "s"),
        Figure("the same with a sidecar", beside, "s"),
        Figure("the same of an Experiment's first trial", first, "s"),
        Figure("first trial's program runs, after a plain pod's", first - pod, "s"),
        Figure("first trial's program runs, after that of a pod with a sidecar", first - beside, "s"),
    ]
    return Measurement(f"One pod at a time; median of {rounds}, taken in turn", figures)


def _pod(kubernetes: Kubernetes, name: str, sidecars: list[Object]) -> float:
    """Seconds until a pod's program runs."""
    spec = {"restartPolicy": "Never", "initContainers": sidecars, "containers": [TELLS_TIME]}
    began = time.time()
    kubernetes.apply({"apiVersion": "v1", "kind": "Pod", "metadata": {"name": name}, "spec": spec})
    kubernetes.kubectl("wait", "--for=jsonpath={.status.phase}=Succeeded", f"pod/{name}", "--timeout=60s")
    said = float(kubernetes.kubectl("logs", name, "-c", NO_OP["name"]))
    kubernetes.kubectl("delete", "pod", name)
    return said - began


def _trial(kubernetes: Kubernetes, name: str) -> float:
    """Seconds until the program of an Experiment's first trial runs."""
    manifest = {**experiment_of(1, 1, {"spec": {"containers": [TELLS_TIME]}}), "metadata": {"name": name}}
    began = time.time()
    kubernetes.apply(manifest)
    kubernetes.wait_for_condition("experiments.podtune.dev", name, "Complete")
    said = float(kubernetes.get("trials.podtune.dev", f"{name}-0")["status"]["lastResult"]["value"])
    kubernetes.kubectl("delete", "experiments.podtune.dev", name)
    return said - began
