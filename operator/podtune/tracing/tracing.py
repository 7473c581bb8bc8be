"""Traces of an installation: it is told of all objects that the operator sees, and exports what has ended."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterator

import structlog

from podtune.cluster.client import ClusterClient
from podtune.cluster.record_store import RecordStore
from podtune.runner.records import Experiment, Trial
from podtune.tracing.collector import Collector
from podtune.tracing.exporter import SpanExporter
from podtune.tracing.sender import SpanSender
from podtune.tracing.spans import TraceSpan, build_attempt_spans, build_experiment_span, build_trial_span

log = structlog.get_logger(__name__)

_Seen = tuple[int, str]
"""The last attempt of a trial that has ended, and when the trial itself has; empty where it has not."""


class Tracing:
    """Hears of each Experiment and Trial, and has their spans exported when they end.

    It is told of every write, so it first looks whether something has ended at all.
    """

    def __init__(
        self, collector: Collector, client: ClusterClient, *, namespace: str, name: str, now: Callable[[], float]
    ) -> None:
        """Makes the exporter.

        Args:
            collector: Where spans go.
            client: Keeps how far they were handed over.
            namespace: The operator's own namespace.
            name: Name of the ConfigMap there.
            now: The present time, in seconds since the epoch.
        """
        self._now = now
        self._exporter = SpanExporter(SpanSender(collector), RecordStore(client, namespace, name), now)
        self._trials: dict[str, _Seen] = {}
        self._experiments: dict[str, str] = {}
        """When those have ended that have; by UID."""

    async def load(self) -> None:
        """Reads how far spans were handed over; before anything is observed.

        Raises:
            ApiError: The API server could not be asked.
        """
        await self._exporter.load()

    async def run(self) -> None:
        """Exports until it is cancelled."""
        await self._exporter.run()

    async def close(self, within: float) -> None:
        """Hands over what waits, if that takes no longer than so many seconds."""
        try:
            async with asyncio.timeout(within):
                await self._exporter.close()
        except TimeoutError:
            log.warning("traces not exported in time: the next operator makes up for it", seconds=within)

    def observe_experiment(self, experiment: Experiment) -> None:
        """An Experiment was seen."""
        ended = experiment.status.completion_time or ""
        if self._experiments.get(experiment.uid) == ended:
            return
        self._experiments[experiment.uid] = ended
        if ended >= self._exporter.since and not _is_moved(experiment):
            self._add(build_experiment_span(experiment))

    def observe_trial(self, experiment: Experiment, trial: Trial) -> None:
        """A Trial was seen."""
        status = trial.status
        attempt = status.last_attempt.attempt if status.last_attempt is not None else 0
        seen, before = (attempt, status.completion_time or ""), self._trials.get(trial.uid, (0, ""))
        if seen == before and trial.uid in self._trials:
            return
        self._trials[trial.uid] = seen
        if not _is_moved(experiment):
            self._exporter.add(self._list_new(experiment, trial, before))

    def forget_experiment(self, experiment: Experiment) -> None:
        """An Experiment was deleted: its span ends now, unless it had ended."""
        if self._experiments.pop(experiment.uid, None) == "":
            self._add(build_experiment_span(experiment, self._now()))

    def forget_trial(self, experiment: Experiment, trial: Trial) -> None:
        """A Trial was deleted: its span ends now, unless it had ended."""
        _, ended = self._trials.pop(trial.uid, (0, None))
        if ended == "":
            self._add(build_trial_span(experiment, trial, self._now()))

    def _add(self, span: TraceSpan | None) -> None:
        if span is not None:
            self._exporter.add([span])

    def _list_new(self, experiment: Experiment, trial: Trial, before: _Seen) -> Iterator[TraceSpan]:
        """What has ended since a trial was seen last, and was not handed over by an operator before."""
        status, since = trial.status, self._exporter.since
        last = status.last_attempt
        if last is not None and last.attempt != before[0] and (last.end_time or "") >= since:
            yield from build_attempt_spans(experiment, trial)
        if status.completion_time and status.completion_time != before[1] and status.completion_time >= since:
            span = build_trial_span(experiment, trial)
            if span is not None:
                yield span


def _is_moved(experiment: Experiment) -> bool:
    """Whether it is being moved here from elsewhere, and what it brings along was traced there."""
    return experiment.importing or experiment.imported > 0
