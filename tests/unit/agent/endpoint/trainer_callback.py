"""The posts of a Trainer: as transformers' callback for Kubeflow makes them, by the same rules and requests."""

from __future__ import annotations

import json
import urllib.request
from collections.abc import Mapping
from datetime import UTC, datetime
from pathlib import Path
from typing import Any


class TrainerCallback:
    """Merges what is logged, and posts it at the end of a step; when a post is due is up to the test."""

    def __init__(self, environ: Mapping[str, str], max_steps: int) -> None:
        self._url = environ["KUBEFLOW_TRAINER_SERVER_URL"]
        self._token = Path(environ["KUBEFLOW_TRAINER_SERVER_TOKEN"])
        self._max_steps = max_steps
        self._metrics: dict[str, float] = {}

    def begin(self) -> int:
        return self.post(0, None, {"total_steps": self._max_steps})

    def log(self, **metrics: float) -> None:
        self._metrics |= metrics

    def step(self, step: int, epoch: float) -> int:
        position = {"current_step": step, "total_steps": self._max_steps, "current_epoch": round(epoch, 2)}
        progress = min(int(step / self._max_steps * 100), 99)
        return self.post(progress, 7, {**self._metrics, **position})

    def end(self) -> int:
        return self.post(100, 0, self._metrics)

    def post(self, progress: int, remaining: int | None, metrics: Mapping[str, float]) -> int:
        status: dict[str, Any] = {"lastUpdatedTime": datetime.now(UTC).isoformat(), "progressPercentage": progress}
        if remaining is not None:
            status["estimatedRemainingSeconds"] = remaining
        if metrics:
            status["metrics"] = [{"name": name, "value": str(value)} for name, value in metrics.items()]
        headers = {
            "Authorization": f"Bearer {self._token.read_text(encoding='utf-8').strip()}",
            "Content-Type": "application/json",
        }
        body = json.dumps({"trainerStatus": status}).encode()
        request = urllib.request.Request(self._url, data=body, headers=headers, method="POST")
        with urllib.request.urlopen(request, timeout=60) as response:
            assert isinstance(response.status, int)
            return response.status
