"""Trials a second, beside pods a second of a bare Job: the same pods on the same fake nodes of the same API server."""

from __future__ import annotations

import json
import time
from collections import Counter
from dataclasses import dataclass, field

from e2e.bench.measurement import Figure, Measurement
from e2e.bench.on_cluster.audit import AuditLog
from e2e.bench.processor_time import components, resident_bytes, seconds
from e2e.containers import read_container_id
from e2e.devcluster import Cluster
from e2e.install import OPERATOR_NAMESPACE, RELEASE
from e2e.kubernetes import Kubernetes, Object
from e2e.namespaces import fresh_namespace

OPERATOR_USER = f"system:serviceaccount:{OPERATOR_NAMESPACE}:{RELEASE}"
DEADLINE = 900.0
PARALLELISM = 100
NODES = 20
TRIALS, FULL_TRIALS = 500, 2000

PODS: Object = {
    "containers": [
        {
            "name": "trial",
            "image": "localhost/busybox:1",
            "command": ["true"],
            "resources": {"requests": {"cpu": "10m"}},
        }
    ],
    "nodeSelector": {"podtune.dev/role": "fake"},
    "tolerations": [{"key": "kwok.x-k8s.io/node", "value": "fake", "effect": "NoSchedule"}],
}


@dataclass(frozen=True)
class JobRun:
    """How a bare Job did, or several.

    Attributes:
        components: Processor time of the cluster's components, in milliseconds.
    """

    pods: int
    seconds: float
    components: Counter[str]

    @property
    def rate(self) -> float:
        """Pods a second."""
        return self.pods / self.seconds

    def __add__(self, other: JobRun) -> JobRun:
        return JobRun(self.pods + other.pods, self.seconds + other.seconds, self.components + other.components)


@dataclass(frozen=True)
class ExperimentRun:
    """How an Experiment did.

    Attributes:
        seconds: From its creation to its completion.
        writes: The operator's writes by verb and resource.
        processor_seconds: What the operator used.
        resident_bytes: The operator's memory at the end.
        components: Processor time of the cluster's components, in milliseconds.
    """

    trials: int
    seconds: float
    processor_seconds: float
    resident_bytes: int
    components: Counter[str] = field(default_factory=Counter)
    writes: Counter[str] = field(default_factory=Counter)

    @property
    def rate(self) -> float:
        """Trials a second."""
        return self.trials / self.seconds


def measure(full: bool) -> Measurement:
    """Runs an Experiment between Jobs, as a shared machine's speed changes, on fake nodes of the cluster.

    A bare Job runs before and after. So does a Job with a trial's pods, agent and volumes and all: what lies between
    the two Jobs is the pods' weight, and what lies between the second one and the Experiment is Podtune's work.
    """
    trials = FULL_TRIALS if full else TRIALS
    cluster = Cluster.connect()
    cluster.add_kwok_nodes(NODES)
    try:
        same_pods = _read_pod_of_trial(cluster)
        bare, same = _run_job(cluster, trials, PODS), _run_job(cluster, trials, same_pods)
        with fresh_namespace(cluster, "bench-podtune") as kubernetes:
            experiment = run_experiment(kubernetes, trials, PARALLELISM, {"spec": PODS})
        same += _run_job(cluster, trials, same_pods)
        bare += _run_job(cluster, trials, PODS)
    finally:
        cluster.remove_kwok_nodes()
    setting = (
        f"{trials} no-op trials, {PARALLELISM} at once, on {NODES} fake nodes of a real API server and scheduler; the "
        "bare Job and the Job with a trial's pods run before and after"
    )
    return Measurement(setting, _figures(bare, same, experiment))


def _read_pod_of_trial(cluster: Cluster) -> Object:
    """The spec of a trial's pod, for a Job: with Podtune's agent and volumes, and what the API server fills in."""
    with fresh_namespace(cluster, "bench-pod") as kubernetes:
        kubernetes.apply(experiment_of(PARALLELISM, 1, {"spec": PODS}))
        kubernetes.kubectl("wait", "--for=create", "pod/bare-0-1", f"--timeout={DEADLINE:.0f}s")
        spec: Object = kubernetes.get("pod", "bare-0-1")["spec"]
    return {key: value for key, value in spec.items() if key not in {"nodeName", "priority", "preemptionPolicy"}}


def _run_job(cluster: Cluster, pods: int, spec: Object) -> JobRun:
    with fresh_namespace(cluster, "bench-job") as kubernetes:
        return run_job(kubernetes, pods, PARALLELISM, spec)


def _figures(bare: JobRun, same: JobRun, experiment: ExperimentRun) -> list[Figure]:
    trials = experiment.trials
    runs = (
        ("bare Job", bare, bare.pods),
        ("Job with a trial's pods", same, same.pods),
        ("Podtune", experiment, trials),
    )
    components = [
        Figure(f"{name}, {who}", run.components[name] / pods, "ms a pod")
        for name in sorted(experiment.components | bare.components)
        for who, run, pods in runs
    ]
    return [
        Figure("bare Job", bare.rate, "pods/s"),
        Figure("Job with a trial's pods", same.rate, "pods/s"),
        Figure("Podtune", experiment.rate, "trials/s"),
        Figure("trials a second, as a share of a bare Job's pods", experiment.rate / bare.rate),
        Figure("trials a second, as a share of a Job's with a trial's pods", experiment.rate / same.rate),
        Figure("operator's API writes a no-op trial", experiment.writes.total() / trials),
        *(Figure(f"of these {kind}", count / trials) for kind, count in experiment.writes.most_common()),
        Figure("operator's processor time a no-op trial", 1000 * experiment.processor_seconds / trials, "ms"),
        Figure("operator's memory after no-op trials", experiment.resident_bytes / 1e6, "MB"),
        *components,
    ]


def run_job(kubernetes: Kubernetes, pods: int, parallelism: int, spec: Object) -> JobRun:
    """Runs a Job of as many pods of a spec."""
    template = {"spec": {"restartPolicy": "Never", **spec}}
    job = {
        "apiVersion": "batch/v1",
        "kind": "Job",
        "metadata": {"name": "bare"},
        "spec": {"completions": pods, "parallelism": parallelism, "template": template},
    }
    before, begun = components(), time.monotonic()
    kubernetes.apply(job)
    kubernetes.wait_for_condition("job", "bare", "Complete", deadline=DEADLINE)
    return JobRun(pods, time.monotonic() - begun, components() - before)


def run_experiment(
    kubernetes: Kubernetes, trials: int, parallelism: int, template: Object, *, reports: bool = False
) -> ExperimentRun:
    """Runs an Experiment of as many trials of a template; one whose trials report nothing is no success."""
    cluster = kubernetes.cluster
    container = _operator_container(Kubernetes(cluster, OPERATOR_NAMESPACE))
    audit = AuditLog(cluster.audit_log)
    before, components_before, begun = seconds(container), components(), time.monotonic()
    kubernetes.apply(experiment_of(trials, parallelism, template))
    outcome = "Complete" if reports else "Failed"
    # As the Job is: asking again and again would cost the machine more than the operator does.
    kubernetes.wait_for_condition("experiments.podtune.dev", "bare", outcome, deadline=DEADLINE)
    taken, used = time.monotonic() - begun, seconds(container) - before
    found = kubernetes.get("experiments.podtune.dev", "bare")["status"]["trials"]
    if found["terminated"] != trials:
        raise RuntimeError(f"of {trials} trials {json.dumps(found)}")
    return ExperimentRun(
        trials=trials,
        seconds=taken,
        processor_seconds=used,
        resident_bytes=resident_bytes(container),
        components=components() - components_before,
        writes=audit.writes(OPERATOR_USER, kubernetes.namespace),
    )


def experiment_of(trials: int, parallelism: int, template: Object) -> Object:
    """An Experiment of random search with as many trials of a template."""
    return {
        "apiVersion": "podtune.dev/v1alpha1",
        "kind": "Experiment",
        "metadata": {"name": "bare"},
        "spec": {
            "objective": {"metric": "value", "mode": "max", "missing": "lenient"},
            "parameters": [{"name": "base", "float": {"min": 0, "max": 1}}],
            "search": {"algorithm": "random", "maxTrials": trials, "seed": 1},
            "maxConcurrentTrials": parallelism,
            "trialTemplate": template,
        },
    }


def _operator_container(operator: Kubernetes) -> str:
    """ID of the leading operator's container."""
    pod = operator.list("pods", "podtune.dev/leader=true")[0]
    return read_container_id(pod["status"]["containerStatuses"][0])
