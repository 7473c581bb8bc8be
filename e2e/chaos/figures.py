"""What a campaign comes to, in numbers: `docs/reliability.md` is made of them."""

from __future__ import annotations

import json
import os
from collections import Counter
from collections.abc import Collection, Mapping, Sequence
from pathlib import Path
from statistics import median
from typing import Any

from e2e.chaos.campaign import UNDISTURBED
from e2e.chaos.testbed import PerturbationResult


def figures(
    results: Mapping[str, Sequence[PerturbationResult]], recoveries: Sequence[float], *, seed: int, seconds: float
) -> dict[str, Any]:
    """The figures of a campaign."""
    groups = {name: _of_group(found) for name, found in results.items() if name != UNDISTURBED and found}
    return {
        "seed": seed,
        "processors": os.cpu_count(),
        "seconds": round(seconds),
        "perturbations": sum(group["perturbations"] for group in groups.values()),
        "struck": sum(group["struck"] for group in groups.values()),
        "broken": sorted(v.perturbation.id for found in results.values() for v in found if v.problems),
        "operatorDeaths": len(recoveries),
        "leadingAgainSeconds": _spread(recoveries),
        "groups": groups,
        "rerun": [],
        "brokenBefore": [],
    }


def merged(recorded: Mapping[str, Any], new: Mapping[str, Any], ran: Collection[str]) -> dict[str, Any]:
    """Recorded figures with those of a run of some groups in the place of theirs.

    Args:
        recorded: What was recorded before.
        new: The figures of the run.
        ran: Ids of the perturbations that it had.
    """
    groups = {**recorded["groups"], **new["groups"]}
    most_deaths = max(recorded, new, key=lambda figures: int(figures["operatorDeaths"]))
    return {
        **new,
        "seconds": recorded["seconds"] + new["seconds"],
        "perturbations": sum(group["perturbations"] for group in groups.values()),
        "struck": sum(group["struck"] for group in groups.values()),
        "broken": sorted({*new["broken"], *(each for each in recorded["broken"] if each not in ran)}),
        "operatorDeaths": recorded["operatorDeaths"] + new["operatorDeaths"],
        "leadingAgainSeconds": most_deaths["leadingAgainSeconds"],
        "groups": groups,
        "rerun": sorted({*recorded["rerun"], *(name for name in new["groups"] if name in recorded["groups"])}),
        "brokenBefore": sorted({*recorded["brokenBefore"], *(each for each in recorded["broken"] if each in ran)}),
    }


def write(path: Path, content: Mapping[str, Any]) -> None:
    """Writes figures so that two runs can be compared line by line."""
    path.write_text(json.dumps(content, indent=1, sort_keys=True) + "\n")


def _of_group(results: Sequence[PerturbationResult]) -> dict[str, Any]:
    struck = [result for result in results if result.struck]
    return {
        "perturbations": len(results),
        "struck": len(struck),
        "broken": sum(bool(result.problems) for result in results),
        "endAfterSeconds": _spread([result.after_strike for result in struck]),
        "faults": dict(sorted(Counter(str(v.perturbation.fault) for v in struck).items())),
        "calls": dict(sorted(Counter(str(v.perturbation.call) for v in struck).items())),
    }


def _spread(seconds: Sequence[float]) -> dict[str, float]:
    if not seconds:
        return {}
    return {"median": round(median(seconds), 1), "most": round(max(seconds), 1)}
