"""Passes agents' reports to the machines of their trials."""

from __future__ import annotations

import re
from collections.abc import Callable

from podtune.api.pods.pod_template import find_trial_container
from podtune.controllers import metrics
from podtune.controllers.decision_loop import DecisionLoop
from podtune.controllers.pod_waiters import PodWaiters
from podtune.controllers.store.store import Store
from podtune.controllers.work_queue import WorkQueue
from podtune.protocol.assignment import parse_pod_uid
from podtune.protocol.messages import Reply, Report
from podtune.results.server import LogSource
from podtune.runner.experiment_machine import Unaccepted

_LEADING = re.compile(r"\d+(-0)?", re.ASCII)
"""What follows a trial's name in that of a pod whose results count: the attempt, and of a gang rank 0."""
_RANK = re.compile(r"\d+-(\d{1,3})", re.ASCII)
"""The same of a gang's pod, with its rank."""
_OF_TRIAL = re.compile(r"(\d+)(-\d+)?", re.ASCII)
"""The same of any of its pods that is not reused, with its attempt."""


class MachineReportHandler:
    """The results server's `ReportHandler`."""

    def __init__(
        self,
        store: Store,
        queue: WorkQueue,
        decisions: DecisionLoop,
        pod_waiters: PodWaiters,
        now: Callable[[], float],
    ) -> None:
        self._store = store
        self._queue = queue
        self._decisions = decisions
        self._pod_waiters = pod_waiters
        self._now = now

    @property
    def is_leading(self) -> bool:
        """See `ReportHandler.is_leading`."""
        return self._decisions.is_leading

    def report(self, namespace: str, trial: str, pod: str, report: Report) -> Reply | Unaccepted:
        """See `ReportHandler.report`."""
        self._store.observe_agent(parse_pod_uid(report.attempt), report.unstored)
        entry = self._store.find_entry_of_trial(namespace, trial)
        if entry is None or entry.machine is None:
            return Unaccepted.TOO_EARLY
        answer = entry.machine.report(trial, pod, report, self._now())
        if isinstance(answer, Reply):
            metrics.RESULTS_TAKEN.inc(len(report.results))
            self._queue.add(entry.experiment.uid)
        return answer

    async def wait_for_next(self, pod_uid: str, seconds: float) -> None:
        """See `ReportHandler.wait_for_next`."""
        await self._pod_waiters.wait(pod_uid, seconds)

    def find_log_source(self, namespace: str, trial: str, pod: str) -> LogSource | None:
        """See `ReportHandler.find_log_source`."""
        entry = self._store.find_entry_of_trial(namespace, trial)
        spec = entry.served.spec if entry is not None else None
        if entry is None or spec is None:
            return None
        ending = pod.removeprefix(f"{trial}-")
        has_results = spec.results.stdout is not None and _LEADING.fullmatch(ending) is not None
        of_trial = _OF_TRIAL.fullmatch(ending)
        is_ours = of_trial is not None or spec.trial_template.reuse
        if not has_results and not (spec.logs.is_kept and is_ours):
            return None
        of_rank = _RANK.fullmatch(ending)
        rank = int(of_rank[1]) if of_rank is not None else 0
        seen = entry.machine.find_pod(trial, rank) if entry.machine is not None else None
        if seen is not None and seen.name == pod:
            return LogSource(seen.program, is_urgent=has_results)
        # The pod was not seen yet, or its attempt is over.
        evaluation = entry.trials[trial].status.evaluation
        evaluates = evaluation is not None and of_trial is not None and int(of_trial[1]) >= evaluation.attempt
        role = spec.find_pod_role(rank, evaluates=evaluates and spec.evaluation is not None)
        return LogSource(find_trial_container(role.template.spec), is_urgent=has_results)
