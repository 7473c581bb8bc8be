"""An operator that is killed while a thousand of ten thousand trials run: how soon its successor decides.

It is started again as the kubelet starts a container again; a node that dies adds the time until its Lease has expired
and another pod runs. Then all watches expire, and the event loop is watched through the lists and the sweep after it.
"""

from __future__ import annotations

import asyncio
import random
import time
from collections.abc import Iterable

from e2e.bench.fake_cluster.fake_cluster import FakeCluster, FakePod, Program, run_fake_cluster
from e2e.bench.fake_cluster.measured_operator import longest_stall, now
from e2e.bench.measurement import Figure, Measurement
from e2e.bench.operator.growth import report_once
from e2e.chaos.polling import until
from podtune.simulation.curves.functions import compute_rising_value

TRIALS, RUNNING = 2_000, 300
FULL_TRIALS, FULL_RUNNING = 10_000, 1_000
MORE = 20
"""Trials that are still to come when the operator is killed."""
PERIOD = 2.0
"""Seconds between two results of a trial."""
SWEPT_SECONDS = 20.0
"""After this the sweep is over: watches that begin anew call for one in ten seconds."""
READ_SECONDS = 0.2
"""In this the agents have read what the operator had answered before it was killed."""
DEADLINE = 1200.0


def measure(full: bool) -> Measurement:
    """Kills an operator, and starts it again."""
    trials, running = (FULL_TRIALS, FULL_RUNNING) if full else (TRIALS, RUNNING)
    return asyncio.run(measure_restart(trials, running))


async def measure_restart(trials: int, running: int, watched_seconds: float = SWEPT_SECONDS) -> Measurement:
    """Does it with so many trials, of which so many run.

    Raises:
        TimeoutError: The trials, or the operator's successor, take far too long.
    """
    programs = _Programs(trials - running)
    async with run_fake_cluster(programs.of) as cluster:
        cluster.create_experiment("restart", trials + MORE, running)
        if not await until(lambda: programs.running == running, DEADLINE, interval=0.2):
            raise TimeoutError(f"{programs.running} of {running} trials run: {cluster.problems[:3]}")
        await asyncio.sleep(PERIOD)
        pods = len(cluster.pods_made)
        killed, since = time.monotonic(), now()
        await cluster.operator.kill()
        await asyncio.sleep(READ_SECONDS)
        dead = time.monotonic()
        programs.end_one.set()  # its place is free while nobody is there to see it
        await cluster.operator.start()
        led = time.monotonic()
        if not await until(lambda: programs.last_answer > dead and len(cluster.pods_made) > pods, DEADLINE):
            raise TimeoutError("the operator's successor decides nothing")
        decided = min(at for at in programs.answers if at > dead)
        made = min(at for at in cluster.created.values() if at > dead)
        beginning, since = longest_stall(cluster.operator, since), now()
        for collection in (cluster.trials, cluster.pods, cluster.experiments):
            collection.expire()
        await asyncio.sleep(watched_seconds)
        stall = longest_stall(cluster.operator, since)
        resident = cluster.operator.resident_bytes
        programs.end_all.set()
        await cluster.until_complete(DEADLINE)
        figures = [
            Figure("leading again after SIGKILL", led - killed, "s"),
            Figure("first decision after SIGKILL", max(decided, made) - killed, "s"),
            Figure("first result taken in after SIGKILL", decided - killed, "s"),
            Figure("first pod made after SIGKILL", made - killed, "s"),
            Figure("longest stall until the first decision", beginning, "ms"),
            Figure("longest stall of the event loop", stall, "ms"),
            Figure("operator's memory after the restart", resident / 1e6, "MB"),
            Figure("results lost over the restart", sum(_lost(cluster))),
            Figure("pods made twice", len(cluster.pods_made) - len(cluster.trials)),
        ]
        setting = (
            f"The operator of {trials:,} trials is killed while {running:,} of them run and report every {PERIOD:g} s; "
            "API server in memory. Then all watches expire: the event loop is watched through relist and sweep"
        )
        return Measurement(setting, figures, cluster.problems)


class _Programs:
    """The programs of all trials: the first ones end at once, the others when they are told to."""

    def __init__(self, short: int) -> None:
        self._short = short
        self.running = 0
        self.answers: list[float] = []
        self.end_one, self.end_all = asyncio.Event(), asyncio.Event()

    @property
    def last_answer(self) -> float:
        """When a result was taken in last."""
        return self.answers[-1] if self.answers else 0.0

    def of(self, index: int) -> Program:
        """The program of a trial."""
        return report_once if index < self._short else self._run

    async def _run(self, pod: FakePod) -> None:
        self.running += 1
        end = self.end_one if pod.index == self._short else self.end_all
        wait = PERIOD * random.Random(pod.index).random()
        while not await _comes(end, wait):
            await pod.answers.until_acknowledged(pod.report(compute_rising_value(pod.index, len(pod.values) + 1)))
            self.answers.append(time.monotonic())
            wait = PERIOD


async def _comes(event: asyncio.Event, seconds: float) -> bool:
    """Whether something happens in time."""
    try:
        async with asyncio.timeout(seconds):
            return await event.wait()
    except TimeoutError:
        return False


def _lost(cluster: FakeCluster) -> Iterable[int]:
    """Of each trial, how many of its results are not in its status."""
    trials = {trial["metadata"]["name"]: trial["status"] for trial in cluster.trials}
    for pod in cluster.pods_made.values():
        yield abs(len(pod.values) - trials[pod.trial].get("iteration", 0))
