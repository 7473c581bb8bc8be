"""Sends what mlflow.start_run(), log_param() and log_metric(…, step=…) send, where there is no MLflow."""

import json
import os
import sys
import time
import urllib.request
from typing import Any


def call(method: str, **content: Any) -> Any:
    token = os.environ["MLFLOW_TRACKING_TOKEN"]
    request = urllib.request.Request(
        f"{os.environ['MLFLOW_TRACKING_URI']}/api/2.0/mlflow/{method}",
        data=json.dumps(content).encode(),
        headers={"Authorization": f"Bearer {token}", "Content-Type": "application/json"},
        method="POST",
    )
    with urllib.request.urlopen(request, timeout=60) as answer:
        return json.loads(answer.read() or b"{}")


alpha = float(sys.argv[1])
run = call("runs/create", experiment_id="0", start_time=int(time.time() * 1000), run_name="ridge")["run"]["info"]
call("runs/log-parameter", run_id=run["run_id"], key="alpha", value=str(alpha))
for step in range(1, 5):
    now = int(time.time() * 1000)
    call("runs/log-metric", run_id=run["run_id"], key="rmse", value=alpha + 1 / step, timestamp=now, step=step)
call("runs/update", run_id=run["run_id"], status="FINISHED", end_time=int(time.time() * 1000))
