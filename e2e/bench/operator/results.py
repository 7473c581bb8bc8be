"""Results a second that one operator process takes in with decisions: a thousand agents at once, under ASHA.

Every agent has a connection of its own and posts a batch as soon as the one before was answered, so this is what the
operator manages at most.
"""

from __future__ import annotations

import asyncio
import math
import time
from collections.abc import Iterable
from dataclasses import replace
from statistics import mean

from e2e.bench.fake_cluster.api_objects import Object
from e2e.bench.fake_cluster.fake_cluster import FakeCluster, FakePod, run_fake_cluster
from e2e.bench.fake_cluster.measured_operator import longest_stall, now, own_processor_seconds
from e2e.bench.measurement import Figure, Measurement, percentile
from e2e.bench.tuner.environments import Environment, Missing
from e2e.chaos.polling import until
from podtune.api.names import TrialReason
from podtune.simulation.curves.functions import compute_rising_value

BATCH = 10
ITERATIONS = 200
"""Results of a trial, in full five times as many; ASHA stops about half of the trials at each of two rungs."""
GRACE = 4
"""The first rung is at this part of them."""
AGENTS = 1000
DEADLINE = 300.0
RAY_ACTORS, RAY_RESULTS = 4, 400
"""Trials of Ray Tune, each a process of its own that shares the processors with Ray's loop, and results of each."""
RAY_SECONDS = 120


def measure(full: bool) -> Measurement:
    """Has agents post as fast as they are answered; in full, has Ray Tune take in results too."""
    iterations = ITERATIONS * 5 if full else ITERATIONS
    ours = asyncio.run(measure_crowd(AGENTS, iterations))
    return beside_ray(ours) if full else ours


def beside_ray(ours: Measurement) -> Measurement:
    """Adds what Ray Tune's loop takes in on the same machine, or why that is not known."""
    try:
        ray = Environment("replay.txt").run(
            "e2e.bench.tuner.ray_results", str(RAY_ACTORS), str(RAY_RESULTS), str(RAY_SECONDS), timeout=5 * RAY_SECONDS
        )
    except Missing as missing:
        return replace(ours, setting=f"{ours.setting}. Ray Tune's loop was not measured: {missing}")
    figures = [
        Figure("results taken in a second by Ray Tune's loop", ray["results"] / ray["seconds"], "results/s"),
        Figure("processor time of Ray Tune's driver a result", 1e6 * ray["processor_seconds"] / ray["results"], "µs"),
    ]
    setting = (
        f"{ours.setting}. Ray Tune under the same ASHA has {ray['actors']} trials at once, as each is a process that "
        "takes processor time from Ray's loop: compare the processor times, which say what either would take in alone "
        "on a processor. A report of Ray's holds one result, and returns when it is decided"
    )
    return replace(ours, setting=setting, figures=[*ours.figures, *figures])


async def measure_crowd(agents: int, iterations: int) -> Measurement:
    """Has so many agents post, each so many results."""
    crowd = _Crowd(iterations)
    async with run_fake_cluster(lambda _: crowd.run) as cluster:
        scheduler = {"asha": {"maxTime": iterations, "gracePeriod": iterations // GRACE, "reductionFactor": 2}}
        cluster.create_experiment("results", agents, agents, scheduler=scheduler)
        if not await until(lambda: crowd.waiting == agents, DEADLINE):
            raise TimeoutError(f"{crowd.waiting} of {agents} agents are there: {cluster.problems[:3]}")
        begun, busy, since = time.monotonic(), cluster.operator.processor_seconds, now()
        own = own_processor_seconds()
        crowd.begin.set()
        await cluster.until_complete(DEADLINE)
        seconds = crowd.last_answer - begun
        busy, own = cluster.operator.processor_seconds - busy, own_processor_seconds() - own
        stall = longest_stall(cluster.operator, since)
        pods = list(cluster.pods_made.values())
        judged = sum(trial["status"]["iteration"] for trial in cluster.trials)
        taken = sum(pod.answers.acked_seq for pod in pods)
        figures = [
            Figure("results taken in a second", judged / seconds, "results/s"),
            Figure("operator's processor time a result", 1e6 * busy / taken, "µs"),
            Figure("operator's processor time while results come", 100 * busy / seconds, "%"),
            Figure("processor time of agents and API server meanwhile", 100 * own / seconds, "%"),
            Figure("batch answered, p50", 1000 * percentile(crowd.waits, 0.5), "ms"),
            Figure("batch answered, p99", 1000 * percentile(crowd.waits, 0.99), "ms"),
            Figure("longest stall of the event loop while results come", stall, "ms"),
            Figure("trials stopped by ASHA", next(iter(cluster.experiments))["status"]["trials"]["stoppedEarly"]),
            Figure("API writes a trial that reports", cluster.api.writes.total() / agents),
            Figure("API writes a trial that ASHA stops", _writes_of_stopped(cluster)),
            Figure("results lost", sum(_lost(cluster))),
            Figure("results counted twice", sum(map(_doubled, cluster.trials))),
        ]
        setting = (
            f"{agents} agents played on loopback, each posts batches of {BATCH} results, {taken:,} in all; ASHA stops "
            f"half of the trials at each rung from {iterations // GRACE} on"
        )
        return Measurement(setting, figures, _wrong_decisions(cluster, iterations) + cluster.problems)


class _Crowd:
    """The programs of all trials."""

    def __init__(self, iterations: int) -> None:
        self._iterations = iterations
        self.begin = asyncio.Event()
        self.waiting = 0
        self.last_answer = 0.0
        self.waits: list[float] = []

    async def run(self, pod: FakePod) -> None:
        self.waiting += 1
        await self.begin.wait()
        for first in range(1, self._iterations + 1, BATCH):
            steps = range(first, min(first + BATCH, self._iterations + 1))
            posted = time.monotonic()
            await pod.answers.until_acknowledged(pod.report(*(compute_rising_value(pod.index, step) for step in steps)))
            self.last_answer = time.monotonic()
            self.waits.append(self.last_answer - posted)
            if pod.answers.decision != "CONTINUE":
                return


def _writes_of_stopped(cluster: FakeCluster) -> float:
    """Writes for one of the trials that were stopped: for itself and its pod, and its part of what was for many.

    NaN where none was stopped.
    """
    writes = cluster.api.writes
    of_trials = {trial["metadata"]["name"]: writes["trials", trial["metadata"]["name"]] for trial in cluster.trials}
    for pod in cluster.pods_made.values():
        of_trials[pod.trial] += writes["pods", pod.name]
    shared = (writes.total() - sum(of_trials.values())) / len(of_trials)
    stopped = [trial for trial in cluster.trials if trial["status"]["reason"] == TrialReason.STOPPED_BY_SCHEDULER]
    return shared + mean(of_trials[trial["metadata"]["name"]] for trial in stopped) if stopped else math.nan


def _lost(cluster: FakeCluster) -> Iterable[int]:
    """Of each trial, how many of the results that count are not in its status: those up to its end."""
    trials = {trial["metadata"]["name"]: trial["status"] for trial in cluster.trials}
    for pod in cluster.pods_made.values():
        status = trials[pod.trial]
        decision = status.get("decision") or {}
        last = decision.get("step") or len(pod.values)
        yield abs(last - status["iteration"]) + (float(status["lastResult"]["value"]) != pod.values[last - 1])


def _doubled(trial: Object) -> int:
    """How many decisions a trial records on a result that it had decided on before."""
    decided = [(entry["attempt"], entry["step"]) for entry in trial["status"].get("ledger") or ()]
    return len(decided) - len(set(decided))


def _wrong_decisions(cluster: FakeCluster, iterations: int) -> list[str]:
    """What a trial's record of its rungs says otherwise than its agent has reported."""
    rungs = [step for step in (iterations // GRACE * 2**power for power in range(16)) if step < iterations]
    pods = {pod.trial: pod for pod in cluster.pods_made.values()}
    wrong = []
    for trial in cluster.trials:
        step = (trial["status"].get("decision") or {}).get("step")
        if step is not None and step not in rungs and step < iterations:
            wrong.append(f"{trial['metadata']['name']} was stopped at {step}, which is no rung")
        elif len(pods[trial["metadata"]["name"]].values) < (step or iterations):
            wrong.append(f"{trial['metadata']['name']} ended before its results were there")
    return wrong
