"""How long the operator takes to react while a thousand trials run: to a result, and to the end of a pod."""

from __future__ import annotations

import asyncio
import random
import time

from e2e.bench.fake_cluster.fake_cluster import FakePod, run_fake_cluster
from e2e.bench.measurement import Figure, Measurement, percentile
from e2e.chaos.polling import until
from podtune.simulation.curves.functions import compute_rising_value

RUNNING, FULL_RUNNING = 300, 1_000
SECONDS, FULL_SECONDS = 30.0, 120.0
PERIOD = 5.0
"""Seconds between two results of a trial."""
MOST_RESULTS = 20
"""Of a trial; one has half as many on average."""
SPREAD, FULL_SPREAD = 20.0, 40.0
"""Seconds over which the first trials begin to report, before anything is measured: those that begin together reach
each rung together, and end by the hundred."""
ENOUGH = 100_000
"""Trials that never run out."""
DEADLINE = 300.0


def measure(full: bool) -> Measurement:
    """Has trials report and end at an even pace."""
    running, seconds, spread = (FULL_RUNNING, FULL_SECONDS, FULL_SPREAD) if full else (RUNNING, SECONDS, SPREAD)
    return asyncio.run(measure_reaction(running, seconds, spread))


async def measure_reaction(running: int, seconds: float, spread: float) -> Measurement:
    """Does it with so many trials at once, for so long after so many seconds in which they begin.

    Raises:
        TimeoutError: They do not come to run, or none of them gets an answer.
    """
    pace = _Pace(spread)
    async with run_fake_cluster(lambda _: pace.run) as cluster:
        scheduler = {"asha": {"maxTime": MOST_RESULTS, "gracePeriod": 4, "reductionFactor": 2}}
        cluster.create_experiment("reaction", ENOUGH, running, scheduler=scheduler)
        if not await until(lambda: pace.waiting == running, DEADLINE, interval=0.2):
            raise TimeoutError(f"{pace.waiting} of {running} trials run: {cluster.problems[:3]}")
        pace.begin.set()
        await asyncio.sleep(spread)
        begun = time.monotonic()
        pace.waits.clear()
        await asyncio.sleep(seconds)
        if not await until(lambda: bool(pace.waits), DEADLINE):
            raise TimeoutError(f"no result was answered: {cluster.problems[:3]}")
        measured = time.monotonic() - begun
        # All places are taken, so with each end one gets free, and the pods that are made next take them in order.
        freed = zip(sorted(cluster.ended.values()), sorted(cluster.created.values())[running:], strict=False)
        made = [1000 * (after - before) for before, after in freed if before > begun]
        answered = [1000 * wait for wait in pace.waits]
        figures = [
            Figure("result to decision, p50", percentile(answered, 0.5), "ms"),
            Figure("result to decision, p99", percentile(answered, 0.99), "ms"),
            Figure("pod's end to the next pod's POST, p50", percentile(made, 0.5), "ms"),
            Figure("pod's end to the next pod's POST, p99", percentile(made, 0.99), "ms"),
            Figure("results a second meanwhile", len(answered) / measured, "results/s"),
            Figure("pods a second meanwhile", len(made) / measured, "pods/s"),
        ]
        setting = (
            f"{running:,} trials at once under ASHA, each reports every {PERIOD:g} s and ends after {MOST_RESULTS} "
            f"results or before; {seconds:g} s after {spread:g} s in which they begin, API server in memory"
        )
        return Measurement(setting, figures, cluster.problems)


class _Pace:
    """The programs of all trials."""

    def __init__(self, spread: float) -> None:
        self._spread = spread
        self.begin = asyncio.Event()
        self.waiting = 0
        self.waits: list[float] = []

    async def run(self, pod: FakePod) -> None:
        """Reports now and then, and ends."""
        rng = random.Random(pod.index)
        if not self.begin.is_set():
            self.waiting += 1
            await self.begin.wait()
            await asyncio.sleep(self._spread * rng.random())
        for _ in range(rng.randint(1, MOST_RESULTS)):
            await asyncio.sleep(PERIOD * rng.uniform(0.5, 1.5))
            posted = time.monotonic()
            await pod.answers.until_acknowledged(pod.report(compute_rising_value(pod.index, len(pod.values) + 1)))
            self.waits.append(time.monotonic() - posted)
