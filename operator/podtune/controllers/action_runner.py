"""Carries out the machines' decisions, and tells them the results."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from concurrent.futures import Executor as Threads
from functools import partial

import structlog

from podtune.cluster.executor import Executor
from podtune.controllers import metrics
from podtune.controllers.fair_tasks import FairTasks
from podtune.controllers.proposer import Proposer
from podtune.controllers.store.entry import ExperimentEntry
from podtune.controllers.work_queue import WorkQueue
from podtune.runner.actions import (
    Action,
    ActionResult,
    ActionStatus,
    EmitEvent,
    FindCheckpoint,
    LoadWarmStart,
    Propose,
    WriteTrialStatus,
)

log = structlog.get_logger(__name__)

MAX_REQUESTS, MAX_REQUESTS_OF_ONE = 40, 32
"""Actions on the API server under way at a time, over all experiments and of one."""
MAX_LOOK_UPS, MAX_LOOK_UPS_OF_ONE = 8, 2
"""Look-ups of what other experiments have come to. What is looked up is named by a user, so how long it takes is not
ours to say: however many of them stand still, nothing else waits for them."""
MAX_SEARCHERS = 4
"""Searchers that begin to think together: each thread that computes keeps the event loop waiting for its part."""
SEARCHER_PATIENCE = 1.0
"""Seconds after which a searcher that still thinks keeps the next from beginning no longer."""


class ActionRunner:
    """Starts each action when it is its experiment's turn."""

    def __init__(
        self,
        queue: WorkQueue,
        executor: Executor,
        threads: Threads,
        proposal_deadline: float,
        now: Callable[[], float],
    ) -> None:
        """Makes a runner; a searcher that thinks for more than `proposal_deadline` seconds is called slow."""
        self._queue = queue
        self._executor = executor
        self._threads = threads
        self._proposal_deadline = proposal_deadline
        self._now = now
        self._requests = FairTasks(MAX_REQUESTS, MAX_REQUESTS_OF_ONE)
        self._look_ups = FairTasks(MAX_LOOK_UPS, MAX_LOOK_UPS_OF_ONE)
        self._searchers = FairTasks(MAX_SEARCHERS, MAX_SEARCHERS, SEARCHER_PATIENCE)
        self._proposers: dict[str, Proposer] = {}

    def start(self, entry: ExperimentEntry, actions: Iterable[Action]) -> None:
        """Has actions carried out."""
        uid = entry.experiment.uid
        for action in actions:
            work = partial(self._carry_out, entry, action)
            match action:
                case Propose():
                    self._searchers.add(uid, work)
                case FindCheckpoint() | LoadWarmStart():
                    self._look_ups.add(uid, work)
                case _:
                    self._requests.add(uid, work, routine=isinstance(action, WriteTrialStatus) and action.routine)

    def count_waiting(self) -> dict[str, int]:
        """How many actions wait for their turn, by pool."""
        pools = {"requests": self._requests, "look_ups": self._look_ups, "proposals": self._searchers}
        return {name: tasks.waiting for name, tasks in pools.items()}

    def cancel(self, uid: str) -> None:
        """An experiment is gone: what it looks up, and its searcher, are of no use; its requests are let go on."""
        self._look_ups.cancel(uid)
        self._proposers.pop(uid, None)

    async def close(self) -> None:
        """Ends all that is under way."""
        for tasks in (self._look_ups, self._searchers, self._requests):
            await tasks.close()

    async def _carry_out(self, entry: ExperimentEntry, action: Action) -> None:
        """Carries out an action and tells the machine the result, whatever happens."""
        _log_event(entry, action)
        kind, ended = type(action).__name__, _find_ended_attempt(entry, action)
        result = ActionResult(ActionStatus.FAILED, "internal error; see the operator's log")
        try:
            if isinstance(action, Propose):
                result = await self._get_proposer(entry).propose(action)
            else:
                with metrics.ACTION_SECONDS.labels(kind).time():
                    result = await self._executor.execute(entry.served, action)
        except Exception:
            experiment = entry.experiment
            log.exception("action failed", namespace=experiment.namespace, experiment=experiment.name, action=kind)
        if ended is not None and result.status is ActionStatus.DONE:
            metrics.ATTEMPTS.labels(ended).inc()
        self._tell(entry, action, result)

    def _get_proposer(self, entry: ExperimentEntry) -> Proposer:
        uid, spec = entry.experiment.uid, entry.served.spec
        assert spec is not None  # who asks has a machine
        if uid not in self._proposers or self._proposers[uid].spec.search.initial != spec.search.initial:
            self._proposers[uid] = Proposer(spec, self._proposal_deadline, self._threads)
        return self._proposers[uid]

    def _tell(self, entry: ExperimentEntry, action: Action, result: ActionResult) -> None:
        """Tells the machine how an action went."""
        experiment, kind, now = entry.experiment, type(action).__name__, self._now()
        metrics.ACTIONS.labels(kind, result.status).inc()
        if result.status is not ActionStatus.DONE:
            log.warning(
                "action not done",
                namespace=experiment.namespace,
                experiment=experiment.name,
                action=kind,
                outcome=str(result.status),
                message=result.message,
            )
        if entry.on_action_result(action, result, now):
            self._queue.add(experiment.uid)
        else:
            metrics.RECONCILE_ERRORS.inc()
            self._queue.add_rate_limited(experiment.uid)


def _log_event(entry: ExperimentEntry, action: Action) -> None:
    """Logs what an Event says that may find no namespace to be in, or has no room for a traceback."""
    if not isinstance(action, EmitEvent):
        return
    experiment = entry.experiment
    if action.left_at:
        metrics.CHECKPOINTS_LEFT.inc()
        log.warning(
            "checkpoints left",
            namespace=experiment.namespace,
            experiment=experiment.name,
            experiment_uid=experiment.uid,
            prefix=action.left_at,
            message=action.message,
        )
    if action.trace:
        log.warning(
            "plugin failed",
            namespace=experiment.namespace,
            experiment=experiment.name,
            message=action.message,
            exception=action.trace,
        )


def _find_ended_attempt(entry: ExperimentEntry, action: Action) -> str | None:
    """Class of the attempt whose end an action writes down; None where it writes down no end."""
    if not isinstance(action, WriteTrialStatus) or action.status.last_attempt is None:
        return None
    known = entry.trials.get(action.name)
    before = known.status.last_attempt if known is not None else None
    return action.status.last_attempt.failure_class if action.status.last_attempt != before else None
