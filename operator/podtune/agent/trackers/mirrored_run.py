"""A trial's run on a tracking server of MLflow: found by the Trial's UID, or made, and brought up to date.

All attempts of a trial go on with one run. What is logged twice is there once, so each call may be repeated.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

from podtune.agent.settings import Settings
from podtune.agent.trackers.mlflow_client import FoundRun, LoggedMetric, MlflowClient
from podtune.agent.trackers.tracker_settings import TrackerSettings
from podtune.agent.trial_parameters import read_trial_parameters
from podtune.protocol.messages import Result
from podtune.protocol.tracking import (
    TAG_ATTEMPT,
    TAG_BEST,
    TAG_DASHBOARD,
    TAG_EXPERIMENT,
    TAG_EXPERIMENT_UID,
    TAG_NAMESPACE,
    TAG_PARAMETERS,
    TAG_RESULT,
    TAG_TRIAL,
    TAG_TRIAL_UID,
    RunStatus,
)
from podtune.trial import layout

_TRUE = "true"
_MOST_BEST = 10
"""How many runs are looked at that are marked as best, and are not any more."""


class MirroredRun:
    """The run; not thread-safe.

    Attributes:
        known: How many results of this attempt the run has had when it was found.
        is_best: Whether the run is marked as that of the best trial, as far as is known here.
    """

    def __init__(self, client: MlflowClient, settings: Settings, tracker: TrackerSettings) -> None:
        self._client = client
        self._settings = settings
        self._tracker = tracker
        self._run: FoundRun | None = None
        self.known = 0
        self.is_best = False

    @property
    def is_open(self) -> bool:
        """Whether the run is known."""
        return self._run is not None

    def open(self, now: float) -> None:
        """Finds the run, or makes it, and has it run with the trial's parameters.

        Raises:
            TrackerError: The server does not answer, or refuses.
        """
        experiment_id = self._client.find_or_create_experiment(self._tracker.experiment)
        runs = self._client.search_runs(experiment_id, {TAG_TRIAL_UID: self._settings.trial_uid})
        parameters = read_trial_parameters(self._settings)
        if runs:
            run = runs[0]
            if run.status != RunStatus.RUNNING:
                self._client.update_run(run.run_id, RunStatus.RUNNING)
        else:
            name = self._settings.display_name or self._settings.trial
            run = self._client.create_run(experiment_id, name, int(now * 1000), self._build_tags())
        self._tell_parameters(run, parameters)
        self.is_best = TAG_BEST in run.tags
        if run.tags.get(TAG_ATTEMPT) == str(self._settings.number):
            count = run.tags.get(TAG_RESULT, "")
            self.known = int(count) if count.isdecimal() else 0
        self._run = run

    def log(self, results: Sequence[Result]) -> None:
        """Logs results of this attempt, in their order.

        Raises:
            TrackerError: The server does not answer, or refuses.
        """
        metrics = [metric for result in results for metric in _list_metrics(result)]
        tags = {TAG_ATTEMPT: str(self._settings.number), TAG_RESULT: str(results[-1].seq)}
        self._client.log_batch(self._require().run_id, metrics=metrics, tags=tags)

    def mark_best(self, is_best: bool) -> None:
        """Marks the run as that of the best trial, and no other run of the experiment; or takes the mark off.

        Raises:
            TrackerError: The server does not answer, or refuses.
        """
        run = self._require()
        if not is_best:
            self._client.delete_tag(run.run_id, TAG_BEST)
            self.is_best = False
            return
        self._client.set_tag(run.run_id, TAG_BEST, _TRUE)
        self.is_best = True
        marked = {TAG_BEST: _TRUE, TAG_EXPERIMENT_UID: self._settings.experiment_uid}
        for other in self._client.search_runs(run.experiment_id, marked, most=_MOST_BEST):
            if other.run_id != run.run_id:
                self._client.delete_tag(other.run_id, TAG_BEST)

    def tell_left_out(self, count: int) -> None:
        """Says in the run how many results are missing in it.

        Raises:
            TrackerError: The server does not answer, or refuses.
        """
        self._client.set_tag(self._require().run_id, "podtune.dev/results-left-out", str(count))

    def close(self, status: RunStatus, now: float) -> None:
        """Says how the attempt has ended.

        Raises:
            TrackerError: The server does not answer, or refuses.
        """
        self._client.update_run(self._require().run_id, status, int(now * 1000) if status.is_over else None)

    def _require(self) -> FoundRun:
        assert self._run is not None  # it was opened
        return self._run

    def _build_tags(self) -> dict[str, str]:
        settings = self._settings
        tags = {
            TAG_TRIAL_UID: settings.trial_uid,
            TAG_TRIAL: settings.trial,
            TAG_EXPERIMENT: settings.experiment,
            TAG_EXPERIMENT_UID: settings.experiment_uid,
            TAG_NAMESPACE: settings.namespace,
        }
        if self._tracker.dashboard:
            place = f"experiments/{settings.namespace}/{settings.experiment}/trials/{settings.trial}"
            url = f"{self._tracker.dashboard.rstrip('/')}/{place}"
            tags |= {TAG_DASHBOARD: url, "mlflow.note.content": f"[{settings.trial}]({url}) in Podtune's dashboard"}
        return tags

    def _tell_parameters(self, run: FoundRun, parameters: Mapping[str, Any]) -> None:
        """Parameters of a run can't be changed: those of a trial that goes on with others are in a tag."""
        written = {name: _write(value) for name, value in parameters.items()}
        missing = {name: value for name, value in written.items() if name not in run.params}
        if missing and not run.params:
            self._client.log_batch(run.run_id, params=missing)
        elif any(run.params.get(name) != value[: len(run.params.get(name, value))] for name, value in written.items()):
            self._client.set_tag(run.run_id, TAG_PARAMETERS, json.dumps(parameters, ensure_ascii=False))
        elif TAG_PARAMETERS in run.tags:
            self._client.delete_tag(run.run_id, TAG_PARAMETERS)


def _list_metrics(result: Result) -> Iterator[LoggedMetric]:
    """What is a number in a result, but for the iteration, which is the step."""
    time_ms = int(result.time * 1000)
    for name, value in result.metrics.items():
        if isinstance(value, int | float) and not isinstance(value, bool) and name != layout.ITERATION:
            yield LoggedMetric(name, float(value), time_ms, result.step)


def count_values(results: Iterable[Result]) -> int:
    """How many values there are in results."""
    return sum(len(result.metrics) for result in results)


def _write(value: Any) -> str:
    return value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)
