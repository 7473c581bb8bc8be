"""Sends what mlflow.sklearn.autolog() sends for a fit(), where there is no MLflow."""

import json
import os
import sys
import time
import urllib.request
from typing import Any

from sklearn.datasets import load_iris
from sklearn.linear_model import LogisticRegression
from sklearn.metrics import accuracy_score, log_loss


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


x, y = load_iris(return_X_y=True)
model = LogisticRegression(C=float(sys.argv[1]), max_iter=500).fit(x, y)

tags = [{"key": "mlflow.autologging", "value": "sklearn"}]
run = call("runs/create", experiment_id="0", start_time=int(time.time() * 1000), tags=tags)["run"]["info"]
params = [{"key": key, "value": str(value)} for key, value in model.get_params().items()]
call("runs/log-batch", run_id=run["run_id"], params=params, metrics=[], tags=[])
scores = {
    "training_accuracy_score": accuracy_score(y, model.predict(x)),
    "training_log_loss": log_loss(y, model.predict_proba(x)),
}
now = int(time.time() * 1000)
metrics = [{"key": key, "value": value, "timestamp": now, "step": 0} for key, value in scores.items()]
call("runs/log-batch", run_id=run["run_id"], metrics=metrics, params=[], tags=[])
call("runs/update", run_id=run["run_id"], status="FINISHED", end_time=int(time.time() * 1000))
