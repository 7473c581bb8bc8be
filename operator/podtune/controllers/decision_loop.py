"""Asks the machine of each changed experiment what to do, and has it done."""

from __future__ import annotations

import asyncio
from collections.abc import Callable

import structlog

from podtune.controllers import metrics
from podtune.controllers.action_runner import ActionRunner
from podtune.controllers.pod_waiters import PodWaiters
from podtune.controllers.store.entry import ExperimentEntry
from podtune.controllers.store.store import Store
from podtune.controllers.work_queue import WorkQueue
from podtune.runner.experiment_machine import ActionPlan

log = structlog.get_logger(__name__)

CLOCK_TOLERANCE = 5.0
"""Seconds that the clock may go back, as it does a little now and then, before anything is done about it."""


class DecisionLoop:
    """Works off the queue, one experiment after the other."""

    def __init__(
        self,
        store: Store,
        queue: WorkQueue,
        actions: ActionRunner,
        *,
        pod_waiters: PodWaiters,
        now: Callable[[], float],
        may_decide: Callable[[], bool] = lambda: True,
    ) -> None:
        """Makes a loop.

        Args:
            store: Knows the machines.
            queue: Keys of the experiments that something happened to.
            actions: Has actions carried out.
            pod_waiters: Warm pods that wait for their next trial.
            now: The present time, in seconds since the epoch.
            may_decide: Whether we still lead.
        """
        self._store = store
        self._queue = queue
        self._actions = actions
        self._pod_waiters = pod_waiters
        self._now = now
        self._may_decide = may_decide
        self._latest = 0.0
        """The time at which something was decided last."""
        self._is_running = False

    @property
    def is_leading(self) -> bool:
        """Whether this process decides."""
        return self._is_running and self._may_decide()

    async def run(self) -> None:
        """Works for ever."""
        self._is_running = True
        try:
            while True:
                self._reconcile(await self._queue.get())
                await asyncio.sleep(0)  # let results and watches in between two experiments
        finally:
            self._is_running = False
            await self._actions.close()

    def _reconcile(self, uid: str) -> None:
        try:
            with metrics.RECONCILE_SECONDS.time():
                self._decide(uid)
        except Exception:
            experiment = entry.experiment if (entry := self._store.find_entry(uid)) is not None else None
            log.exception(
                "reconcile failed",
                namespace=experiment.namespace if experiment else "",
                experiment=experiment.name if experiment else "",
                experiment_uid=uid,
            )
            metrics.RECONCILE_ERRORS.inc()
            self._queue.add_rate_limited(uid)

    def _decide(self, uid: str) -> None:
        now = self._now()
        self._heed_clock(now)
        entry = self._store.find_entry(uid)
        if entry is None:
            self._queue.remove(uid)
            self._actions.cancel(uid)
        else:
            self._continue(entry, now)

    def _continue(self, entry: ExperimentEntry, now: float) -> None:
        """Goes on with an Experiment: has its machine made a bit further, or asks it if it is done and not outdated."""
        if entry.bar is not None:
            if entry.bar:
                self._carry_out(entry, entry.stalled.decide(entry.experiment, now, entry.bar))
            return
        if entry.machine is not None and entry.machine.is_outdated:
            entry.begin_build(entry.machine, entry.machine.rebuild(now))
        if entry.build is not None:
            entry.continue_build()
            self._queue.add(entry.experiment.uid)  # others come first
        elif entry.machine is not None:
            try:
                plan = entry.machine.decide(now)
            finally:
                self._store.record_decision(entry)
            self._carry_out(entry, plan)
        elif entry.experiment.problem:
            self._carry_out(entry, entry.stalled.decide(entry.experiment, now))

    def _carry_out(self, entry: ExperimentEntry, plan: ActionPlan) -> None:
        self._queue.forget(entry.experiment.uid)
        self._actions.start(entry, plan.actions)
        self._pod_waiters.wake(plan.assigned)
        self._queue.add_at(entry.experiment.uid, plan.wake)

    def _heed_clock(self, now: float) -> None:
        """Rebuilds all machines if the clock was set back: their timers would be far in the future."""
        if now < self._latest - CLOCK_TOLERANCE:
            log.warning("machines rebuilt: the clock was set back", seconds=round(self._latest - now, 1))
            for entry in self._store.list_entries():
                entry.drop_machine()
                self._queue.add(entry.experiment.uid)
        self._latest = now
