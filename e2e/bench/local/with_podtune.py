"""Trials by `podtune run`, each a process; prints the figures as JSON.

python -m e2e.bench.local.with_podtune TRIALS SECONDS SLOTS
"""

from __future__ import annotations

import json
import os
import sys
import tempfile
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from podtune.local.starting import start_run

PROGRAM = Path(__file__).with_name("program.py")


def make_experiment(trials: int, seconds: float, slots: int) -> Mapping[str, Any]:
    """The Experiment: random search, and the program."""
    command = [sys.executable, str(PROGRAM), "podtune", str(seconds)]
    return {
        "objective": {"metric": "value", "mode": "min"},
        "parameters": [{"name": "x", "float": {"min": 0, "max": 1}}],
        "search": {"algorithm": "random", "maxTrials": trials, "seed": 0},
        "maxConcurrentTrials": slots,
        "trialTemplate": {"spec": {"containers": [{"name": "trial", "image": "none", "command": command}]}},
    }


def main() -> None:
    trials, seconds, slots = int(sys.argv[1]), float(sys.argv[2]), int(sys.argv[3])
    with tempfile.TemporaryDirectory(prefix="podtune-run-") as directory:
        run, _ = start_run(
            "bench",
            {
                "apiVersion": "podtune.dev/v1alpha1",
                "kind": "Experiment",
                "spec": make_experiment(trials, seconds, slots),
            },
            environ=os.environ,
            directory=Path(directory) / "run",
        )
        began = time.perf_counter()
        for _ in run.follow():
            pass
        took = time.perf_counter() - began
        run.close()
        assert run.progress.experiment is not None
        done = run.progress.experiment.status.trials.terminated
    print(json.dumps({"trials": done, "seconds": took}))


if __name__ == "__main__":
    main()
