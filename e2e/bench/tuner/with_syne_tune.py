"""No-op trials of Syne Tune's simulator, with random search, where it is installed; prints the figures as JSON."""

from __future__ import annotations

import contextlib
import io
import json
import logging
import os
import sys
import tempfile
import time
from collections.abc import Mapping
from typing import Any

import numpy as np
from syne_tune import StoppingCriterion, Tuner
from syne_tune.backend.simulator_backend.simulator_callback import SimulatorCallback
from syne_tune.blackbox_repository.blackbox import Blackbox
from syne_tune.blackbox_repository.simulated_tabular_backend import UserBlackboxBackend
from syne_tune.config_space import randint, uniform
from syne_tune.optimizer.baselines import RandomSearch

SPACE = {"x": uniform(0, 1)}
METRICS = ["value", "elapsed_time"]


class NoOp(Blackbox):  # type: ignore[misc]
    """A trial of one iteration, a minute long."""

    def __init__(self) -> None:
        super().__init__(SPACE, fidelity_space={"epoch": randint(1, 1)}, objectives_names=METRICS)

    def _objective_function(self, configuration: Mapping[str, Any], fidelity: Any = None, seed: Any = None) -> Any:
        value = (configuration["x"] - 0.3) ** 2
        return np.array([[value, 60.0]]) if fidelity is None else {"value": value, "elapsed_time": 60.0}

    @property
    def fidelity_values(self) -> Any:
        return np.array([1])


def main() -> None:
    with tempfile.TemporaryDirectory(prefix="syne-tune-") as directory:
        os.environ["SYNETUNE_FOLDER"] = directory  # else it writes into the home directory
        seconds, processor_seconds = run(int(sys.argv[1]), int(sys.argv[2]))
    print(json.dumps({"trials": int(sys.argv[1]), "seconds": seconds, "processor_seconds": processor_seconds}))


def run(trials: int, at_once: int) -> tuple[float, float]:
    """Runs so many trials, so many of them at once; how long it took, in seconds, and how long a processor was busy."""
    logging.getLogger().setLevel(logging.ERROR)
    options = {"allow_duplicates": True, "debug_log": False}
    tuner = Tuner(
        trial_backend=UserBlackboxBackend(blackbox=NoOp(), elapsed_time_attr="elapsed_time"),
        scheduler=RandomSearch(SPACE, metric="value", mode="min", random_seed=0, search_options=options),
        stop_criterion=StoppingCriterion(max_num_trials_finished=trials),
        n_workers=at_once,
        sleep_time=0,
        callbacks=[SimulatorCallback()],
        print_update_interval=1e9,
        save_tuner=False,
        results_update_interval=1e9,
    )
    began, busy = time.perf_counter(), time.process_time()
    with contextlib.redirect_stdout(io.StringIO()):
        tuner.run()
    return time.perf_counter() - began, time.process_time() - busy


if __name__ == "__main__":
    main()
