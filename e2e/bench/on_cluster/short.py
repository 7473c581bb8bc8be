"""Trials that do next to nothing, on nodes that run containers: what a pod for each costs, and what reuse saves.

A pod a trial is held against a Job whose pods have a sidecar of the same image, warm pods against Ray Tune that reuses
its actors. Each of the four runs in turn, several times over: the machine's own noise is as large as the differences.
"""

from __future__ import annotations

import statistics

from e2e.bench.measurement import Figure, Measurement
from e2e.bench.on_cluster.lifecycle import ExperimentRun, run_experiment, run_job
from e2e.bench.tuner.environments import Environment, Missing
from e2e.devcluster import Cluster
from e2e.experiments import EXAMPLES_IMAGE
from e2e.install import Image
from e2e.kubernetes import Object
from e2e.namespaces import fresh_namespace

SLOTS = 4
PODS, FULL_PODS = 12, 40
TRIALS, FULL_TRIALS = 200, 1000
ROUNDS, FULL_ROUNDS = 1, 3
NAMESPACE = "bench-short"
RAY_SECONDS = 300.0

RESOURCES: Object = {"requests": {"cpu": "10m", "memory": "16Mi"}}
WAIT = "import signal; s = {signal.SIGTERM}; signal.pthread_sigmask(signal.SIG_BLOCK, s); signal.sigwait(s)"
SIDECAR: Object = {
    "name": "sidecar",
    "image": Image("agent").tag,
    "restartPolicy": "Always",
    "command": ["python3", "-c", WAIT],
    "resources": RESOURCES,
}
"""It starts the agent's interpreter, and ends when it is asked to: the least that any agent does."""
NO_OP: Object = {"name": "trial", "image": EXAMPLES_IMAGE, "command": ["true"], "resources": RESOURCES}
LOOP = """
from podtune import trial

for this in trial.stream():
    this.report({"value": this.params()["base"]})
"""
LOOPING: Object = {**NO_OP, "command": ["python3", "-c", LOOP]}


def measure(full: bool) -> Measurement:
    """Runs all four in turn, and takes the median of each."""
    pods, trials = (FULL_PODS, FULL_TRIALS) if full else (PODS, TRIALS)
    rounds = FULL_ROUNDS if full else ROUNDS
    cluster = Cluster.connect()
    broken: list[str] = []
    jobs, alone, warm, rays = [], [], [], []
    for _ in range(rounds):
        with fresh_namespace(cluster, NAMESPACE) as kubernetes:
            spec = {"initContainers": [SIDECAR], "containers": [NO_OP]}
            jobs.append(run_job(kubernetes, pods, SLOTS, spec).rate)
        with fresh_namespace(cluster, NAMESPACE) as kubernetes:
            template = {"spec": {"containers": [NO_OP]}}
            alone.append(run_experiment(kubernetes, pods, SLOTS, template).rate)
        with fresh_namespace(cluster, NAMESPACE) as kubernetes:
            reusing: Object = {"reuse": True, "spec": {"containers": [LOOPING]}}
            warm.append(run_experiment(kubernetes, trials, SLOTS, reusing, reports=True))
        try:
            rays.append(_ray(trials))
        except Missing as error:
            broken.append(f"Ray Tune: {error}")
    setting = f"No-op trials, {SLOTS} at once: {pods} in pods of their own, {trials} in warm pods; median of {rounds}"
    return Measurement(setting, _figures(jobs, alone, warm, rays), broken)


def _figures(jobs: list[float], alone: list[float], warm: list[ExperimentRun], rays: list[float]) -> list[Figure]:
    job, own = statistics.median(jobs), statistics.median(alone)
    reused = statistics.median(run.rate for run in warm)
    used = statistics.median(1000 * run.processor_seconds / run.trials for run in warm)
    figures = [
        Figure("bare Job with a sidecar", job, "pods/s"),
        Figure("a pod a trial", own, "trials/s"),
        Figure("a pod a trial, to a bare Job with a sidecar", own / job),
        Figure("warm pods", reused, "trials/s"),
        Figure("operator's processor time a trial in warm pods", used, "ms"),
    ]
    if rays:
        ray = statistics.median(rays)
        figures.append(Figure("Ray Tune with reused actors", ray, "trials/s"))
        figures.append(Figure("warm pods, to Ray Tune with reused actors", reused / ray))
    return figures


def _ray(trials: int) -> float:
    """Trials a second of Ray Tune, its start aside; the start of its actors is in it, as that of warm pods is."""
    ran = Environment("replay.txt").run("e2e.bench.tuner.with_ray", str(trials), str(RAY_SECONDS), str(SLOTS))
    return float(ran["trials"] / ran["seconds"])
