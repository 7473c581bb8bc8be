"""No-op trials of Ray Tune, with random search, where Ray is installed; prints the figures as JSON.

python -m e2e.bench.tuner.with_ray TRIALS SECONDS [SLOTS]: as many of the trials as it manages in the time. With SLOTS
so many run at once, each in an actor that goes from trial to trial.
"""

from __future__ import annotations

import json
import logging
import os
import sys
import time
from typing import Any


def main() -> None:
    os.environ["RAY_AIR_NEW_OUTPUT"] = "0"
    os.environ["RAY_DEDUP_LOGS"] = "0"
    import ray
    from ray import tune

    def trial(configuration: dict[str, float]) -> None:
        tune.report({"value": (configuration["x"] - 0.3) ** 2})

    trials, limit = int(sys.argv[1]), float(sys.argv[2])
    slots = int(sys.argv[3]) if len(sys.argv) > 3 else None
    ray.init(num_cpus=slots, logging_level=logging.ERROR, log_to_driver=False, include_dashboard=False)
    config: dict[str, Any] = {"metric": "value", "mode": "min", "num_samples": trials, "time_budget_s": limit}
    if slots is not None:
        config |= {"reuse_actors": True, "max_concurrent_trials": slots}
    tuner = tune.Tuner(
        trial,
        param_space={"x": tune.uniform(0, 1)},
        tune_config=tune.TuneConfig(**config),
        run_config=tune.RunConfig(verbose=0),
    )
    began = time.perf_counter()
    results = tuner.fit()
    seconds = time.perf_counter() - began
    if results.errors:
        raise results.errors[0]
    done = sum("value" in (result.metrics or {}) for result in results)
    print(json.dumps({"trials": done, "seconds": seconds}))


if __name__ == "__main__":
    main()
