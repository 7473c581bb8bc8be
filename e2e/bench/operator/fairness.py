"""How long a small experiment waits for its pods beside one with thousands of trials that may all start at once.

Pods stay unscheduled, so that nothing but the operator has much to do. A request that writes takes as long as on a real
API server: so thousands of the large experiment's wait at any time.
"""

from __future__ import annotations

import asyncio
import contextlib
import time
from collections.abc import AsyncIterator, Callable
from functools import partial
from statistics import median

from e2e.bench.fake_cluster.api_objects import Object
from e2e.bench.fake_cluster.api_server import NAMESPACE
from e2e.bench.fake_cluster.fake_cluster import FakeCluster, run_fake_cluster
from e2e.bench.fake_cluster.measured_operator import longest_stall, now
from e2e.bench.measurement import Figure, Measurement
from e2e.chaos.polling import until
from podtune.api.names import API_VERSION, EXPERIMENT_KIND, TRIAL_KIND

QUEUED = 10_000
SMALL_TRIALS = 3
REPEATS, FULL_REPEATS = 5, 20
WRITE_SECONDS = 0.02
DEADLINE = 60.0


def measure(full: bool) -> Measurement:
    """Has small experiments run alone, and beside a giant."""
    return asyncio.run(measure_small_beside(QUEUED, FULL_REPEATS if full else REPEATS))


async def measure_small_beside(queued: int, repeats: int) -> Measurement:
    """Measures so many small experiments, one after the other, without and with so many queued trials beside them.

    Raises:
        TimeoutError: A small experiment does not come to have pods.
    """
    async with _slow_cluster(lambda _: None) as cluster:
        alone = [await _first_pods(cluster, f"alone{number}") for number in range(repeats)]
    since = now()
    async with _slow_cluster(partial(_add_giant, queued)) as cluster:
        if not await until(lambda: "giant-0-1" in cluster.created, DEADLINE):
            raise TimeoutError("the giant does not begin")
        beside = [await _first_pods(cluster, f"beside{number}") for number in range(repeats)]
        waiting = queued - sum(name.startswith("giant") for name in cluster.created)
        stall = longest_stall(cluster.operator, since)
    figures = [
        Figure("pods of a small experiment posted, alone, p50", 1000 * median(alone), "ms"),
        Figure("pods of a small experiment posted, beside a giant, p50", 1000 * median(beside), "ms"),
        Figure("pods of a small experiment posted, beside a giant, longest", 1000 * max(beside), "ms"),
        Figure("longest stall of the event loop beside a giant", stall, "ms"),
        Figure("trials of the giant still queued at the end", waiting),
    ]
    setting = (
        f"From the creation of an experiment until its {SMALL_TRIALS} trials have a pod, {repeats} times alone and "
        f"{repeats} times beside one with {queued:,} queued trials that may all start; API server in memory, "
        f"{1000 * WRITE_SECONDS:g} ms a write"
    )
    return Measurement(setting, figures, [] if waiting else ["the giant had nothing queued any more"])


@contextlib.asynccontextmanager
async def _slow_cluster(prepare: Callable[[FakeCluster], None]) -> AsyncIterator[FakeCluster]:
    async with run_fake_cluster(lambda _: None, prepare=prepare) as cluster:
        cluster.api.write_seconds = WRITE_SECONDS
        yield cluster


async def _first_pods(cluster: FakeCluster, name: str) -> float:
    """Seconds from the creation of a small experiment until all its trials have a pod."""
    begun = time.monotonic()
    cluster.create_experiment(name, SMALL_TRIALS, SMALL_TRIALS)
    pods = [f"{name}-{index}-1" for index in range(SMALL_TRIALS)]
    if not await until(lambda: all(pod in cluster.created for pod in pods), DEADLINE):
        raise TimeoutError(f"{name} has no pods")
    return max(cluster.created[pod] for pod in pods) - begun


def _add_giant(queued: int, cluster: FakeCluster) -> None:
    """Adds an experiment whose trials were all made, and wait."""
    cluster.create_experiment("giant", queued, queued)
    giant = cluster.experiments.get(NAMESPACE, "giant")
    for index in range(queued):
        cluster.trials.create(NAMESPACE, _trial(giant, index))


def _trial(experiment: Object, index: int) -> Object:
    metadata = experiment["metadata"]
    owner = {"apiVersion": API_VERSION, "kind": EXPERIMENT_KIND, "name": metadata["name"], "uid": metadata["uid"]}
    return {
        "apiVersion": API_VERSION,
        "kind": TRIAL_KIND,
        "metadata": {"name": f"{metadata['name']}-{index}", "ownerReferences": [{**owner, "controller": True}]},
        "spec": {"experiment": metadata["name"], "index": index, "parameters": {"base": "0.5"}},
    }
