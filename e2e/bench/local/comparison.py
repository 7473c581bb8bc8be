"""`podtune run` beside Ray Tune and Syne Tune's LocalBackend, on one machine: no-op trials, and trials of a second.

Each trial is a process with each of them, two at a time, and each reports one value. The time is that of the search
itself: neither imports nor the start of Ray are in it. The three take turns, so that other work meets all alike. At the
end somebody begins with nothing, installs Podtune, and waits for the first result of the digits.
"""

from __future__ import annotations

import json
import statistics
import subprocess
import sys
from collections.abc import Callable

from e2e.bench.local.first_result import measure_first_result
from e2e.bench.measurement import Figure, Measurement
from e2e.bench.tuner.environments import ROOT, Environment, Missing

SLOTS = 2
LIMIT = 600.0
"""Seconds that a run may take."""
Runner = Callable[[int, float], float]


def measure(full: bool) -> Measurement:
    """Measures trials a second."""
    rounds, trials = (3, {0.0: 20, 1.0: 20}) if full else (1, {0.0: 10, 1.0: 6})
    runners, missing = _find_runners()
    figures: list[Figure] = []
    for duration, count in trials.items():
        figures += _compare(runners, missing, rounds, count, duration)
    try:
        waited = measure_first_result()
        figures.append(Figure("pip install of Podtune and scikit-learn", waited["installation"], "s"))
        figures.append(Figure("first result of the digits after pip install", waited["first result"], "s"))
    except Missing as error:
        missing.append(f"The first result was not measured: {error}")
    counts = " and ".join(f"{count} of {duration:g} s" for duration, count in trials.items())
    setting = (
        f"`podtune run`, Ray Tune and Syne Tune's LocalBackend in turn, rounds: {rounds}; {counts}, {SLOTS} at a time"
    )
    return Measurement(". ".join([setting, *missing]), figures)


def _compare(runners: dict[str, Runner], missing: list[str], rounds: int, trials: int, duration: float) -> list[Figure]:
    """Has each run as many trials as the others, in turn; one that can't leaves the comparison, and is said to."""
    rates: dict[str, list[float]] = {name: [] for name in runners}
    for _ in range(rounds):
        for name, run in list(runners.items()):
            try:
                rates[name].append(trials / run(trials, duration))
            except Missing as error:
                del runners[name]
                missing.append(f"{name} was not measured: {error}")
    medians = {name: statistics.median(rates[name]) for name in runners}
    kind = f"trials of {duration:g} s" if duration else "no-op trials"
    figures = [Figure(f"{kind} a second on one machine, {name}", rate) for name, rate in medians.items()]
    others = [rate for name, rate in medians.items() if name != "Podtune"]
    if others:
        figures.append(Figure(f"{kind} on one machine, to the faster other", medians["Podtune"] / max(others)))
    return figures


def _find_runners() -> tuple[dict[str, Runner], list[str]]:
    """What can be run here by name, and what is missing."""
    found: dict[str, Runner] = {"Podtune": _run_podtune}
    missing: list[str] = []
    for name, requirements, module in (
        ("Ray Tune", "replay.txt", "e2e.bench.local.with_ray"),
        ("Syne Tune", "bench-syne-tune.txt", "e2e.bench.local.with_syne_tune"),
    ):
        environment = Environment(requirements)
        try:
            environment.install()
        except Missing as error:
            missing.append(f"{name} was not measured: {error}")
            continue
        found[name] = _make_runner(environment, module)
    return found, missing


def _make_runner(environment: Environment, module: str) -> Runner:
    def run(trials: int, duration: float) -> float:
        return _check(environment.run(module, str(trials), str(duration), str(SLOTS), timeout=LIMIT), trials)

    return run


def _run_podtune(trials: int, duration: float) -> float:
    words = [sys.executable, "-m", "e2e.bench.local.with_podtune", str(trials), str(duration), str(SLOTS)]
    ran = subprocess.run(words, cwd=ROOT, capture_output=True, text=True, check=True, timeout=LIMIT)
    return _check(json.loads(ran.stdout.strip().splitlines()[-1]), trials)


def _check(found: dict[str, float], trials: int) -> float:
    """Seconds that all trials took.

    Raises:
        RuntimeError: Some are missing.
    """
    if found["trials"] != trials:
        raise RuntimeError(f"{found['trials']:g} of {trials} trials were done")
    return found["seconds"]
