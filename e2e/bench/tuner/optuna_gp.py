"""Optuna's Gaussian process sampler, where PyTorch is installed; prints the best values by problem as JSON."""

from __future__ import annotations

import argparse
import json
import os

from e2e.bench.tuner.quality import in_processes
from e2e.bench.tuner.searching import optunas


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seeds", type=int, required=True)
    parser.add_argument("--budget", type=int, required=True)
    parser.add_argument("problems", nargs="+")
    options = parser.parse_args()
    os.environ["OMP_NUM_THREADS"] = "1"  # there is a process for each processor already
    print(json.dumps(in_processes(optunas, "gp", options.problems, options.seeds, options.budget)))


if __name__ == "__main__":
    main()
