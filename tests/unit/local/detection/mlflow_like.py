"""A script that logs as MLflow's client does, by the variables that it goes by; it needs no package."""

import json
import os
import sys
import time
import urllib.request
from typing import Any


def post(route: str, **content: Any) -> Any:
    request = urllib.request.Request(
        f"{os.environ['MLFLOW_TRACKING_URI']}/api/2.0/mlflow/{route}",
        data=json.dumps(content).encode(),
        headers={"Authorization": f"Bearer {os.environ['MLFLOW_TRACKING_TOKEN']}"},
        method="POST",
    )
    with urllib.request.urlopen(request, timeout=60) as answer:
        return json.load(answer)


def log(run_id: str, key: str, value: float, step: int) -> None:
    post("runs/log-metric", run_id=run_id, key=key, value=value, timestamp=1, step=step)


run = post("runs/create", experiment_id="0", start_time=1)["run"]["info"]["run_id"]
for epoch in (1, 2, 3):
    log(run, "loss", 1 / epoch, epoch)
    log(run, "val_accuracy", epoch / 4, epoch)
    log(run, "system/cpu", 3, epoch)
    nested = post("runs/create", experiment_id="0", start_time=1, tags=[{"key": "mlflow.parentRunId", "value": run}])[
        "run"
    ]["info"]["run_id"]
    log(nested, "test_accuracy", 0.99, epoch)
    print(f"epoch {epoch} of 3", flush=True)
time.sleep(float(sys.argv[1]) if len(sys.argv) > 1 else 0)
