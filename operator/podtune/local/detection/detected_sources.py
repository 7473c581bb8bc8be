"""What was found in a program: the ways of reading its results, and what to write in a manifest for each."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from podtune.local.detection.metric_names import (
    SuggestedObjective,
    rank_objective,
    suggest_objective,
    suggest_time_attribute,
)
from podtune.protocol.messages import MetricValue
from podtune.trial import layout

RESULTS_FILE = ""
"""Stands for the results file, for which nothing needs to be set."""


@dataclass(frozen=True, slots=True)
class SeenMetric:
    """The values of a metric.

    Attributes:
        name: Its name.
        count: How many results have it.
        first: Its value in the first of them.
        last: Its value in the last.
    """

    name: str
    count: int
    first: MetricValue
    last: MetricValue


@dataclass(frozen=True, slots=True)
class DetectedSource:
    """A way of reading results that works.

    Attributes:
        field: Its field below `results`; `RESULTS_FILE` for the file.
        settings: What to set there.
        results: What is read.
        objective: What to optimise.
        time_attribute: What schedulers may go by.
    """

    field: str
    settings: Mapping[str, Any]
    results: Sequence[Mapping[str, MetricValue]]
    objective: SuggestedObjective
    time_attribute: str

    @property
    def path(self) -> str:
        """The field as one speaks of it; the file's name where it is that."""
        return layout.RESULTS if self.field == RESULTS_FILE else f"results.{self.field}"

    @property
    def rank(self) -> tuple[int, bool, bool]:
        """How good it looks: by its objective, by its time, and before all others if nothing has to be guessed."""
        return rank_objective(self.objective.metric), self.time_attribute != layout.ITERATION, self.field != "stdout"

    @property
    def spec(self) -> dict[str, Any]:
        """The fields of an Experiment."""
        objective = {"metric": self.objective.metric, "mode": self.objective.mode}
        results = {} if self.field == RESULTS_FILE else {"results": {self.field: dict(self.settings)}}
        return {"objective": objective, **results}

    def list_metrics(self) -> Iterator[SeenMetric]:
        """Its metrics, the objective first."""
        names = dict.fromkeys(name for result in self.results for name in result)
        for name in sorted(names, key=lambda name: name != self.objective.metric):
            values = [result[name] for result in self.results if name in result]
            yield SeenMetric(name, len(values), values[0], values[-1])


def make_detected_source(
    field: str, settings: Mapping[str, Any], results: Sequence[Mapping[str, MetricValue]], wanted: str
) -> DetectedSource | None:
    """A way of reading these results; None where they have nothing to optimise.

    Args:
        field: See `DetectedSource`.
        settings: See `DetectedSource`.
        results: See `DetectedSource`.
        wanted: The objective that is asked for; empty where any will do.
    """
    objective = suggest_objective(results, wanted)
    if objective is None:
        return None
    whole = [result for result in results if objective.metric in result]
    return DetectedSource(field, settings, results, objective, suggest_time_attribute(whole))
