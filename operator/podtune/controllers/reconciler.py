"""Works off the queue: asks an experiment's machine what to do, and has it done."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine
from functools import partial

import structlog

from podtune.api.pods.pod_template import trial_container
from podtune.cluster.executor import Executor
from podtune.controllers import metrics
from podtune.controllers.fair_queue import FairQueue
from podtune.controllers.look_ups import LookUps
from podtune.controllers.queue import WorkQueue
from podtune.controllers.store.entry import ExperimentEntry
from podtune.controllers.store.pod_waiters import PodWaiters
from podtune.controllers.store.store import MANY, Store
from podtune.controllers.threads import in_thread
from podtune.protocol.assignment import pod_of
from podtune.protocol.messages import Reply, Report
from podtune.runner.actions import (
    Action,
    ActionResult,
    ActionStatus,
    ClusterAction,
    EmitEvent,
    FindCheckpoint,
    LoadWarmStart,
    Propose,
    WriteTrialStatus,
)
from podtune.runner.backoff import Backoff
from podtune.runner.experiment_machine import ActionPlan, ExperimentMachine, Unaccepted

log = structlog.get_logger(__name__)

MAX_ACTIONS = 40
"""Actions on the API server under way at a time, over all experiments."""
MAX_ACTIONS_OF_ONE = 32
"""Of one experiment; they take turns with those of the others."""
CLOCK_TOLERANCE = 5.0
"""Seconds that the clock may go back, as it does a little now and then, before anything is done about it."""
CRASH_BACKOFF = Backoff(1.0, 300.0)


class Reconciler:
    """Drives all machines; the one place where events, decisions and actions meet."""

    def __init__(
        self,
        store: Store,
        queue: WorkQueue,
        executor: Executor,
        now: Callable[[], float],
        may_decide: Callable[[], bool] = lambda: True,
    ) -> None:
        """Makes a reconciler.

        Args:
            store: What is known.
            queue: Keys of the experiments that something happened to.
            executor: Carries out actions.
            now: The present time, in seconds since the epoch.
            may_decide: Whether we still lead.
        """
        self._store = store
        self._queue = queue
        self._executor = executor
        self._now = now
        self._may_decide = may_decide
        self._actions: FairQueue[tuple[ExperimentEntry, ClusterAction]] = FairQueue(MAX_ACTIONS, MAX_ACTIONS_OF_ONE)
        self._look_ups = LookUps()
        self._tasks: set[asyncio.Task[None]] = set()
        self._crashes: dict[str, int] = {}
        self._latest = 0.0
        """The time at which something was decided last."""
        self._is_running = False
        self._pod_waiters = PodWaiters()

    @property
    def is_leading(self) -> bool:
        """Whether this process decides; see `ReportHandler.is_leading`."""
        return self._is_running and self._may_decide()

    async def run(self) -> None:
        """Works for ever."""
        self._is_running = True
        try:
            while True:
                uid = await self._queue.get()
                self._reconcile(uid)
                await asyncio.sleep(0)  # let results and watches in between two experiments
        finally:
            self._is_running = False
            await self._look_ups.close()
            tasks = list(self._tasks)
            for task in tasks:
                task.cancel()
            await asyncio.gather(*tasks, return_exceptions=True)

    def report(self, namespace: str, trial: str, pod: str, report: Report) -> Reply | Unaccepted:
        """Takes in what an agent has posted; see `ExperimentMachine.report`."""
        self._store.agent_heard(pod_of(report.attempt), report.unstored)
        entry = self._store.entry_of_trial(namespace, trial)
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

    def program_container(self, namespace: str, trial: str) -> str | None:
        """See `ReportHandler.program_container`."""
        entry = self._store.entry_of_trial(namespace, trial)
        spec = entry.served.spec if entry is not None else None
        if spec is None or spec.results.stdout is None:
            return None
        return trial_container(spec.trial_template.spec)

    def _reconcile(self, uid: str) -> None:
        try:
            with metrics.RECONCILE_SECONDS.time():
                self._decide(uid)
        except Exception:
            log.exception("reconcile failed", uid=uid)
            self._crashed(uid)
        else:
            self._crashes.pop(uid, None)

    def _crashed(self, uid: str) -> None:
        """Looks at an experiment again after a while."""
        count = self._crashes[uid] = self._crashes.get(uid, 0) + 1
        metrics.RECONCILE_ERRORS.inc()
        self._queue.add_at(uid, self._now() + CRASH_BACKOFF.delay(count, uid))

    def _decide(self, uid: str) -> None:
        now = self._now()
        self._heed_clock(now)
        entry = self._store.entry(uid)
        if entry is None:
            self._queue.forget(uid)
            self._look_ups.cancel(uid)
            return
        if entry.offloaded is not None:
            return  # it is asked once more afterwards
        if (prepare := self._long_preparation(entry)) is not None:
            self._offload(uid, entry, prepare)
        elif entry.machine is not None:
            try:
                plan = entry.machine.decide(now)
            finally:
                self._store.decided(entry)
            self._carry_out_all(uid, entry, plan)
        elif entry.experiment.problem:
            self._carry_out_all(uid, entry, entry.stalled.decide(entry.experiment, now))

    def _long_preparation(self, entry: ExperimentEntry) -> Callable[[], ExperimentMachine] | None:
        """What a decision begins with that would hold everything else up; None where there is no such thing."""
        machine = entry.machine
        if machine is None:
            return self._store.maker(entry)
        return (lambda: machine) if machine.is_outdated and len(entry.trials) > MANY else None

    def _offload(self, uid: str, entry: ExperimentEntry, prepare: Callable[[], ExperimentMachine]) -> None:
        """Has a decision made in a thread. Results are refused meanwhile: their agents send them once more."""
        machine, now = entry.machine, self._now()
        offloaded = entry.offload()

        def think() -> tuple[ExperimentMachine, ActionPlan]:
            thinking = prepare()
            return thinking, thinking.decide(now)

        async def decide() -> None:
            try:
                thinking, plan = await in_thread(think)
            except Exception:
                log.exception("reconcile failed", uid=uid)
                entry.take_back(offloaded, machine)
                self._store.decided(entry)
                self._crashed(uid)
                return
            counts = entry.take_back(offloaded, thinking)
            self._store.decided(entry)
            if counts:
                self._carry_out_all(uid, entry, plan)
            self._queue.add(uid)

        self._spawn(decide())

    def _carry_out_all(self, uid: str, entry: ExperimentEntry, plan: ActionPlan) -> None:
        for action in plan.actions:
            if isinstance(action, Propose):
                self._spawn(self._carry_out(uid, entry, action))
            elif isinstance(action, FindCheckpoint | LoadWarmStart):
                self._look_ups.add(uid, partial(self._carry_out, uid, entry, action))
            else:
                routine = isinstance(action, WriteTrialStatus) and action.routine
                self._actions.add(uid, (entry, action), routine=routine)
        self._start_actions()
        self._pod_waiters.wake(plan.assigned)
        self._queue.add_at(uid, plan.wake)

    def _heed_clock(self, now: float) -> None:
        """Makes all machines anew where the clock has gone back: what they wait for would be far away."""
        if now < self._latest - CLOCK_TOLERANCE:
            log.warning("machines made anew: the clock has gone back", seconds=round(self._latest - now, 1))
            for entry in self._store.entries():
                entry.drop_machine()
                self._queue.add(entry.experiment.uid)
        self._latest = now

    def _spawn(self, work: Coroutine[None, None, None]) -> None:
        task = asyncio.create_task(work)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    def _start_actions(self) -> None:
        """Begins with as many of the actions that wait as may be under way."""
        while (turn := self._actions.take()) is not None:
            uid, (entry, action) = turn
            self._spawn(self._take_turn(uid, entry, action))

    async def _take_turn(self, uid: str, entry: ExperimentEntry, action: Action) -> None:
        try:
            await self._carry_out(uid, entry, action)
        finally:
            self._actions.done(uid)
            if self._is_running:
                self._start_actions()

    async def _carry_out(self, uid: str, entry: ExperimentEntry, action: Action) -> None:
        """Has an action done and tells the machine; whatever happens, the machine hears of it."""
        _log_leftovers(entry, action)
        result = ActionResult(ActionStatus.FAILED, "an error of the operator's own; see its log")
        kind = type(action).__name__
        ended = _ended_attempt(entry, action)
        try:
            result = await self._do(entry, action)
        except Exception:
            log.exception("action failed", experiment=entry.experiment.name, action=kind)
        metrics.ACTIONS.labels(kind, result.status).inc()
        if ended is not None and result.status is ActionStatus.DONE:
            metrics.ATTEMPTS.labels(ended).inc()
        if result.status is not ActionStatus.DONE:
            log.warning(
                "action not done",
                namespace=entry.experiment.namespace,
                experiment=entry.experiment.name,
                action=kind,
                status=str(result.status),
                message=result.message,
            )
        self._deliver_result(uid, entry, action, result)

    def _deliver_result(self, uid: str, entry: ExperimentEntry, action: Action, result: ActionResult) -> None:
        now = self._now()
        if entry.machine is None and entry.offloaded is None:
            entry.stalled.on_action_result(entry.experiment, action, result, now)
        elif not entry.apply(lambda machine: machine.on_action_result(action, result, now)):
            self._crashed(uid)
            return
        self._queue.add(uid)

    async def _do(self, entry: ExperimentEntry, action: Action) -> ActionResult:
        if isinstance(action, Propose):
            assert entry.proposer is not None  # made together with the machine
            return await entry.proposer.propose(action)
        with metrics.ACTION_SECONDS.labels(type(action).__name__).time():
            return await self._executor.execute(entry.served, action)


def _log_leftovers(entry: ExperimentEntry, action: Action) -> None:
    """Counts and logs what is left in a bucket: the Event about it may find no namespace to be in."""
    if isinstance(action, EmitEvent) and action.left_at:
        metrics.CHECKPOINTS_LEFT.inc()
        log.warning(
            "checkpoints left",
            namespace=entry.experiment.namespace,
            experiment=entry.experiment.name,
            uid=entry.experiment.uid,
            prefix=action.left_at,
            message=action.message,
        )


def _ended_attempt(entry: ExperimentEntry, action: Action) -> str | None:
    """Class of the attempt whose end an action writes down; None where it writes down no end."""
    if not isinstance(action, WriteTrialStatus) or action.status.last_attempt is None:
        return None
    known = entry.trials.get(action.name)
    before = known.status.last_attempt if known is not None else None
    return action.status.last_attempt.failure_class if action.status.last_attempt != before else None
