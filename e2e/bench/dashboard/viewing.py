"""The dashboard at 10,000 trials: the first view, an update, memory; and Optuna Dashboard beside it."""

from __future__ import annotations

import asyncio
import math
import tempfile
import time
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path

from playwright.sync_api import Browser

from e2e.bench.dashboard.first_view import FirstView, find_median, visit
from e2e.bench.dashboard.servers import Served, serve_archive, serve_changes, serve_told, write_archive
from e2e.bench.dashboard.viewers import watch
from e2e.bench.measurement import Figure, Measurement, percentile
from e2e.bench.tuner.environments import Environment, Missing
from e2e.browser.chromium import open_browser
from e2e.devcluster.errors import ClusterError

TRIALS = 10_000
CHANGES = 100
"""Trials that change in a second."""
VIEWERS = 20
OURS = "svg.marks path.dots"
THEIRS = ".js-plotly-plot .main-svg .trace, .js-plotly-plot canvas"
NOT_SEEN = "Chromium is missing, so nobody has looked at a page"
NOT_BESIDE = "Optuna Dashboard could not be had"


def measure(full: bool) -> Measurement:
    """Measures all; without a browser, or without Optuna Dashboard, what can be measured."""
    visits, seconds = (7, 60.0) if full else (3, 20.0)
    figures: list[Figure] = []
    missing: list[str] = []
    with ExitStack() as stack:
        try:
            browser = stack.enter_context(open_browser())
        except ClusterError as error:
            browser = None
            missing.append(f"{NOT_SEEN}: {error}")
        with tempfile.TemporaryDirectory() as directory:
            file = Path(directory, "sweep.yaml")
            write_archive(TRIALS, file)
            figures += _measure_archive(browser, file, visits)
        if browser is not None:
            try:
                figures += _measure_beside(browser)
            except Missing as error:
                missing.append(f"{NOT_BESIDE}: {error}")
    figures += _measure_updates(seconds)
    setting = (
        f"{TRIALS:,} trials on loopback; an archive, opened {visits} times by a Chromium that has seen nothing yet, "
        f"median; then as many trials of a cluster, of which {CHANGES} change in a second, for {seconds:g} s. "
        "Optuna Dashboard has a study in memory that was made of the same trials; the same browser opens it once, as "
        "its first chart can take more than a minute"
    )
    return Measurement(". ".join([setting, *missing]), figures)


def _measure_archive(browser: Browser | None, file: Path, visits: int) -> Iterator[Figure]:
    with serve_archive(file) as served:
        if browser is not None:
            found = find_median([visit(browser, served.page, OURS) for _ in range(visits)])
            yield from _tell_view("", found)
        else:
            asyncio.run(watch_once(served))
        yield Figure("dashboard's memory with an archive of 10,000 trials", served.megabytes, "MB")


async def watch_once(served: Served) -> None:
    """Has the page made once: memory is of no interest before that."""
    import aiohttp

    async with aiohttp.ClientSession() as session, session.get(served.page) as answer:
        await answer.read()


def _measure_beside(browser: Browser) -> Iterator[Figure]:
    environment = Environment("bench-optuna-dashboard.txt")
    command, variables = environment.describe_run("e2e.bench.dashboard.optuna_server", str(TRIALS))
    with serve_told(command, variables) as served:
        found = visit(browser, served.address, THEIRS)
        yield from _tell_view("Optuna Dashboard: ", found)
        yield Figure("Optuna Dashboard: memory, with the study", served.megabytes, "MB")


def _tell_view(whose: str, view: FirstView) -> Iterator[Figure]:
    yield Figure(f"{whose}first paint of 10,000 trials", view.paint, "ms")
    yield Figure(f"{whose}first chart of 10,000 trials", view.chart, "ms")
    yield Figure(f"{whose}sent until then", view.kilobytes, "kB")


def _measure_updates(seconds: float) -> Iterator[Figure]:
    """What updates cost, less what it costs to read the changes."""
    with serve_changes(TRIALS, CHANGES) as served:
        alone = _measure_share(served, seconds)
        one, _ = _watch(served, 1, seconds, alone)
        many, waits = _watch(served, VIEWERS, seconds, alone)
        yield Figure("server's processor time to read a changed trial", 1000 * alone / CHANGES, "ms")
        yield Figure("server's processor time for a live update of 10,000 trials", one, "ms")
        yield Figure("server's processor time for one that 20 viewers get", many, "ms")
        yield Figure("update to page, 20 viewers, p50", 1000 * percentile(waits, 0.5), "ms")
        yield Figure("update to page, 20 viewers, p99", 1000 * percentile(waits, 0.99), "ms")
        yield Figure("dashboard's memory at 10,000 trials that change", served.megabytes, "MB")


def _measure_share(served: Served, seconds: float) -> float:
    """The share of a processor that is used while nobody looks."""
    before, since = served.seconds, time.monotonic()
    time.sleep(seconds)
    return (served.seconds - before) / (time.monotonic() - since)


def _watch(served: Served, viewers: int, seconds: float, alone: float) -> tuple[float, list[float]]:
    """Milliseconds of the processor an update, and how long each viewer waited for each page."""
    asyncio.run(watch(served.page, viewers, 5.0))  # what is kept of each trial is read once
    before, since = served.seconds, time.monotonic()
    seen = asyncio.run(watch(served.page, viewers, seconds))
    used = served.seconds - before
    return find_cost(used, alone * (time.monotonic() - since), len(seen.revisions)), seen.waits


def find_cost(used: float, without: float, updates: int) -> float:
    """Milliseconds of the processor an update, of seconds that were used, and of those that were anyway."""
    return 1000 * (used - without) / updates if updates else math.nan
