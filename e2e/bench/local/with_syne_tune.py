"""Trials of Syne Tune's LocalBackend, where it is installed; prints the figures as JSON.

python -m e2e.bench.local.with_syne_tune TRIALS SECONDS SLOTS: each trial in a process of its own.
"""

from __future__ import annotations

import contextlib
import io
import json
import logging
import os
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

LIMIT = 600.0
"""Seconds after which it gives up."""


def main() -> None:
    trials, duration, slots = int(sys.argv[1]), float(sys.argv[2]), int(sys.argv[3])
    with tempfile.TemporaryDirectory(prefix="syne-tune-") as directory:
        os.environ["SYNETUNE_FOLDER"] = directory  # else it writes into the home directory
        os.chdir(directory)  # trials leave files there
        took, done = run(trials, duration, slots)
    print(json.dumps({"trials": done, "seconds": took}))


def run(trials: int, duration: float, slots: int) -> tuple[float, int]:
    """Runs so many trials, so many of them at once; how long it took, in seconds, and how many have ended."""
    from syne_tune import StoppingCriterion, Tuner
    from syne_tune.backend import LocalBackend
    from syne_tune.config_space import uniform
    from syne_tune.optimizer.baselines import RandomSearch

    logging.getLogger().setLevel(logging.ERROR)

    class LimitedSearch(RandomSearch):  # type: ignore[misc]  # it has no types
        """Ends exactly after so many trials, where `max_num_trials_started` lets one or two more begin."""

        def suggest(self, trial_id: int) -> Any:
            return super().suggest(trial_id) if trial_id < trials else None

    space = {"x": uniform(0, 1), "seconds": duration}
    tuner = Tuner(
        trial_backend=LocalBackend(entry_point=str(Path(__file__).with_name("program.py")), rotate_gpus=False),
        scheduler=LimitedSearch(space, metric="value", mode="min", random_seed=0),
        stop_criterion=StoppingCriterion(max_wallclock_time=LIMIT),
        wait_trial_completion_when_stopping=True,
        n_workers=slots,
        sleep_time=0.1,
        print_update_interval=1e9,
        save_tuner=False,
        results_update_interval=1e9,
    )
    began = time.perf_counter()
    with contextlib.redirect_stdout(io.StringIO()):
        tuner.run()
    took = time.perf_counter() - began
    return took, tuner.tuning_status.num_trials_finished


if __name__ == "__main__":
    main()
