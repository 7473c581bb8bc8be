"""Tells which scrapes of a program's metrics are results.

A scrape shows how things are, and most scrapes show what was there before. So a scrape makes a result if the objective
or the time attribute has another value than in the result before. Client libraries set a metric to 0 until the program
sets it: as long as the objective has never been anything else, it counts as not set.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from podtune.agent.results.program_metrics import choose_metrics, make_metric_name, make_whole
from podtune.agent.scraping.exposition import Sample
from podtune.protocol.messages import MetricValue

_OF_THE_PROCESS = ("python_", "process_")
"""Begin the names of metrics that client libraries add by themselves."""
_CREATED = "_created"
"""Ends the name of the time at which a counter was made."""
_BUCKET, _BOUND = "_bucket", "le"
"""Of the parts of a histogram, its sum and count are metrics of use."""


def name_sample(sample: Sample) -> str:
    """The metric's name in results: `loss`, or with labels `loss/split/val`."""
    return make_metric_name((sample.name, *(part for pair in sample.labels for part in pair)))


class ScrapedResults:
    """Takes one scrape after the other; not thread-safe."""

    def __init__(self, objective: str, time_attribute: str = "", last: Mapping[str, object] | None = None) -> None:
        """Takes none yet.

        Args:
            objective: Name of the objective's metric.
            time_attribute: Name of the metric that tells how far training is; empty where there is none.
            last: The last result of an earlier process of this agent; None where there is none.
        """
        self._objective = objective
        self._time_attribute = time_attribute
        self._first = tuple(filter(None, (objective, time_attribute)))
        self._reported = None if last is None else self._identify(last)
        self._is_set = last is not None
        self._latest: Mapping[str, float] = {}

    def read(self, samples: Iterable[Sample]) -> dict[str, float]:
        """The metrics of a scrape by their names in results, without what is of no use there."""
        metrics: dict[str, float] = {}
        for sample in samples:
            name = name_sample(sample)
            if name in self._first or not _is_of_no_use(sample):
                metrics[name] = sample.value
        return metrics

    def is_new(self, metrics: Mapping[str, float]) -> bool:
        """Whether a scrape would make a result."""
        if any(name not in metrics for name in self._first):
            return False
        if not self._is_set and metrics[self._objective] == 0:
            return False
        return self._identify(metrics) != self._reported

    def take(self, metrics: Mapping[str, float]) -> Mapping[str, MetricValue] | None:
        """Takes a scrape; returns the result that it makes, which is to be confirmed once it is written."""
        self._latest = metrics
        return self._build(metrics) if self.is_new(metrics) else None

    def confirm(self) -> None:
        """The result that was returned last is written."""
        self._reported = self._identify(self._latest)
        self._is_set = True

    def build_rest(self) -> Mapping[str, MetricValue] | None:
        """What is left at the end of a program that had no result: people are to see what there was instead."""
        if self._is_set:
            return None
        unset = self._latest.get(self._objective) == 0
        return self._build({n: value for n, value in self._latest.items() if n != self._objective or not unset}) or None

    def _build(self, metrics: Mapping[str, float]) -> dict[str, MetricValue]:
        result = choose_metrics(metrics, self._first)
        if self._time_attribute in metrics:
            result[self._time_attribute] = make_whole(metrics[self._time_attribute])
        return result

    def _identify(self, metrics: Mapping[str, object]) -> tuple[str, ...]:
        """What tells one result from another; as text, for NaN is not NaN."""
        return tuple(_write(metrics.get(name)) for name in self._first)


def _write(value: object) -> str:
    return repr(float(value)) if isinstance(value, int | float) else ""


def _is_of_no_use(sample: Sample) -> bool:
    """Whether a sample says nothing of training."""
    if sample.name.startswith(_OF_THE_PROCESS) or sample.name.endswith(_CREATED):
        return True
    return sample.name.endswith(_BUCKET) and any(name == _BOUND for name, _ in sample.labels)
