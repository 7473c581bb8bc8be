"""The figures that were committed last, and what has changed since."""

from __future__ import annotations

import datetime
import json
import os
import platform
import statistics
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

COMMITTED = Path(__file__).resolve().parents[1] / "figures" / "tuner.json"

Figures = Mapping[str, Any]
"""By part of the benchmark: the machine, what was found on it, and which promises it breaks."""


@dataclass(frozen=True)
class Change:
    """One figure, then and now."""

    name: str
    before: float
    now: float

    @property
    def ratio(self) -> float | None:
        """Now to then; None where it was 0."""
        return self.now / self.before if self.before else None


def machine() -> dict[str, str]:
    """What the figures were measured with, and when; not where."""
    return {
        "date": datetime.datetime.now(datetime.UTC).date().isoformat(),
        "processors": f"{os.cpu_count()} processors",
        "python": platform.python_version(),
    }


def read(file: Path) -> dict[str, Any]:
    """The figures of a file; none where there is no such file."""
    if not file.exists():
        return {}
    figures: dict[str, Any] = json.loads(file.read_text(encoding="utf-8"))
    return figures


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


def compare(before: Mapping[str, float], now: Mapping[str, float]) -> Sequence[Change]:
    """The figures that are there on both sides."""
    return [Change(name, before[name], figure) for name, figure in now.items() if name in before]


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
