"""Records what Optuna's Gaussian process sampler finds, in optuna_gp.json: it needs PyTorch, and minutes.

python -m e2e.bench.tuner.optuna_gp

Where PyTorch is missing, the command runs itself where it is installed.
"""

from __future__ import annotations

import importlib.util
import json
import os
import sys

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
    recorded = {
        "optuna": optuna.__version__,
        "budgets": {problem: budget("gp", problem) for problem in NAMES},
        "values": in_processes(optunas, "gp", NAMES, SEEDS),
    }
    RECORDED.write_text(json.dumps(recorded, indent=1) + "\n", encoding="utf-8")
    print(json.dumps({"written": RECORDED.name}))
    return 0


if __name__ == "__main__":
    sys.exit(main())
