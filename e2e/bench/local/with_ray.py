"""Trials of Ray Tune on this machine, where Ray is installed; prints the figures as JSON.

python -m e2e.bench.local.with_ray TRIALS SECONDS SLOTS: each trial in a process of its own, as Podtune runs them.
"""

from __future__ import annotations

import json
import logging
import os
import sys
import tempfile
import time


def main() -> None:
    os.environ["RAY_AIR_NEW_OUTPUT"] = "0"
    import ray
    from ray import tune

    trials, duration, slots = int(sys.argv[1]), float(sys.argv[2]), int(sys.argv[3])

    def trial(configuration: dict[str, float]) -> None:
        time.sleep(duration)
        tune.report({"value": (configuration["x"] - 0.3) ** 2})

    ray.init(num_cpus=slots, logging_level=logging.ERROR, log_to_driver=False, include_dashboard=False)
    with tempfile.TemporaryDirectory(prefix="ray-tune-") as directory:
        tuner = tune.Tuner(
            trial,
            param_space={"x": tune.uniform(0, 1)},
            tune_config=tune.TuneConfig(
                metric="value", mode="min", num_samples=trials, max_concurrent_trials=slots, reuse_actors=False
            ),
            run_config=tune.RunConfig(verbose=0, storage_path=directory),
        )
        began = time.perf_counter()
        results = tuner.fit()
        took = time.perf_counter() - began
    if results.errors:
        raise results.errors[0]
    print(json.dumps({"trials": sum("value" in (result.metrics or {}) for result in results), "seconds": took}))


if __name__ == "__main__":
    main()
