"""Reports as a Trainer of transformers does, or as MLflow's client: it knows their variables and no Podtune."""

from __future__ import annotations

import json
import os
import time
import urllib.request
from pathlib import Path
from typing import Any

BASE = float(os.environ["BASE"])


def post(url: str, token: str, body: dict[str, Any]) -> dict[str, Any]:
    """Sends JSON, as both do."""
    headers = {"Authorization": f"Bearer {token}", "Content-Type": "application/json"}
    request = urllib.request.Request(url, data=json.dumps(body).encode(), headers=headers, method="POST")
    with urllib.request.urlopen(request, timeout=60) as answer:
        return json.loads(answer.read() or b"{}")  # type: ignore[no-any-return]


def report_status(step: int, **metrics: float) -> None:
    """What the callback for Kubeflow posts at the end of a step."""
    found = {**metrics, "current_step": step, "total_steps": 3, "current_epoch": step / 3}
    status = {
        "progressPercentage": 33 * step,
        "metrics": [{"name": name, "value": str(value)} for name, value in found.items()],
    }
    token = Path(os.environ["KUBEFLOW_TRAINER_SERVER_TOKEN"]).read_text().strip()
    post(os.environ["KUBEFLOW_TRAINER_SERVER_URL"], token, {"trainerStatus": status})


def begin_run() -> str:
    """Begins a run of the default experiment; returns its ID."""
    run = call_mlflow("runs/create", experiment_id="0", start_time=int(1000 * time.time()))
    return str(run["run"]["info"]["run_id"])


def call_mlflow(route: str, **body: Any) -> dict[str, Any]:
    """Calls one of the routes of MLflow's tracking server."""
    address = f"{os.environ['MLFLOW_TRACKING_URI']}/api/2.0/mlflow/{route}"
    return post(address, os.environ["MLFLOW_TRACKING_TOKEN"], body)


def main() -> None:
    """Reports three steps to whoever is named."""
    run = begin_run() if "MLFLOW_TRACKING_URI" in os.environ else None
    for step in (1, 2, 3):
        value = BASE - 1 / (step + 1)
        if run is None:
            report_status(step, value=value, eval_runtime=0.1 * step)
        else:
            now = int(1000 * time.time())
            call_mlflow("runs/log-metric", run_id=run, key="value", value=value, timestamp=now, step=step)


main()
