"""The figures of the tuner by which one benchmark is compared with another."""

from __future__ import annotations

import statistics
from collections.abc import Mapping
from typing import Any

from e2e.bench.figures import DIRECTORY, Figures

COMMITTED = DIRECTORY / "tuner.json"


def headlines(figures: Figures) -> dict[str, float]:
    """The figures by which one benchmark is compared with another, by name."""
    found: dict[str, float] = {}
    for pairing in _of(figures, "quality") or ():
        names = (pairing["algorithm"], pairing["problem"])
        found["median of {} on {}".format(*names)] = statistics.median(pairing["ours"])
        found["p of {} on {}".format(*names)] = pairing["p"]
    schedulers = _of(figures, "schedulers")
    for contender in schedulers["contenders"] if schedulers else ():
        last = schedulers["hours"][-1]
        found[f"regret of {contender['name']} after {last:g} h, %"] = 100 * contender["medians"][-1]
    cost = _of(figures, "cost")
    return {**found, **_costs(cost)} if cost else found


def _of(figures: Figures, part: str) -> Any:
    return figures[part]["figures"] if part in figures else None


def _costs(cost: Mapping[str, Any]) -> dict[str, float]:
    engine = cost["engine"]
    found = {
        "engine, trials a second": engine["trials"] / engine["seconds"],
        "engine, processor ms a trial": 1000 * engine["processor_seconds"] / engine["trials"],
        "engine, kB a trial": engine["bytes_a_trial"] / 1000,
    }
    for name, other in cost["others"].items():
        if other is not None:
            found[f"{name}, trials a second"] = other["trials"] / other["seconds"]
    for asking in cost["proposals"]:
        for count, ours in zip(asking["finished"], asking["ours"], strict=True):
            found[f"proposal of {asking['algorithm']} after {count:,} trials, ms"] = ours
    return found
