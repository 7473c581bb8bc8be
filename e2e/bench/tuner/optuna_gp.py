"""Records what Optuna's Gaussian process sampler finds, in optuna_gp.json: it needs PyTorch, and half an hour or less.

python -m e2e.bench.tuner.optuna_gp

Where PyTorch is missing, the command runs itself where it is installed. It records one problem after the other, so it
may be interrupted: the next run goes on with the first that is missing, if Optuna and the budgets are still the same.
"""

from __future__ import annotations

import importlib.util
import json
import os
import sys
from collections.abc import Mapping
from typing import Any

import optuna

from e2e.bench.tuner.environments import Environment
from e2e.bench.tuner.problems import NAMES
from e2e.bench.tuner.quality import RECORDED, budget, in_processes
from e2e.bench.tuner.searching import optunas

SEEDS = 30


def main() -> int:
    if importlib.util.find_spec("torch") is None:
        Environment("bench-optuna-gp.txt").run("e2e.bench.tuner.optuna_gp")
        return 0
    os.environ["OMP_NUM_THREADS"] = "1"  # there is a process for each processor already
    record()
    print(json.dumps({"written": RECORDED.name}))
    return 0


def record(seeds: int = SEEDS) -> None:
    """Records all problems that are not recorded yet."""
    header = {"optuna": optuna.__version__, "budgets": {problem: budget("gp", problem) for problem in NAMES}}
    values = _values_so_far(header, seeds)
    for problem in NAMES:
        if problem not in values:
            values |= in_processes(optunas, "gp", [problem], seeds)
            RECORDED.write_text(json.dumps({**header, "values": values}, indent=1) + "\n", encoding="utf-8")


def _values_so_far(header: Mapping[str, Any], seeds: int) -> dict[str, list[float]]:
    """What is recorded already; nothing where that was found in another way, or with fewer seeds."""
    recorded = json.loads(RECORDED.read_text(encoding="utf-8")) if RECORDED.exists() else {}
    values: dict[str, list[float]] = recorded.pop("values", {})
    return {problem: found for problem, found in values.items() if len(found) >= seeds} if recorded == header else {}


if __name__ == "__main__":
    sys.exit(main())
