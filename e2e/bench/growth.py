"""What a trial costs the operator as trials become many: of one experiment, and of many small ones.

Each is paid for from its creation to the deletion of its pod. An experiment keeps finished pods for a while, so without
their deletions a small one would look cheaper than a large one.
"""

from __future__ import annotations

import asyncio
from dataclasses import dataclass
from statistics import mean

import orjson

from e2e.bench.fresh_process import in_fresh_process
from e2e.bench.measurement import Figure, Measurement
from e2e.bench.played_cluster import PlayedPod, played_cluster
from e2e.chaos.scenarios import curve

SMALL = 1_000
"""What the others are held against: run before and after each, as the machine is not equally fast all the time."""
SIZES, FULL_SIZES = (4_000,), (3_000, 10_000, 30_000)
EXPERIMENTS, FULL_EXPERIMENTS = 30, 300
TRIALS_EACH = 30
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
    """Runs experiments of ever more trials, each with an operator process of its own."""
    sizes = FULL_SIZES if full else SIZES
    experiments = FULL_EXPERIMENTS if full else EXPERIMENTS
    small, large = [in_fresh_process(measure_cost, 1, SMALL)], []
    for size in sizes:
        large.append(in_fresh_process(measure_cost, 1, size))
        small.append(in_fresh_process(measure_cost, 1, SMALL))
    costs = [sorted(small, key=lambda cost: cost.processor_ms)[(len(small) - 1) // 2], *large]
    each = max(1, AT_ONCE // experiments)
    before, many, after = (
        in_fresh_process(measure_cost, count, experiments * TRIALS_EACH // count, experiments * each // count)
        for count in (1, experiments, 1)
    )
    setting = (
        f"Trials with one result each, {AT_ONCE} at once, against an API server in memory, from a trial's creation "
        f"to the deletion of its pod; a new operator process for each size, {SMALL:,} before and after each of the "
        f"others: of these, the median. {experiments} experiments have {each} at once each, and stand beside one of as "
        "many trials, as many of them at once, run before and after"
    )
    return Measurement(setting, [*_figures(costs), *_figures_of_many(experiments, many, (before, after))])


def measure_cost(experiments: int, trials: int, at_once: int = AT_ONCE) -> Cost:
    """See `run`."""
    return asyncio.run(run(experiments, trials, at_once))


async def run(experiments: int, trials: int, at_once: int = AT_ONCE) -> Cost:
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
    async with played_cluster(lambda _: report_once) as cluster:
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


async def report_once(pod: PlayedPod) -> None:
    """The shortest program that has something to say."""
    await pod.answers.until_acknowledged(pod.report(curve(pod.index, 1)))


def _figures(costs: list[Cost]) -> list[Figure]:
    first, last = costs[0], costs[-1]
    figures = []
    for cost in costs:
        figures.append(Figure(f"processor time a trial of {cost.trials:,}", cost.processor_ms, "ms"))
        figures.append(Figure(f"operator's memory at {cost.trials:,} trials", cost.resident_bytes / 1e6, "MB"))
        figures.append(Figure(f"Experiment object at {cost.trials:,} trials", cost.object_bytes, "B"))
    added = (last.resident_bytes - first.resident_bytes) / (last.trials - first.trials)
    return [
        *figures,
        Figure("growth of the processor time a trial", last.processor_ms / first.processor_ms),
        Figure("operator's memory a trial", added / 1e3, "kB"),
        Figure("growth of the Experiment object", last.object_bytes / first.object_bytes),
    ]


def _figures_of_many(experiments: int, cost: Cost, alone: tuple[Cost, Cost]) -> list[Figure]:
    """What many experiments cost, beside one of as many trials, run twice."""
    name = f"{experiments} experiments of {TRIALS_EACH}"
    one = mean(run.processor_ms for run in alone)
    return [
        Figure(f"processor time a trial, {name}", cost.processor_ms, "ms"),
        Figure(f"processor time a trial, one of {cost.trials:,} beside them", one, "ms"),
        Figure(f"operator's memory, {name}", cost.resident_bytes / 1e6, "MB"),
        Figure("processor time a trial of many experiments, to one's", cost.processor_ms / one),
    ]
