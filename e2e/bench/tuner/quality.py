"""Does a searcher find as much as Optuna alone finds with as many trials?"""

from __future__ import annotations

import json
import os
import statistics
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass
from functools import partial
from pathlib import Path

from scipy.stats import wilcoxon

from e2e.bench.tuner.problems import CURVES
from e2e.bench.tuner.searching import optunas, ours

BUDGETS = {"tpe": 60, "cmaes": 100, "gp": 20}
"""Trials of a search, by algorithm: enough for the model to matter, few enough for the time that there is."""
TABLE_BUDGET = 20
"""Trials on the table of curves, at most: it has 120 of them, and with more trials everyone finds the best."""
RECORDED = Path(__file__).with_name("optuna_gp.json")
LEVEL = 0.05
"""Risk of finding a loss anywhere where there is none."""


@dataclass(frozen=True)
class Pairing:
    """An algorithm on a problem: what Podtune and Optuna found with the same seeds and budgets.

    Attributes:
        ours: The best value of each seed; less is better.
        optunas: The same of Optuna's.
        p: How likely such a loss, or a larger one, would be if there were none (Wilcoxon, one-sided).
    """

    algorithm: str
    problem: str
    budget: int
    ours: Sequence[float]
    optunas: Sequence[float]
    p: float

    @property
    def wins(self) -> tuple[int, int]:
        """How many seeds Podtune was better with, and how many Optuna was."""
        pairs = list(zip(self.ours, self.optunas, strict=True))
        return sum(a < b for a, b in pairs), sum(a > b for a, b in pairs)

    @property
    def medians(self) -> tuple[float, float]:
        """The median of Podtune's best values, and of Optuna's."""
        return statistics.median(self.ours), statistics.median(self.optunas)


def compare(algorithms: Sequence[str], problems: Sequence[str], seeds: int) -> list[Pairing]:
    """Searches every problem with every algorithm, with seeds from 0 on."""
    pairings = []
    for algorithm in algorithms:
        theirs = _recorded if algorithm == "gp" else _in_processes(optunas)
        mine = _in_processes(ours)(algorithm, problems, seeds)
        found = theirs(algorithm, problems, seeds)
        for problem in problems:
            p = loss_probability(mine[problem], found[problem])
            pairings.append(Pairing(algorithm, problem, budget(algorithm, problem), mine[problem], found[problem], p))
    return pairings


def budget(algorithm: str, problem: str) -> int:
    """How many trials a search has."""
    return min(BUDGETS[algorithm], TABLE_BUDGET) if problem == CURVES else BUDGETS[algorithm]


def losses(pairings: Sequence[Pairing]) -> list[Pairing]:
    """The pairings that show a loss, by Holm's method: all of them together at the risk `LEVEL`."""
    found = []
    for place, pairing in enumerate(sorted(pairings, key=lambda each: each.p)):
        if pairing.p > LEVEL / (len(pairings) - place):
            break
        found.append(pairing)
    return found


def loss_probability(ours: Sequence[float], theirs: Sequence[float]) -> float:
    """How likely the first would be as much larger than the second by chance alone."""
    differences = [a - b for a, b in zip(ours, theirs, strict=True)]
    if not any(differences):
        return 1.0
    return float(wilcoxon(differences, alternative="greater", zero_method="zsplit").pvalue)


Search = Callable[[str, str, int, int], float]
Found = Mapping[str, list[float]]


def _in_processes(search: Search) -> Callable[[str, Sequence[str], int], Found]:
    return partial(in_processes, search)


def in_processes(search: Search, algorithm: str, problems: Sequence[str], seeds: int) -> Found:
    """The best values by problem, a process for each processor."""
    budgets = [budget(algorithm, problem) for problem in problems]
    with ProcessPoolExecutor(os.cpu_count()) as pool:
        asked = {
            problem: [pool.submit(search, problem, algorithm, seed, trials) for seed in range(seeds)]
            for problem, trials in zip(problems, budgets, strict=True)
        }
        return {problem: [future.result() for future in futures] for problem, futures in asked.items()}


def _recorded(algorithm: str, problems: Sequence[str], seeds: int) -> Found:
    """What Optuna's Gaussian processes found: they need PyTorch, which is no dependency of ours, and minutes."""
    if not RECORDED.exists():
        raise ValueError(f"{RECORDED.name} is missing; record it: python -m e2e.bench.tuner.optuna_gp")
    recorded = json.loads(RECORDED.read_text(encoding="utf-8"))
    if recorded["budgets"] != {problem: budget(algorithm, problem) for problem in recorded["budgets"]}:
        raise ValueError(f"{RECORDED.name} is of other budgets; record it anew: python -m e2e.bench.tuner.optuna_gp")
    found: dict[str, list[float]] = recorded["values"]
    if missing := [problem for problem in problems if problem not in found]:
        raise ValueError(f"{RECORDED.name} lacks {', '.join(missing)}; go on: python -m e2e.bench.tuner.optuna_gp")
    if seeds > min(map(len, found.values())):
        raise ValueError(f"{RECORDED.name} has fewer than {seeds} seeds; ask for fewer")
    return {problem: found[problem][:seeds] for problem in problems}
