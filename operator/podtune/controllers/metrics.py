"""The operator's own metrics, for Prometheus."""

from __future__ import annotations

from collections.abc import Iterator

from prometheus_client import Counter, Gauge, Histogram
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, Metric
from prometheus_client.registry import Collector

from podtune.controllers.store.store import Store

RESULTS_TAKEN = Counter("podtune_results", "Results taken in from agents, those sent twice included.")
ACTIONS = Counter("podtune_actions", "Actions carried out, by kind and outcome.", ["action", "outcome"])
ACTION_SECONDS = Histogram("podtune_action_seconds", "Time from an action's start to its outcome.", ["action"])
RECONCILE_SECONDS = Histogram(
    "podtune_reconcile_seconds",
    "Time to decide what to do for one experiment.",
    buckets=(0.0005, 0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 1.0),
)
RECONCILE_ERRORS = Counter("podtune_reconcile_errors", "Decisions that failed by an error of the operator's own.")
ATTEMPTS = Counter("podtune_attempts", "Attempts of trials that have ended, by what that counts as.", ["class"])
CHECKPOINTS_LEFT = Counter(
    "podtune_checkpoints_left",
    "Experiments that were deleted with deletionPolicy: Delete and may have left something in their bucket.",
)
LEADING = Gauge("podtune_leading", "1 while this process leads.")


class TrialsCollector(Collector):
    """Counts experiments and trials by state when it is asked."""

    def __init__(self, store: Store) -> None:
        self._store = store

    def collect(self) -> Iterator[Metric]:
        """Reads the statuses that were seen last."""
        trials = GaugeMetricFamily(
            "podtune_trials", "Trials by experiment and state.", labels=["namespace", "experiment", "state"]
        )
        passed_over = CounterMetricFamily(
            "podtune_results_passed_over",
            "Results that lacked a metric where objective.missing is lenient, by experiment.",
            labels=["namespace", "experiment"],
        )
        avoided = GaugeMetricFamily(
            "podtune_avoided_nodes",
            "Nodes that an experiment avoids since they failed too many of its trials.",
            labels=["namespace", "experiment"],
        )
        for entry in self._store.list_entries():
            experiment = entry.experiment
            counts = experiment.status.trials
            for state in ("pending", "running", "paused", "terminated", "error"):
                trials.add_metric([experiment.namespace, experiment.name, state], getattr(counts, state))
            passed_over.add_metric([experiment.namespace, experiment.name], experiment.status.missing_metrics)
            avoided.add_metric([experiment.namespace, experiment.name], len(experiment.status.avoided_nodes))
        yield trials
        yield avoided
        yield passed_over
