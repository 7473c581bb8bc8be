"""The runs that a program has begun at the agent's tracking server, and which of their metrics become results.

MLflow logs each metric with a step. Whatever a request brings of one step belongs together, and makes a result if the
objective is in it, along with the latest values of all other metrics: a scheduler may refuse results without it.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any, TypeVar

from podtune.agent.state.result_line import MAX_VALUES
from podtune.protocol.messages import MetricValue

_Value = TypeVar("_Value")
_STEP = "step"
PARENT_TAG = "mlflow.parentRunId"
NAME_TAG = "mlflow.runName"
_OF_THE_MACHINE = "system/"
"""Begins the names of metrics that MLflow takes of the machine by itself."""
_MAX_KEPT = 1000
"""Parameters, tags and metrics that are kept of a run, of each kind."""


@dataclass(frozen=True, slots=True)
class TrackedMetric:
    """One value of a metric, as MLflow logs it."""

    key: str
    value: float
    timestamp: int
    step: int

    def describe(self) -> dict[str, Any]:
        """The value as the REST API has it."""
        return {"key": self.key, "value": _format(self.value), "timestamp": self.timestamp, "step": self.step}


@dataclass(slots=True)
class TrackedRun:
    """One run; not thread-safe.

    Attributes:
        params: Its parameters.
        tags: Its tags.
        latest: The latest value of each of its metrics.
        has_result: Whether a result was made of it.
    """

    run_id: str
    experiment_id: str
    user_id: str
    start_time: int
    status: str = "RUNNING"
    end_time: int = 0
    params: dict[str, str] = field(default_factory=dict)
    tags: dict[str, str] = field(default_factory=dict)
    latest: dict[str, TrackedMetric] = field(default_factory=dict)
    has_result: bool = False

    @property
    def is_nested(self) -> bool:
        """Whether it is a part of another, such as one fold of a cross-validation."""
        return PARENT_TAG in self.tags

    def log(self, metrics: Iterable[TrackedMetric], objective: str) -> Iterator[Mapping[str, MetricValue]]:
        """Takes metrics that came with one request; yields the results that they make."""
        for step, group in itertools.groupby(metrics, key=lambda metric: metric.step):
            found = {metric.key: metric for metric in group}
            for key, metric in found.items():
                keep_value(self.latest, key, metric)
            if objective in found and not self.is_nested:
                yield self.build_result(step, objective)

    def build_result(self, step: int, objective: str) -> Mapping[str, MetricValue]:
        """The latest values as a result, the objective first, as many as one may have."""
        values: dict[str, MetricValue] = {_STEP: step}
        names = sorted(self.latest, key=lambda key: key != objective)
        values |= {key: self.latest[key].value for key in names if not key.startswith(_OF_THE_MACHINE)}
        return dict(itertools.islice(values.items(), MAX_VALUES))

    def build_rest(self) -> Mapping[str, MetricValue] | None:
        """What people are to see at the end of a run that never had the objective; None where there is nothing."""
        if self.has_result or self.is_nested or not self.latest:
            return None
        return self.build_result(max(metric.step for metric in self.latest.values()), "")

    def describe(self, artifact_uri: str) -> dict[str, Any]:
        """The run as the REST API has it."""
        return {
            "info": self.describe_info(artifact_uri),
            "data": {
                "metrics": [metric.describe() for metric in self.latest.values()],
                "params": [{"key": key, "value": value} for key, value in self.params.items()],
                "tags": [{"key": key, "value": value} for key, value in self.tags.items()],
            },
            "inputs": {},
            "outputs": {},
        }

    def describe_info(self, artifact_uri: str) -> dict[str, Any]:
        """What the REST API says of the run besides its data."""
        ended = {"end_time": self.end_time} if self.end_time else {}
        return {
            "run_id": self.run_id,
            "run_uuid": self.run_id,
            "run_name": self.tags.get(NAME_TAG, ""),
            "experiment_id": self.experiment_id,
            "user_id": self.user_id,
            "status": self.status,
            "start_time": self.start_time,
            "artifact_uri": artifact_uri,
            "lifecycle_stage": "active",
            **ended,
        }


def keep_value(kept: dict[str, _Value], key: str, value: _Value) -> None:
    """Keeps a value of a run, unless it has too many already."""
    if key in kept or len(kept) < _MAX_KEPT:
        kept[key] = value


def _format(value: float) -> float | str:
    """A number as the JSON of MLflow's messages has it."""
    return value if value - value == 0 else {"nan": "NaN", "inf": "Infinity", "-inf": "-Infinity"}[str(value)]
