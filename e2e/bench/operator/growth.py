"""What a trial costs the operator as trials become many: of one experiment, and of many small ones.

What is compared runs at the same time, each with an operator of its own: a machine that is shared is half as fast at
one time as at another. Each trial is paid for from its creation to the deletion of its pod. An experiment keeps
finished pods for a while, so without their deletions a small one would look cheaper than a large one.
"""

from __future__ import annotations

import asyncio
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from statistics import mean

import orjson

from e2e.bench.fake_cluster.fake_cluster import FakePod, run_fake_cluster
from e2e.bench.fresh_process import in_fresh_process
from e2e.bench.measurement import Figure, Measurement
from podtune.simulation.curves.functions import compute_rising_value

SMALL = 1_000
"""Trials of what the others are held against."""
SIZES, FULL_SIZES = (3_000,), (3_000, 10_000, 30_000)
EXPERIMENTS = 300
TRIALS_EACH = 30
ROUNDS = 3
"""So often these run beside one: what two busy operators take from each other differs by a tenth; the median counts."""
AT_ONCE = 100
AT_REST_SECONDS = 120.0
"""In this the operator has taken in the deletion of all pods: a small experiment has most of them at its end."""
SECONDS_A_TRIAL = 0.5
"""A run that takes longer than so many times its trials is given up."""


@dataclass(frozen=True)
class Cost:
    """What an operator process has used for its trials.

    Attributes:
        processor_ms: Of a trial, its pod's deletion included.
        grown_bytes: By how much its memory has grown.
        resident_bytes: Its memory at the end.
        object_bytes: Size of the largest Experiment, as JSON.
        seconds: From the first to the last trial.
    """

    trials: int
    processor_ms: float
    grown_bytes: int
    resident_bytes: int
    object_bytes: int
    seconds: float


def measure(full: bool) -> Measurement:
    """Runs experiments of ever more trials, and many experiments, each with an operator process of its own."""
    growth = [_beside_small(size) for size in (FULL_SIZES if full else SIZES)]
    setting = (
        f"Trials with one result each, {AT_ONCE} at once, against an API server in memory, from a trial's creation "
        f"to the deletion of its pod; beside each large experiment ones of {SMALL:,} trials run meanwhile, each with a "
        f"new operator process. {EXPERIMENTS} experiments, a trial at once each, run beside one of as many trials, as "
        f"many of them at once; the median of {ROUNDS} such pairs"
    )
    pairs = sorted((_beside_one(TRIALS_EACH) for _ in range(ROUNDS)), key=_many_to_one)
    return Measurement(setting, [*_figures(growth), *_figures_of_many(TRIALS_EACH, *pairs[ROUNDS // 2])])


def _beside_small(trials: int) -> tuple[Cost, list[Cost]]:
    """What a large experiment costs, and small ones that run meanwhile, one after the other."""
    with ThreadPoolExecutor(1) as thread:
        large = thread.submit(in_fresh_process, measure_cost, 1, trials, AT_ONCE)
        small: list[Cost] = []
        while not small or not large.done():
            small.append(in_fresh_process(measure_cost, 1, SMALL, AT_ONCE))
        return large.result(), small[:-1] or small  # the last one had the machine for itself in the end


def _beside_one(trials_each: int) -> tuple[Cost, Cost]:
    """What many experiments cost, and one of as many trials that runs meanwhile."""
    with ThreadPoolExecutor(1) as thread:
        many = thread.submit(in_fresh_process, measure_cost, EXPERIMENTS, trials_each, 1)
        one = in_fresh_process(measure_cost, 1, EXPERIMENTS * trials_each, EXPERIMENTS)
        return many.result(), one


def measure_cost(experiments: int, trials: int, at_once: int) -> Cost:
    """See `run`."""
    return asyncio.run(run(experiments, trials, at_once))


async def run(experiments: int, trials: int, at_once: int) -> Cost:
    """Runs experiments to their ends.

    Args:
        experiments: How many.
        trials: How many each has.
        at_once: How many of these may run at once.

    Raises:
        TimeoutError: They take far too long.
    """
    loop = asyncio.get_running_loop()
    count = experiments * trials
    async with run_fake_cluster(lambda _: report_once) as cluster:
        before, busy, begun = cluster.operator.resident_bytes, cluster.operator.processor_seconds, loop.time()
        for number in range(experiments):
            cluster.create_experiment(f"growth{number}", trials, at_once)
        await cluster.until_complete(60 + SECONDS_A_TRIAL * count)
        await cluster.until_cleaned_up(60 + SECONDS_A_TRIAL * count)
        await cluster.operator.until_at_rest(AT_REST_SECONDS)
        if cluster.problems:
            raise RuntimeError(f"{len(cluster.problems)} pods failed: {cluster.problems[0]}")
        resident = cluster.operator.resident_bytes
        return Cost(
            trials=count,
            processor_ms=1000 * (cluster.operator.processor_seconds - busy) / count,
            grown_bytes=resident - before,
            resident_bytes=resident,
            object_bytes=max(len(orjson.dumps(experiment)) for experiment in cluster.experiments),
            seconds=loop.time() - begun,
        )


async def report_once(pod: FakePod) -> None:
    """The shortest program that has something to say."""
    await pod.answers.until_acknowledged(pod.report(compute_rising_value(pod.index, 1)))


def _figures(growth: list[tuple[Cost, list[Cost]]]) -> list[Figure]:
    """Of each size, with the small ones that ran meanwhile."""
    first, last = growth[0][1][0], growth[-1][0]
    figures, ratios = [], []
    for large, small in growth:
        beside = mean(cost.processor_ms for cost in small)
        name = f"processor time a trial of {large.trials:,}"
        figures += [Figure(name, large.processor_ms, "ms"), Figure(f"{name}, of {SMALL:,} meanwhile", beside, "ms")]
        ratios.append(large.processor_ms / beside)
    for cost in (first, *(large for large, _ in growth)):
        figures.append(Figure(f"operator's memory at {cost.trials:,} trials", cost.resident_bytes / 1e6, "MB"))
        figures.append(Figure(f"Experiment object at {cost.trials:,} trials", cost.object_bytes, "B"))
    added = (last.resident_bytes - first.resident_bytes) / (last.trials - first.trials)
    # The first thousands also pay for what is loaded and reserved once: no target is held against them.
    of_the_first = "" if last.trials >= FULL_SIZES[-1] else f" of the first {last.trials:,}"
    return [
        *figures,
        Figure("growth of the processor time a trial", max(ratios)),
        Figure(f"operator's memory a trial{of_the_first}", added / 1e3, "kB"),
        Figure("growth of the Experiment object", last.object_bytes / first.object_bytes),
    ]


def _many_to_one(pair: tuple[Cost, Cost]) -> float:
    many, one = pair
    return many.processor_ms / one.processor_ms


def _figures_of_many(trials_each: int, many: Cost, one: Cost) -> list[Figure]:
    name = f"{EXPERIMENTS} experiments of {trials_each}"
    return [
        Figure(f"processor time a trial, {name}", many.processor_ms, "ms"),
        Figure(f"processor time a trial, one of {many.trials:,} meanwhile", one.processor_ms, "ms"),
        Figure(f"operator's memory, {name}", many.resident_bytes / 1e6, "MB"),
        Figure("processor time a trial of many experiments, to one's", _many_to_one((many, one))),
    ]
