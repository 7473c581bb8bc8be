"""What the operator pays for having things kept while trials run: results, logs and snapshots in the store.

Experiments that differ in nothing else run at the same time, each with an operator of its own: a machine that is shared
is half as fast at one time as at another. Then one operator passes on logs as fast as it can (`log_relay`). What the
store takes is the agents' work, and is not in it. To compare others, name the fields of their specs:

python -m e2e.bench.operator.kept 'results kept={"results": {"keep": "8Mi"}}' …
"""

from __future__ import annotations

import argparse
import asyncio
import json
import random
from collections.abc import Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from statistics import median

from e2e.bench.fake_cluster.api_objects import Object
from e2e.bench.fake_cluster.fake_cluster import FakePod, run_fake_cluster
from e2e.bench.fresh_process import in_fresh_process
from e2e.bench.measurement import Figure, Measurement
from e2e.bench.operator import log_relay
from podtune.simulation.curves.functions import compute_rising_value

NONE_KEPT = "none kept"
STORE: Object = {"checkpoints": {"store": {"bucket": "bench"}}}
NO_RESULTS: Object = {"results": {"keep": "0"}}
NO_SNAPSHOTS: Object = {"snapshot": {"period": "0s"}}
BASE: Object = {**STORE, **NO_RESULTS, **NO_SNAPSHOTS}
VARIANTS: Mapping[str, Object] = {
    "results kept": {**STORE, **NO_SNAPSHOTS},
    "snapshots kept": {**STORE, **NO_RESULTS},
    "as by default": STORE,
    "logs kept, too": {**STORE, "logs": {"keep": "8Mi"}},
}
"""What is held against a trial of which nothing is kept: by name, fields of the spec."""
TRIALS, AT_ONCE = 200, 100
STEPS, FULL_STEPS = 12, 30
"""Results of a trial, one a second; it prints a line with each."""
STEP_SECONDS = 1.0
LINE = "epoch {step}: loss {value:.6f}, learning rate 0.00031, 1,024 samples a second, ETA 00:12:31"
ROUNDS, FULL_ROUNDS = 3, 5
OPERATOR = "podtune.app.main"
"""The operator alone: what records its stalls uses time, too."""
AT_REST_SECONDS = 60.0
SECONDS_A_TRIAL = 0.5


def measure(full: bool) -> Measurement:
    """Compares what is kept by default, and logs, with nothing; and measures the relay of logs."""
    kept = measure_variants(VARIANTS, FULL_STEPS if full else STEPS, FULL_ROUNDS if full else ROUNDS)
    relayed = log_relay.measure(full)
    return Measurement(
        f"{kept.setting}. Then {relayed.setting}", [*kept.figures, *relayed.figures], [*kept.broken, *relayed.broken]
    )


def measure_variants(variants: Mapping[str, Object], steps: int, rounds: int, trials: int = TRIALS) -> Measurement:
    """Runs all variants side by side, several times over."""
    specs = {NONE_KEPT: BASE, **variants}
    found = [_run_side_by_side(specs, trials, steps, turn) for turn in range(rounds)]
    figures = [
        Figure(f"processor time a trial, {name}", median(cost[name] for cost in found), "ms") for name in specs
    ] + [
        Figure(
            f"processor time a trial, {name}, to {NONE_KEPT}", median(cost[name] / cost[NONE_KEPT] for cost in found)
        )
        for name in variants
    ]
    setting = (
        f"{trials} trials, {min(trials, AT_ONCE)} at once, each trains for {steps * STEP_SECONDS:g} s, with a result "
        f"and a line of output every {STEP_SECONDS:g} s; each variant with an operator of its own, all at the same "
        f"time; API server in memory; median of {rounds}"
    )
    return Measurement(setting, figures)


def _run_side_by_side(specs: Mapping[str, Object], trials: int, steps: int, turn: int) -> dict[str, float]:
    """The milliseconds of a trial by variant; each of them is the first to start in one of the turns."""
    names = [*specs][turn % len(specs) :] + [*specs][: turn % len(specs)]
    with ThreadPoolExecutor(len(names)) as threads:
        costs = threads.map(lambda name: in_fresh_process(measure_cost, specs[name], trials, steps), names)
        return dict(zip(names, costs, strict=True))


def measure_cost(spec: Object, trials: int, steps: int) -> float:
    """See `run`."""
    return asyncio.run(run(spec, trials, steps))


async def run(spec: Object, trials: int, steps: int) -> float:
    """Runs an experiment to its end.

    Args:
        spec: Fields of its spec.
        trials: How many it has.
        steps: Results of each.

    Returns:
        Milliseconds of the operator's processor time a trial.

    Raises:
        RuntimeError: A pod has failed, or lines of an output that is kept have not come.
        TimeoutError: It takes far too long.
    """

    async def train(pod: FakePod) -> None:
        await asyncio.sleep(random.Random(pod.index).uniform(0, STEP_SECONDS))
        for step in range(1, steps + 1):
            await asyncio.sleep(STEP_SECONDS)
            value = compute_rising_value(pod.index, step)
            pod.log.print(LINE.format(step=step, value=value))
            pod.report(value)
        await pod.answers.until_acknowledged(steps)

    async with run_fake_cluster(lambda _: train, OPERATOR) as cluster:
        busy = cluster.operator.processor_seconds
        cluster.create_experiment("kept", trials, AT_ONCE, **spec)
        await cluster.until_complete(60 + (steps * STEP_SECONDS + SECONDS_A_TRIAL) * trials)
        await cluster.operator.until_at_rest(AT_REST_SECONDS)
        used = cluster.operator.processor_seconds - busy
        pods = list(cluster.pods_made.values())
        if cluster.problems:
            raise RuntimeError(f"{len(cluster.problems)} pods failed: {cluster.problems[0]}")
        if lost := [pod.name for pod in pods if pod.keeps_log and pod.lines_kept != pod.log.count]:
            raise RuntimeError(f"{len(lost)} agents lack lines of their program's output: {lost[0]}")
        return 1000 * used / trials


def _read_variant(text: str) -> tuple[str, Object]:
    name, _, fields = text.partition("=")
    return name, {**BASE, **json.loads(fields)}


def main(arguments: Sequence[str] | None = None) -> None:
    """Compares the variants that the command line names."""
    parser = argparse.ArgumentParser(prog="python -m e2e.bench.operator.kept", description="What keeping things costs.")
    parser.add_argument("variants", nargs="+", type=_read_variant, metavar="NAME=JSON", help="fields of the spec")
    parser.add_argument("--steps", type=int, default=STEPS)
    parser.add_argument("--rounds", type=int, default=ROUNDS)
    options = parser.parse_args(arguments)
    for figure in measure_variants(dict(options.variants), options.steps, options.rounds).figures:
        print(f"{figure.name}: {figure.text}")


if __name__ == "__main__":
    main()
