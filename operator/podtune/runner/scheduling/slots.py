"""Which trials hold one of the maxConcurrentTrials slots, and which wait for one."""

from __future__ import annotations

from collections import Counter

from typing_extensions import override

from podtune.api.base import parse_duration
from podtune.api.names import TrialState
from podtune.runner.action_queue import EXPERIMENT, SOON, ActionQueue
from podtune.runner.actions import CreatePod
from podtune.runner.attempts.gangs import PlacementTurn, wait_for_turn
from podtune.runner.attempts.nodes import Nodes
from podtune.runner.attempts.warm_pool import PodAssignment, WarmPool, compute_template_hash
from podtune.runner.scheduling import evaluations
from podtune.runner.scheduling.namespace_cap import PodQuota
from podtune.runner.scheduling.pending_queue import PendingQueue
from podtune.runner.scheduling.result_processor import Begin, ResultProcessor
from podtune.runner.trial import own_limits, parameters, revisions
from podtune.runner.trial.machine import NEVER, TrialMachine
from podtune.runner.trial.phase import TrialPhase
from podtune.runner.trials import TrialIndex

STARTS_AT_A_TIME = 100
"""Trials that one decision starts: thousands may be waiting, and nobody else is served meanwhile."""


class Slots(TrialIndex):
    """Starts attempts as there are free slots.

    A trial holds a slot from the moment it is picked until its pod's end is taken in; also while its start is not
    durable yet, and while it is not known whether the pod was made. With the slot it claims its pods of the quota.
    """

    def __init__(
        self,
        actions: ActionQueue,
        processor: ResultProcessor,
        *,
        queue: PendingQueue,
        nodes: Nodes,
        quota: PodQuota,
        warm: WarmPool,
    ) -> None:
        self.queue = queue
        self.nodes = nodes
        self._quota = quota
        self._warm = warm
        self._actions = actions
        self._processor = processor
        self._holders: set[str] = set()
        self._picked: dict[str, TrialMachine] = {}
        """Trials that hold a slot and whose pod is created as soon as possible."""
        self._to_evaluate: dict[str, TrialMachine] = {}
        """Trials that wait for a slot in order to be evaluated: the scheduler has no say in that."""
        self._begun: set[str] = set()
        """Trials that were picked and that something has to be durable for first, or another gang to be placed."""
        self._turn = PlacementTurn()
        self._pending: set[str] = set()
        """Trials that hold a slot and whose program does not run yet."""
        self._resumed: set[str] = set()
        """Trials that will wait for a slot as soon as it is on record that they may resume."""
        self._promised: Counter[str] = Counter()
        """By trial, how many pods were claimed of the quota that were not seen yet."""
        self.kept_back = ""
        """Why the quota did not let a trial start when slots were filled last; empty where it did."""
        self._none_chosen = False

    @override
    def update(self, trial: TrialMachine, now: float) -> None:
        if trial.name in self._begun and not trial.is_to_run:
            self._begun.discard(trial.name)
        creating = self.is_creating(trial, now)
        self._warm.update(trial, making=creating and not trial.is_claiming)
        self._turn.update(trial, creating=creating)
        holds = trial.occupies_slot or trial.name in self._begun or creating
        (self._holders.add if holds else self._holders.discard)(trial.name)
        self._update_promise(trial, creating=creating)
        pending = (
            trial.name in self._begun or creating or (bool(trial.current.pods) and not trial.current.pods.is_training)
        )
        (self._pending.add if pending else self._pending.discard)(trial.name)
        since = trial.find_start_time()
        at = max(_find_due(trial, since, now), self._actions.find_ready_time(("create-pod", trial.name)))
        self._to_evaluate.pop(trial.name, None)
        if at <= now and not holds and trial.is_evaluated:
            self._to_evaluate[trial.name] = trial
        if at <= now and not holds and not trial.is_evaluated:
            self.queue.add(trial, since)
        else:
            self.queue.discard(trial.index)
        if at <= now and holds and trial.phase is not TrialPhase.PAUSED_BY_SCHEDULER:
            self._picked[trial.name] = trial
        else:
            self._picked.pop(trial.name, None)
        (self._resumed.add if _is_resumed(trial) and not holds else self._resumed.discard)(trial.name)
        if now < at < NEVER:
            self._actions.timers.set(trial.name, at)

    def is_creating(self, trial: TrialMachine, now: float) -> bool:
        """Whether it may come to have a pod that it has not seen yet; if so it is looked at again."""
        if ("create-pod", trial.name) in self._actions or trial.is_claiming:
            return True
        if not trial.current.pods.lacks_some or now >= trial.expectations.pod_expected_until:
            return False
        self._actions.timers.set(trial.name, trial.expectations.pod_expected_until)
        return True

    @property
    def promised(self) -> int:
        """How many pods may be made that were not seen yet."""
        return self._promised.total()

    @property
    def taken(self) -> int:
        """How many trials have a pod, or are to get one."""
        return len(self._holders)

    def count_free(self, limit: int) -> int:
        """How many more trials may have a pod; negative where the limit was lowered."""
        return limit - self.taken

    def count_unclaimed(self, limit: int) -> int:
        """How many slots no trial waits for, except trials that the scheduler does not want to run yet.

        It may want neither those that it has paused nor those that are retried: PBT completes its population first.
        """
        waiting = self.queue.new if self._none_chosen else len(self.queue) - self.queue.paused
        return self.count_free(limit) - waiting - len(self._resumed) - len(self._to_evaluate)

    def is_deadlocked(self, unfinished: int) -> bool:
        """Whether all unfinished trials are paused by the scheduler, and it starts none of them."""
        return self._none_chosen and 0 < unfinished == self.queue.paused and not self._holders

    def fill(self, limit: int, now: float, *, max_pending: int | None = None) -> list[TrialMachine]:
        """Gives free slots to waiting trials, as the scheduler picks them.

        Args:
            limit: How many slots there are.
            now: The present time.
            max_pending: How many trials may hold one whose program does not run yet; None for any number.

        Returns:
            The trials whose start has to be written before their pods are made, and those that are to wait.

        Raises:
            ValueError: The scheduler has picked a trial that does not wait.
        """
        picked = sorted(self._picked.values(), key=lambda trial: (trial.find_start_time(), trial.index))
        ready = [trial for trial in picked if self._claim(trial)]  # in the order in which a restart picks them again
        begun = [trial for trial in ready if self._launch(trial, limit, now)]
        begun += self._start_evaluations(limit, now, max_pending)
        self._none_chosen = False
        starts = 0
        while self.queue and self._has_room(limit, max_pending):
            if starts == STARTS_AT_A_TIME:
                self._actions.timers.set(EXPERIMENT, now + SOON)
                break
            starts += 1
            start = self._processor.scheduler.choose(self.queue)
            if start is None:
                self._none_chosen = True
                break
            if start.trial not in self.queue:
                raise ValueError(
                    f"the scheduler starts trial {start.trial}, which is not waiting; correct the scheduler"
                )
            if not self._claim(self.queue.get_trial(start.trial)):
                break
            trial = self.queue.take(start.trial)
            self._holders.add(trial.name)
            self._pending.add(trial.name)
            begin = self._processor.start(trial, start, now)
            if begin is Begin.NOT_YET:
                self._holders.discard(trial.name)
                self._pending.discard(trial.name)
                begun.append(trial)
            elif begin is Begin.ONCE_WRITTEN:
                self._begun.add(trial.name)
                begun.append(trial)
            elif self._launch(trial, limit, now):
                begun.append(trial)
        return begun

    def _has_room(self, limit: int, max_pending: int | None) -> bool:
        return self.count_free(limit) > 0 and (max_pending is None or len(self._pending) < max_pending)

    def _start_evaluations(self, limit: int, now: float, max_pending: int | None) -> list[TrialMachine]:
        """Gives free slots to trials that are to be evaluated, before others: each is about to give its slot back."""
        waiting = sorted(self._to_evaluate.values(), key=lambda trial: (trial.find_start_time(), trial.index))
        begun = []
        if len(waiting) > STARTS_AT_A_TIME:
            self._actions.timers.set(EXPERIMENT, now + SOON)
        for trial in waiting[:STARTS_AT_A_TIME]:
            if not self._has_room(limit, max_pending) or not self._claim(trial):
                break
            del self._to_evaluate[trial.name]
            self._holders.add(trial.name)
            self._pending.add(trial.name)
            if self._launch(trial, limit, now):
                begun.append(trial)
        return begun

    def _update_promise(self, trial: TrialMachine, *, creating: bool) -> None:
        """Pods that were seen count for themselves; a gang that is there in part is promised the rest of its pods."""
        pods, has_begun = trial.current.pods, trial.name in self._begun
        if trial.context.reuses:
            may_come = not trial.is_claiming and (creating or (has_begun and trial.name in self._promised))
        else:
            may_come = pods.lacks_some and (creating or bool(pods) or has_begun)
        if may_come:
            self._promised[trial.name] = pods.replicas - len(pods.members)
        else:
            self._promised.pop(trial.name, None)

    def _claim(self, trial: TrialMachine) -> bool:
        """Whether a trial may start as far as the quota goes; one that may get a pod that is there has to find out."""
        return trial.context.reuses or self._promise(trial)

    def _promise(self, trial: TrialMachine) -> bool:
        """Whether a trial's pods may be made as far as the quota goes."""
        if trial.name in self._promised:
            return True
        self.kept_back = self._quota.claim(trial.current.pods.replicas)
        if self.kept_back:
            return False
        self._promised[trial.name] = trial.current.pods.replicas
        return True

    def _launch(self, trial: TrialMachine, limit: int, now: float) -> bool:
        """Has a trial's pods made, or gives it one that is there; whether that has to be written first."""
        if not self._processor.is_flushed(trial):
            self._begun.add(trial.name)
            self._processor.barrier.waiting[trial.name] = None
            return False
        if trial.replicas > 1 and (other := self._turn.find_blocker(trial)):
            self._begun.add(trial.name)
            self._picked[trial.name] = trial
            wait_for_turn(trial, other, self._actions, now)
            return False
        if self._record_what_pods_have(trial, now):
            self._begun.add(trial.name)
            self._picked[trial.name] = trial
            return True
        action = self.build_creation(trial, now)
        if trial.context.reuses:
            if self._quota.wants_back():
                self._warm.give_back()
            assignment = self._warm.assign_pod(trial, action, limit=limit, now=now)
            if assignment is not PodAssignment.CREATE or not self._promise(trial):
                self._begun.add(trial.name)
                self._picked[trial.name] = trial
                return assignment is PodAssignment.ASSIGNED
        if self._actions.enqueue(action, now, trial.name):
            self._warm.update(trial, making=True)
            self._turn.update(trial, creating=True)
            self._begun.discard(trial.name)
            self._picked.pop(trial.name, None)
        return False

    def _record_what_pods_have(self, trial: TrialMachine, now: float) -> bool:
        """Puts template and limits of a trial's next attempt on record; whether they were not."""
        is_new = revisions.record_present_revision(trial, now)
        return own_limits.record(trial, self._processor.choose_own_limits(trial), now) or is_new

    def build_creation(self, trial: TrialMachine, now: float) -> CreatePod:
        """The request to create the pods of a trial's next attempt."""
        given = self._processor.compute_limits(trial)
        return CreatePod(
            trial=trial.name,
            trial_uid=trial.uid,
            attempt=trial.attempt,
            spec=parameters.make_effective(trial.spec, trial.saved),
            restore=evaluations.list_restorable(trial.saved),
            iteration=trial.saved.iteration,
            restore_or_fail=trial.saved.clone is not None or trial.is_evaluated,
            limits=given.limits,
            shared_limits=given.shared,
            own_limits=trial.saved.limits,
            replicas=trial.replicas,
            avoid=self.nodes.to_avoid(trial, now),
            template_hash=compute_template_hash(trial.context.spec, given.limits) if trial.context.reuses else "",
            find=trial.finds_checkpoints,
            revision=revisions.find_recorded_revision(trial),
            evaluates=trial.is_evaluated,
        )


def _find_due(trial: TrialMachine, at: float, now: float) -> float:
    """When a wait that was to last until some time is over.

    No wait is longer than the settings say: one that would be was written down by a clock that has gone back since.
    """
    if not now < at < NEVER:
        return at
    spec = trial.context.spec
    longest = max(parse_duration(spec.failures.backoff.max), parse_duration(spec.trial_template.placement_timeout))
    return at if at <= now + longest else now


def _is_resumed(trial: TrialMachine) -> bool:
    """Whether a trial is to resume after a pause, and that is not on record yet."""
    is_held = not trial.is_evaluated and (trial.refusal or trial.limits_problem)
    return trial.saved.state is TrialState.PAUSED and trial.is_to_run and not is_held
