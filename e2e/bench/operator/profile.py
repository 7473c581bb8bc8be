"""Where the processor time of a trial goes in the operator, by package."""

from __future__ import annotations

import asyncio

from e2e.bench.fake_cluster.fake_cluster import run_fake_cluster
from e2e.bench.fake_cluster.measured_operator import WITH_PROFILE
from e2e.bench.fake_cluster.operator_with_profile import WRITE_SECONDS
from e2e.bench.measurement import Figure, Measurement
from e2e.bench.operator.growth import AT_ONCE, report_once

TRIALS, FULL_TRIALS = 1_000, 5_000
SECONDS_A_TRIAL = 0.5
SHOWN = 0.01
"""Share of the whole below which a package is counted among the others."""


def measure(full: bool) -> Measurement:
    """Runs one experiment, and has the operator look at its own stack meanwhile."""
    return asyncio.run(measure_trials(FULL_TRIALS if full else TRIALS))


async def measure_trials(trials: int) -> Measurement:
    """Runs an experiment of so many trials, each with one result.

    Raises:
        TimeoutError: It takes far too long.
    """
    async with run_fake_cluster(lambda _: report_once, WITH_PROFILE) as cluster:
        await asyncio.sleep(2 * WRITE_SECONDS)
        before = cluster.operator.profile()
        cluster.create_experiment("profile", trials, AT_ONCE)
        await cluster.until_complete(60 + SECONDS_A_TRIAL * trials)
        await asyncio.sleep(2 * WRITE_SECONDS)
        seconds = {name: used - before.get(name, 0.0) for name, used in cluster.operator.profile().items()}
    setting = (
        f"{trials:,} trials with one result each, {AT_ONCE} at once, against an API server in memory; a look at the "
        "operator's stack every 2 ms of its processor time, of which each goes to the innermost package that is not "
        "Python's own"
    )
    return Measurement(setting, _figures(seconds, trials))


def _figures(seconds: dict[str, float], trials: int) -> list[Figure]:
    whole = sum(seconds.values())
    shown = {package: used for package, used in seconds.items() if used >= SHOWN * whole}
    rest = whole - sum(shown.values())
    parts = [*sorted(shown.items(), key=lambda item: -item[1]), ("all others", rest)]
    return [
        Figure("processor time a trial, with profile", 1000 * whole / trials, "ms"),
        *(Figure(f"of it in {package}", 1000 * used / trials, "ms") for package, used in parts),
    ]
