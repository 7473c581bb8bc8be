"""Works off the queue: asks an experiment's machine what to do, and has it done."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Callable

import structlog

from podtune.api.experiment import TrialCounts
from podtune.api.pod_template import trial_container
from podtune.cluster.executor import Executor
from podtune.controllers import metrics
from podtune.controllers.queue import WorkQueue
from podtune.controllers.store import Entry, Store
from podtune.protocol.messages import Reply, Report
from podtune.runner import experiment_status
from podtune.runner.actions import Action, EmitEvent, Outcome, Propose, Verdict, WriteExperimentStatus
from podtune.runner.experiment_machine import Unaccepted
from podtune.runner.retry import Backoff
from podtune.runner.timestamps import rfc3339

log = structlog.get_logger(__name__)

MAX_ACTIONS = 32
"""API requests under way at a time, over all experiments."""
CRASH_BACKOFF = Backoff(1.0, 300.0)


class Reconciler:
    """Drives all machines; the one place where facts, decisions and actions meet."""

    def __init__(self, store: Store, queue: WorkQueue, executor: Executor, now: Callable[[], float]) -> None:
        self._store = store
        self._queue = queue
        self._executor = executor
        self._now = now
        self._slots = asyncio.Semaphore(MAX_ACTIONS)
        self._tasks: set[asyncio.Task[None]] = set()
        self._crashes: dict[str, int] = {}
        self.is_leading = False

    async def run(self) -> None:
        """Works for ever."""
        self.is_leading = True
        try:
            while True:
                uid = await self._queue.get()
                self._reconcile(uid)
                await asyncio.sleep(0)  # let results and watches in between two experiments
        finally:
            self.is_leading = False
            for task in self._tasks:
                task.cancel()
            with contextlib.suppress(asyncio.CancelledError):
                await asyncio.gather(*self._tasks, return_exceptions=True)

    def report(self, namespace: str, trial: str, pod: str, report: Report) -> Reply | Unaccepted:
        """Takes in what an agent has posted; see `ExperimentMachine.report`."""
        entry = self._store.entry_of_trial(namespace, trial)
        if entry is None or entry.machine is None:
            return Unaccepted.TOO_EARLY
        answer = entry.machine.report(trial, pod, report, self._now())
        metrics.RESULTS.inc(len(report.results))
        self._queue.add(entry.experiment.uid)
        return answer

    def program_container(self, namespace: str, trial: str) -> str | None:
        """See `Intake.program_container`."""
        entry = self._store.entry_of_trial(namespace, trial)
        spec = entry.experiment.spec if entry is not None else None
        if spec is None or spec.results.stdout is None:
            return None
        return trial_container(spec.trial_template.spec)

    def _reconcile(self, uid: str) -> None:
        try:
            with metrics.RECONCILE_SECONDS.time():
                self._decide(uid)
        except Exception:
            count = self._crashes[uid] = self._crashes.get(uid, 0) + 1
            delay = CRASH_BACKOFF.delay(count, uid)
            log.exception("reconcile failed", uid=uid, retry_in=round(delay, 1))
            metrics.RECONCILE_ERRORS.inc()
            self._queue.add_at(uid, self._now() + delay)
        else:
            self._crashes.pop(uid, None)

    def _decide(self, uid: str) -> None:
        entry = self._store.entry(uid)
        if entry is None:
            self._queue.forget(uid)
            return
        if entry.machine is None:
            self._say_stalled(uid, entry)
            return
        plan = entry.machine.decide(self._now())
        for action in plan.actions:
            self._spawn(uid, entry, action)
        self._queue.add_at(uid, plan.wake)

    def _spawn(self, uid: str, entry: Entry, action: Action) -> None:
        task = asyncio.create_task(self._carry_out(uid, entry, action))
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    async def _carry_out(self, uid: str, entry: Entry, action: Action) -> None:
        """Has an action done and tells the machine; whatever happens, the machine hears of it."""
        outcome = Outcome(Verdict.FAILED, "an error of the operator's own; see its log")
        try:
            outcome = await self._do(entry, action)
        except Exception:
            log.exception("action failed", experiment=entry.experiment.name, action=type(action).__name__)
        kind = type(action).__name__
        metrics.ACTIONS.labels(kind, outcome.verdict).inc()
        if outcome.verdict is not Verdict.DONE:
            log.warning(
                "action not done",
                experiment=entry.experiment.name,
                namespace=entry.experiment.namespace,
                action=kind,
                key="/".join(action.key),
                verdict=str(outcome.verdict),
                message=outcome.message,
            )
        if entry.machine is not None:
            entry.machine.landed(action, outcome, self._now())
        self._queue.add(uid)

    async def _do(self, entry: Entry, action: Action) -> Outcome:
        if isinstance(action, Propose):
            assert entry.proposer is not None  # made together with the machine
            return await entry.proposer.propose(action)
        async with self._slots:
            with metrics.ACTION_SECONDS.labels(type(action).__name__).time():
                return await self._executor.execute(entry.experiment, action)

    def _say_stalled(self, uid: str, entry: Entry) -> None:
        """An Experiment that has never had a usable spec: say so, once."""
        experiment = entry.experiment
        if not experiment.problem or experiment.deleting:
            return
        status = experiment_status.project(
            experiment.status,
            trials=TrialCounts(),
            best=None,
            ended=None,
            over=False,
            problem=experiment.problem,
            hindrance="",
            generation=experiment.generation,
            now=rfc3339(self._now()),
        )
        if status != experiment.status:
            self._spawn(uid, entry, WriteExperimentStatus(experiment.version, status))
            self._spawn(uid, entry, EmitEvent("", "InvalidSpec", experiment.problem, warning=True))
