"""Metrics of the leader alone: what there is, and what waits, counted when Prometheus asks."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping

from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, Metric
from prometheus_client.registry import Collector

from podtune.api.conditions import find_bad_conditions, find_condition
from podtune.api.names import ConditionType, ExperimentState, TrialState
from podtune.api.resources.experiment import ExperimentStatus
from podtune.api.resources.storage_jobs import StorageJobState
from podtune.controllers.store.entry import ExperimentEntry
from podtune.controllers.store.store import Store

TRIAL_STATES = ("pending", "running", "paused", "terminated", "error")


class StoreCollector(Collector):
    """Counts experiments and trials by what was seen of them last."""

    def __init__(self, store: Store) -> None:
        self._store = store

    def collect(self) -> Iterator[Metric]:
        """Reads the statuses; what is worth a series only if it is there has none where it is not."""
        experiments = GaugeMetricFamily(
            "podtune_experiments", "Experiments by namespace and state.", labels=["namespace", "state"]
        )
        trials = _make_gauge("podtune_trials", "Trials by experiment and state.", "state")
        avoided = _make_gauge(
            "podtune_avoided_nodes", "Nodes that an experiment avoids since they failed too many of its trials."
        )
        passed_over = CounterMetricFamily(
            "podtune_results_passed_over",
            "Results that lacked a metric where objective.missing is lenient, by experiment.",
            labels=["namespace", "experiment"],
        )
        problems = _make_gauge(
            "podtune_experiment_problems",
            "1 for each condition by which an experiment says that something is wrong.",
            "condition",
            "reason",
        )
        unstored = _make_gauge(
            "podtune_trials_not_storing", "Running trials whose checkpoints can't be stored at present, if any."
        )
        jobs = _make_gauge(
            "podtune_storage_jobs",
            "Jobs in an experiment's bucket that are not done, by purpose and state; Waiting: to be tried again.",
            "purpose",
            "state",
        )
        counts: dict[tuple[str, str], int] = {}
        for entry in self._store.list_entries():
            experiment, status = entry.experiment, entry.experiment.status
            named = [experiment.namespace, experiment.name]
            key = (experiment.namespace, str(status.state or ExperimentState.CREATED))
            counts[key] = counts.get(key, 0) + 1
            for state in TRIAL_STATES:
                trials.add_metric([*named, state], getattr(status.trials, state))
            avoided.add_metric(named, len(status.avoided_nodes))
            passed_over.add_metric(named, status.missing_metrics)
            for condition, reason in _list_problems(status):
                problems.add_metric([*named, condition, reason], 1)
            for job in status.storage.jobs if status.storage is not None else ():
                if job.state is not StorageJobState.DONE:
                    jobs.add_metric([*named, job.purpose, job.state], 1)
            if number := sum(1 for _ in _list_not_storing(entry)):
                unstored.add_metric(named, number)
        for (namespace, state), count in counts.items():
            experiments.add_metric([namespace, state], count)
        yield from (experiments, trials, avoided, passed_over, problems, unstored, jobs)


class BacklogCollector(Collector):
    """Measures what the leader has not come to yet."""

    def __init__(
        self, count_due: Callable[[], int], count_actions: Callable[[], Mapping[str, int]], lag: Callable[[], float]
    ) -> None:
        """Makes it.

        Args:
            count_due: How many experiments wait for a decision.
            count_actions: How many actions wait for their turn, by pool.
            lag: For how many seconds a watch has owed a write.
        """
        self._count_due = count_due
        self._count_actions = count_actions
        self._lag = lag

    def collect(self) -> Iterator[Metric]:
        """Asks them."""
        yield GaugeMetricFamily(
            "podtune_experiments_due", "Experiments that wait for a decision.", value=self._count_due()
        )
        waiting = GaugeMetricFamily(
            "podtune_actions_waiting",
            "Actions that wait for their turn, by pool: requests to the API server, most of them writes of statuses; "
            "look-ups of other experiments; proposals of search algorithms.",
            labels=["pool"],
        )
        for pool, count in self._count_actions().items():
            waiting.add_metric([pool], count)
        yield waiting
        yield GaugeMetricFamily(
            "podtune_watch_lag_seconds",
            "For how long the watch that is furthest behind has not brought a write of the operator's.",
            value=self._lag(),
        )


def _make_gauge(name: str, meaning: str, *labels: str) -> GaugeMetricFamily:
    return GaugeMetricFamily(name, meaning, labels=["namespace", "experiment", *labels])


def _list_problems(status: ExperimentStatus) -> Iterator[tuple[str, str]]:
    """Type and reason of each condition that is as it should not be; that an experiment has failed, its state says."""
    for condition in find_bad_conditions(status.conditions):
        if condition.type != ConditionType.READY:  # which sums up others
            yield condition.type, condition.reason
    stalled = find_condition(status.conditions, ConditionType.STALLED)
    has_ended = status.state is not None and status.state.is_finished
    if stalled is not None and stalled.status == "True" and not has_ended:
        yield stalled.type, stalled.reason


def _list_not_storing(entry: ExperimentEntry) -> Iterator[str]:
    """Names of running trials that say that the store can't be used."""
    for name, trial in entry.trials.items():
        if trial.status.state is TrialState.RUNNING:
            stored = find_condition(trial.status.conditions, ConditionType.CHECKPOINTS_STORED)
            if stored is not None and stored.status == "False":
                yield name
