"""Results that Ray Tune's loop takes in, under ASHA, where Ray is installed; prints the figures as JSON.

python -m e2e.bench.tuner.ray_results ACTORS RESULTS SECONDS: so many trials at once, each reports so many results as
fast as they are taken, or as many as it manages in the time.
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
    from ray.tune.schedulers import ASHAScheduler

    actors, results, limit = int(sys.argv[1]), int(sys.argv[2]), float(sys.argv[3])

    def trial(configuration: dict[str, float]) -> None:
        for step in range(1, results + 1):
            tune.report({"value": configuration["x"] * step})

    class Meter(tune.Callback):  # type: ignore[misc, unused-ignore]
        """Notes when results come, from the first one of the last trial that has begun."""

        def __init__(self) -> None:
            self.begun: set[str] = set()
            self.times: list[float] = []
            self.busy: list[float] = []

        def on_trial_result(self, iteration: int, trials: list[Any], trial: Any, result: dict[str, Any]) -> None:
            self.begun.add(trial.trial_id)
            if len(self.begun) == actors:
                self.times.append(time.perf_counter())
                self.busy.append(time.process_time())

    meter = Meter()
    ray.init(num_cpus=actors, logging_level=logging.ERROR, log_to_driver=False, include_dashboard=False)
    scheduler = ASHAScheduler(
        time_attr="training_iteration", max_t=results, grace_period=results // 2, reduction_factor=2
    )
    config: dict[str, Any] = {"metric": "value", "mode": "max", "num_samples": actors, "time_budget_s": limit}
    tuner = tune.Tuner(
        trial,
        param_space={"x": tune.uniform(0, 1)},
        tune_config=tune.TuneConfig(scheduler=scheduler, **config),
        run_config=tune.RunConfig(verbose=0, callbacks=[meter]),
    )
    errors = tuner.fit().errors
    if errors:
        raise errors[0]
    taken = len(meter.times) - 1
    seconds, busy = meter.times[-1] - meter.times[0], meter.busy[-1] - meter.busy[0]
    print(json.dumps({"actors": actors, "results": taken, "seconds": seconds, "processor_seconds": busy}))


if __name__ == "__main__":
    main()
