"""Results of a Trainer of transformers, which posts its status as in a TrainJob of Kubeflow.

Its callback merges all that was logged into one set of metrics, and posts that set every five seconds at most, at the
end of a step. So a status repeats the last evaluation until there is a new one. A result is made of the first status
that shows something new of the objective's kind: of what was evaluated, or of what was logged in training. That
evaluations took different times tells two apart that have found the same. The last post names no step.
"""

from __future__ import annotations

import threading
from collections.abc import Mapping
from typing import Any

from podtune.agent.endpoint.requests import BadRequest, HttpAnswer, Request
from podtune.agent.endpoint.results_writer import ResultsWriter
from podtune.agent.results.stdout_results import parse_metric_value
from podtune.protocol.messages import MAX_METRICS, MetricValue

_STEP = "current_step"
_EPOCH = "current_epoch"
_TOTAL = "total_steps"
"""Metrics that the callback adds to what was logged."""
_LOGGED_EPOCH = "epoch"
_EVALUATION = "eval_"
_ROUNDED = 0.005
"""How much the callback may have rounded off an epoch."""
_ROUTE = "/apis/trainer.kubeflow.org/"
_MOST_METRICS = 10 * MAX_METRICS
"""Metrics of one status that are looked at."""


class TrainerStatus:
    """The route to which a Trainer posts; see `Source`."""

    def __init__(self, path: str, objective: str, writer: ResultsWriter) -> None:
        """Takes what is posted to `path`, and has results written whose objective is `objective`."""
        self._path = path
        self._writer = writer
        self._lock = threading.Lock()
        self._reader = StatusReader(objective)

    def is_asked(self, path: str) -> bool:
        """See `Source`."""
        return path.startswith(_ROUTE)

    def answer(self, request: Request) -> HttpAnswer:
        """See `Source`."""
        if request.path != self._path:
            return self.refuse(404, f"no such TrainJob; post to {self._path}")
        if request.method != "POST":
            return self.refuse(405, "the status is only posted")
        status = parse_status(request.parse_body())
        with self._lock:
            result = self._reader.take(*status)
            if result is not None:
                self._writer.append(result)
                self._reader.confirm()
        return HttpAnswer(200, {})

    def refuse(self, status: int, problem: str) -> HttpAnswer:
        """See `Source`."""
        body = {"kind": "Status", "apiVersion": "v1", "metadata": {}, "status": "Failure"}
        return HttpAnswer(status, {**body, "message": problem, "code": status})


class StatusReader:
    """Tells which of many statuses are results; not thread-safe."""

    def __init__(self, objective: str) -> None:
        self._objective = objective
        self._is_evaluated = objective.startswith(_EVALUATION)
        self._total = 0
        self._step = 0
        self._epoch = 0.0
        self._found: Mapping[str, str] | None = None
        self._reported: Mapping[str, str] | None = None

    def take(self, metrics: dict[str, MetricValue], is_last: bool) -> Mapping[str, MetricValue] | None:
        """Takes the next status.

        Args:
            metrics: Its metrics.
            is_last: Whether training is over.

        Returns:
            The result that it makes; None where it shows nothing new. Once written, it is to be confirmed.
        """
        self._total = _read_count(metrics.pop(_TOTAL, None)) or self._total
        if step := _read_count(metrics.get(_STEP)):
            self._step = step
            self._epoch = _read_number(metrics.get(_EPOCH))
        elif is_last and (last := self._estimate_last_step(_read_number(metrics.get(_LOGGED_EPOCH)))):
            metrics = {**metrics, _STEP: last}
        found = {name: repr(value) for name, value in metrics.items() if self._is_of_kind(name)}  # nan is not nan
        if self._objective in found:
            is_new = found != self._reported
        else:
            # Not the first results, or a scheduler would refuse them; but people are to see what there is instead.
            is_new = is_last and self._reported is None and bool(metrics.keys() - {_STEP})
        self._found = found
        return metrics if is_new else None

    def confirm(self) -> None:
        """The result that was returned last is written."""
        self._reported = self._found

    def _is_of_kind(self, name: str) -> bool:
        """Whether a metric comes from where the objective does."""
        return name not in (_STEP, _EPOCH) and name.startswith(_EVALUATION) == self._is_evaluated

    def _estimate_last_step(self, epoch: float) -> int:
        """The step at which training has ended: the last of all, unless the epoch tells that it has stopped early."""
        if epoch and self._epoch:
            expected = self._step * epoch / self._epoch
            if expected * (1 + _ROUNDED / self._epoch) + 1 < self._total:
                return max(self._step, round(expected))
        return self._total


def parse_status(body: Mapping[str, Any]) -> tuple[dict[str, MetricValue], bool]:
    """The metrics of a status, and whether training is over."""
    status = body.get("trainerStatus")
    if not isinstance(status, dict):
        raise BadRequest("trainerStatus is not an object; send what the API of TrainJobs describes")
    entries = status.get("metrics") or []
    if not isinstance(entries, list):
        raise BadRequest("trainerStatus.metrics is not a list; send objects with name and value")
    metrics: dict[str, MetricValue] = {}
    for entry in entries[:_MOST_METRICS]:
        name, value = (entry.get("name"), entry.get("value")) if isinstance(entry, dict) else (None, None)
        if not isinstance(name, str) or not isinstance(value, str):
            raise BadRequest("an entry of trainerStatus.metrics lacks name or value as texts; send both")
        metrics[name] = parse_metric_value(value)
    return metrics, status.get("progressPercentage") == 100


def _read_count(value: MetricValue | None) -> int:
    return value if isinstance(value, int) and not isinstance(value, bool) and value > 0 else 0


def _read_number(value: MetricValue | None) -> float:
    return float(value) if isinstance(value, int | float) and value > 0 else 0.0
