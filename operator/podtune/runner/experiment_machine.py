"""One experiment: what was seen goes in, actions come out.

The machine is fed what was seen (`observe_…`, `report`, `on_action_result`) and asked what to do (`decide`). It does no
I/O, and draws time and randomness from its arguments. All it knows comes from the objects: a machine made afresh of the
same Experiment, Trials and pods decides the same. Where that is in doubt (a Trial was deleted, or written by somebody
else), the machine makes itself anew of what it has seen; only what is under way outlives that.

`decide` looks only at trials that something happened to; what it needs of the others is kept in counters and sets.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import islice

from podtune.api.resources.experiment import ExperimentSpec
from podtune.api.resources.storage_jobs import StorageStatus
from podtune.protocol.messages import Reply, Report
from podtune.protocol.storage_job import StoragePurpose
from podtune.runner.action_queue import ActionQueue
from podtune.runner.actions import (
    Action,
    ActionResult,
    ActionStatus,
    CreateStoragePod,
    CreateTrial,
    DeletePod,
    LoadWarmStart,
    Propose,
)
from podtune.runner.attempts.nodes import Nodes
from podtune.runner.attempts.refusals import Refusals
from podtune.runner.attempts.warm_pool import WarmPool
from podtune.runner.checkpoints import due_jobs
from podtune.runner.checkpoints.checkpoint_pins import CheckpointPins
from podtune.runner.checkpoints.cleanup import Cleanup
from podtune.runner.checkpoints.former_trials import FormerTrials
from podtune.runner.checkpoints.restore_sources import RestoreSources
from podtune.runner.checkpoints.storage_work import StorageWork
from podtune.runner.expectations import Expectations
from podtune.runner.experiment import resumption
from podtune.runner.experiment.deletion import Deletion
from podtune.runner.experiment.experiment_end import ExperimentEnd
from podtune.runner.experiment.experiment_tracker import ExperimentTracker
from podtune.runner.experiment.finalizer import Finalizer
from podtune.runner.experiment.front import Front
from podtune.runner.experiment.status_write_throttle import StatusWriteThrottle
from podtune.runner.experiment.trial_reset import TrialReset, opens
from podtune.runner.experiment.ttl import TimeToLive
from podtune.runner.records import Experiment, Pod, StoragePod, Trial
from podtune.runner.scheduling.exploits import Exploits
from podtune.runner.scheduling.namespace_cap import NO_LIMIT, PodQuota
from podtune.runner.scheduling.paused_trials import PausedEnd, PausedTrials
from podtune.runner.scheduling.pending_queue import PendingQueue
from podtune.runner.scheduling.result_processor import ResultProcessor
from podtune.runner.scheduling.scheduler_registration import SchedulerRegistration
from podtune.runner.scheduling.slots import Slots
from podtune.runner.search.search import Search
from podtune.runner.settings import RunnerSettings
from podtune.runner.timers import EXPERIMENT, SOON
from podtune.runner.timestamps import parse_rfc3339
from podtune.runner.trial import replies, reports
from podtune.runner.trial.machine import NEVER, TrialContext, TrialMachine
from podtune.runner.trial.replies import Unaccepted
from podtune.runner.trial.trial_action_results import TrialActionResults
from podtune.runner.trial.trial_planner import TrialPlanner
from podtune.runner.trials import Trials
from podtune.tuning.schedulers import make_scheduler
from podtune.tuning.schedulers.base import Scheduler
from podtune.tuning.searchers.base import Observation
from podtune.tuning.stoppers import make_trial_stopper

__all__ = ["ActionPlan", "ExperimentMachine", "Unaccepted"]

TIMERS_AT_A_TIME = 100
"""Trials that one decision looks at because of the time: where thousands began to wait at once, all are due at once."""


@dataclass(frozen=True, slots=True)
class ActionPlan:
    """What to do now.

    Attributes:
        actions: What to carry out.
        wake: When to ask again even if nothing happens; infinity: never.
        assigned: UIDs of warm pods that another trial was assigned to: an agent that waits for that is answered.
    """

    actions: tuple[Action, ...]
    wake: float
    assigned: tuple[str, ...] = ()


class ExperimentMachine:
    """The state of one experiment with a spec that can be used."""

    def __init__(
        self,
        experiment: Experiment,
        trials: Iterable[Trial],
        pods: Collection[Pod],
        settings: RunnerSettings,
        make_scheduler: Callable[[ExperimentSpec], Scheduler] = make_scheduler,
        *,
        storage_pods: Iterable[StoragePod] = (),
        quota: PodQuota = NO_LIMIT,
        throttle: StatusWriteThrottle | None = None,
    ) -> None:
        """Makes the machine of the objects alone.

        Args:
            experiment: The Experiment; its spec must be there.
            trials: All its Trials.
            pods: All their pods, looked up no earlier than the Trials: one that a Trial names and that is missing
                here is taken for gone.
            settings: Times and limits.
            make_scheduler: Makes the scheduler that the spec asks for.
            storage_pods: The pods that work in the bucket.
            quota: Is asked before pods of trials are made.
            throttle: Slows down writes when the operator serves many; never, where none is given.
        """
        assert experiment.spec is not None  # the caller reports a spec that can't be used
        self.experiment = experiment
        self.spec: ExperimentSpec = experiment.spec
        self.settings = settings
        self._make_scheduler = make_scheduler
        self._quota = quota
        self._throttle = throttle or StatusWriteThrottle()
        self._actions = ActionQueue(settings.api_backoff)
        self._prior_observations: Sequence[Observation] | None = () if self.spec.search.warm_start is None else None
        """What an earlier experiment has found; None while that is not known."""
        self._former = FormerTrials()
        self._storage = StorageWork(experiment, self._actions, settings)
        for storage_pod in storage_pods:
            self._storage.observe_pod(storage_pod)
        self._refusals = Refusals(experiment, self._actions, settings)
        self._finalizer = Finalizer(self._actions)
        self._finalizer_reconciled = False
        self._deletion = Deletion(self._actions, self._storage)
        self._ttl = TimeToLive(self._actions)
        self._trials = Trials(experiment.name)
        self._warm = WarmPool(self._trials, self._actions, settings)
        for pod in pods:
            if pod.template_hash:
                self._warm.observe_pod(pod)
        self._build(trials, [pod for pod in pods if not pod.template_hash], {})
        self._former.miss(experiment.name, experiment.status.trials.total, self._trials)

    def _build(
        self,
        trials: Iterable[Trial],
        pods: Iterable[Pod],
        expectations: Mapping[str, Expectations],
        pod_expected_until: float = 0.0,
    ) -> None:
        """Makes everything that follows from the objects.

        Args:
            trials: All Trials.
            pods: All their pods.
            expectations: By UID of the Trial: what is under way.
            pod_expected_until: Until then, a pod that a Trial names may still show up; 0 where all pods are among
                `pods`.
        """
        self._outdated = False
        self._trials.clear()
        self._warm.reset()
        self._dirty: dict[str, None] = {}
        self._strays: dict[str, Pod] = {}
        scheduler = self._make_scheduler(self.spec)
        self._time_attribute = scheduler.time_attribute
        self._context = self._make_context()
        self._pins = CheckpointPins()
        self._nodes = Nodes(self.spec.failures)
        pods_of: defaultdict[str, list[Pod]] = defaultdict(list)
        for pod in pods:
            pods_of[pod.trial].append(pod)
        for trial in sorted(trials, key=lambda trial: trial.spec.index):
            self._adopt(trial, pods_of.pop(trial.name, ()), expectations.get(trial.uid), pod_expected_until)
        self._strays.update((pod.uid, pod) for orphans in pods_of.values() for pod in orphans)
        self._search = Search(
            self.experiment.name,
            self.spec,
            self._trials,
            self._actions,
            self.settings,
            prior_observations=self._prior_observations,
            former=self._former,
        )
        self._front = Front(self.spec, self.experiment.name)
        self._tracker = ExperimentTracker(self.experiment, self.spec, self._actions)
        self._end = ExperimentEnd(self.spec, self._tracker, self._search)
        queue = PendingQueue()
        self._processor = ResultProcessor(
            scheduler,
            make_trial_stopper(self.spec),
            Exploits(scheduler, self._trials, self._pins),
            search=self._search,
            queue=queue,
            end=self._end,
            throttle=self._throttle,
        )
        self._slots = Slots(
            self._actions, self._processor, queue=queue, nodes=self._nodes, quota=self._quota, warm=self._warm
        )
        self._cleanup = Cleanup(self.spec, self.settings, self._actions)
        self._restore_sources = RestoreSources(
            self.experiment.name, self._trials, self._actions, self._pins, self._search
        )
        self._planner = TrialPlanner(self._actions, self._processor, self._slots, self._search, self._restore_sources)
        self._action_results = TrialActionResults(self._trials, self._planner, self._refusals)
        self._paused_trials = PausedTrials(self._trials, self._processor, self._slots, self._search)
        for machine in self._trials.values():
            self._processor.restore_stopper(machine)
        self._registration = SchedulerRegistration(self._processor, self._search)
        self._registration.restore(self._trials.values())
        self._trial_reset = TrialReset(self.experiment.status.resumption, self._trials.values())

    # Observations of objects

    def observe_experiment(self, experiment: Experiment) -> None:
        """Takes in a version of the Experiment."""
        if experiment.version < self.experiment.version:
            return
        changed = experiment.spec is not None and experiment.spec != self.spec
        self.experiment = experiment
        self._tracker.observe_experiment(experiment, changed=changed)
        self._storage.observe_experiment(experiment)
        self._refusals.observe_experiment(experiment)
        if resumption.run_generation_of(experiment.status) != self._context.run_generation:
            self._outdated = True
        if self._tracker.end_to_act_on is not None:
            for name in self._tracker.unfinished:
                self._mark(name)
        if changed and experiment.spec is not None:
            self._spec_changed(experiment.spec)

    def observe_trial(self, trial: Trial) -> None:
        """Takes in a version of one of the experiment's Trials."""
        if trial.uid in self._former:
            return
        known = self._trials.get(trial.name)
        if known is None:
            pods = [pod for pod in self._strays.values() if pod.trial == trial.name]
            machine = self._adopt(trial, pods, None)
            self._processor.restore_stopper(machine)
            self._search.trial_exists(machine)
            self._registration.add(machine)
        elif known.uid != trial.uid:
            self._trials[trial.name] = TrialMachine(trial, self._context)
            self._outdated = True
        elif known.observe_trial(trial):
            self._saved(known)
        else:
            self._outdated = True
        self._mark(trial.name)

    def observe_trial_deletion(self, name: str) -> None:
        """A Trial was deleted: unless the experiment has ended, it is made anew, and goes on from its checkpoints."""
        trial = self._trials.pop(name, None)
        if trial is not None:
            self._former.deleted(trial)
            self._actions.forget(name)
            self._trial_reset.forget(name)
            self._warm.observe_trial_deletion(name)
            self._outdated = not self._tracker.is_recorded

    def observe_pod(self, pod: Pod) -> None:
        """Takes in a version of a pod of one of the trials; one that is gone is reported with `gone` set."""
        if pod.template_hash:
            for name in self._warm.observe_pod(pod):
                self._mark(name)
            return
        trial = self._trials.get(pod.trial)
        if trial is not None and trial.owns(pod):
            trial.observe_pod(pod)
            self._mark(trial.name)
        elif pod.gone:
            self._strays.pop(pod.uid, None)
        else:
            self._strays[pod.uid] = pod

    def observe_storage_pod(self, pod: StoragePod) -> None:
        """Takes in a version of a pod that works in the bucket; one that is gone is reported with `gone` set."""
        self._storage.observe_pod(pod)

    def report(self, trial_name: str, pod_name: str, report: Report, now: float) -> Reply | Unaccepted:
        """Takes in what an agent has posted.

        Args:
            trial_name: The trial that it reports on.
            pod_name: The pod that it was authenticated as, whose UID the report's attempt is or begins with.
            report: The report.
            now: The present time.

        Returns:
            The answer, or why it was not taken in.
        """
        trial = self._trials.get(trial_name)
        if self._context.reuses:
            answer = self._warm.hear(trial, report)
        else:
            answer = Unaccepted.FENCED if trial is None else replies.fence(trial, pod_name, report.attempt)
        if answer is not None or trial is None:
            return answer or Unaccepted.FENCED
        if reports.find_misplaced(trial, report):
            return Unaccepted.MISPLACED
        reports.take_report(trial, report, self._processor, now)
        if report.final is not None and report.final.seq <= trial.current.acked_seq:
            self._warm.attempt_ended(trial, report, now)
        self._mark(trial.name)
        pinned = self._pins.list_uris(trial.name, trial.saved)
        return replies.reply(trial, report, is_flushed=self._processor.is_flushed(trial), pinned=pinned)

    def on_action_result(self, action: Action, result: ActionResult, now: float) -> None:
        """Hears how an action went. What it made or changed is reported as seen before this."""
        self._actions.on_action_result(action, result, now)
        self._warm.on_action_result(action, result)
        match action:
            case Propose():
                self._search.proposed(action, result)
            case LoadWarmStart():
                if result.status is ActionStatus.DONE:
                    self._prior_observations = result.prior_observations
                self._search.learnt(result, now)
            case CreateTrial():
                self._search.created(action, result)
            case CreateStoragePod():
                self._storage.on_action_result(action, result)
            case DeletePod() if self._storage.owns(action.name):
                self._storage.on_action_result(action, result)
            case _:
                for name in self._action_results.on_action_result(action, result, now):
                    self._mark(name)

    # Decisions

    @property
    def is_outdated(self) -> bool:
        """Whether the next decision begins with making everything anew: with many trials, that takes a while."""
        return self._outdated or self._paused_trials.is_outdated

    @property
    def promised_pods(self) -> int:
        """How many pods it may make that were not seen yet."""
        return 0 if self.experiment.deleting else self._slots.promised

    @property
    def waits_for_pods(self) -> bool:
        """Whether the quota keeps it from making pods that it would make now."""
        return bool(self._slots.kept_back)

    @property
    def trials_with_pods(self) -> int | None:
        """How many trials have a pod, or are to get one; None where the experiment does not go on."""
        return self._slots.taken if self._goes_on and not self.experiment.deleting else None

    def decide(self, now: float) -> ActionPlan:
        """What has to be done now."""
        self._slots.kept_back = ""
        try:
            if self.experiment.deleting:
                self._decide_deletion(now)
            else:
                self._decide(now)
        except Exception:
            self._actions.drop()
            self._outdated = True  # half a decision must not be built upon
            self._slots.kept_back = ""
            raise
        wake = max(self._actions.timers.next, now + SOON)  # some that are due may have been left for the next time
        return ActionPlan(self._actions.take(), wake, self._warm.take_assigned())

    def _decide(self, now: float) -> None:
        if self.is_outdated:
            self._rebuild(now)
        for trial in self._registration.register_ready(now):
            self._mark(trial.name)
        for name in (*islice(self._actions.timers.pop_due(now), TIMERS_AT_A_TIME), *self._restore_sources.orphans()):
            self._mark(name)
        self._plan_dirty(now)
        if self._tracker.is_recorded:
            self._go_on_if_asked(now)
        self._tracker.follow_suspension(now, asked=self.spec.suspend, taken=self._slots.taken)
        if self._is_open:
            self._end_paused(self._paused_trials.stopped_by_scheduler(), now)
            if self._trials or (self._prior_observations is not None and not self.spec.suspend):
                self._end_if_due(now)  # before, time does not run
        for name in self._cleanup.follow_end(self._tracker.end_time(now), now, shared=self._warm.retains):
            self._mark(name)
        self._plan_dirty(now)
        self._finalizer_reconciled = self._finalizer.reconcile(self.experiment, self.spec, now)
        if self._is_open and not self.experiment.problem and self._may_start:
            self._refusals.ask_again(self._trials, self._slots, now)
            if not self._refusals.is_held:
                self._start_trials(now)
        self._cleanup.delete_due(now)
        self._warm.delete_idle(now, keeps=self._goes_on, retention=self._cleanup.retention)
        self._front.take_in(self._search)
        self._actions.timers.set(EXPERIMENT, self._nodes.next_change(now))
        storage = self._work_in_bucket(now)
        self._tracker.write(
            now,
            blocker=None if self.spec.suspend else self._search.blocker,
            refusal=self._refusals.record,
            hold=self._refusals.hold,
            capped=self._slots.kept_back,
            asked=self._search.to_record if self._is_open else None,
            front=self._front.trials,
            avoided=[node.shown for node in self._nodes.avoided(now)],
            storage=storage,
            debounce=self._throttle.stretch_experiment_wait(
                self.settings.experiment_debounce, self.settings.throttle_above_experiments
            ),
        )

    def _work_in_bucket(self, now: float) -> StorageStatus | None:
        """Has done what is due without a running trial; an end is called one when its exports are over."""
        tracker = self._tracker
        due = due_jobs.find_due(self.experiment, self.spec, self._trials, tracker)
        exporting = any(one.purpose is StoragePurpose.EXPORT and not self._storage.is_over(one) for one in due)
        tracker.is_held = exporting and not tracker.is_recorded
        if tracker.is_recorded and tracker.is_over and all(map(self._storage.is_over, due)):
            self._ttl.check(self.experiment, self.spec, now)
        return self._storage.decide(due if tracker.end_to_act_on is not None else (), now)

    def _decide_deletion(self, now: float) -> None:
        changed = {*self._dirty, *self._actions.timers.pop_due(now)}
        self._dirty = {}
        self._warm.delete_idle(now, keeps=False, retention="None")
        strays, prefix = (*self._strays.values(), *self._warm.all), self._context.store_prefix
        self._deletion.decide(
            self.experiment, self.spec, now, trials=self._trials, strays=strays, prefix=prefix, changed=changed
        )

    def _plan_dirty(self, now: float) -> None:
        while self._dirty:
            dirty, self._dirty = self._dirty, {}
            for name in dirty:
                trial = self._trials.get(name)
                if trial is not None and trial not in self._registration:
                    self._plan(trial, now)

    def _plan(self, trial: TrialMachine, now: float) -> None:
        self._trial_reset.open(trial, now)
        self._actions.timers.set(trial.name, self._processor.continue_exploit(trial, now))
        self._planner.plan(trial, self._tracker.end_to_act_on, now)
        if trial.is_finished and trial.is_durable and trial.write_due == NEVER:
            self._actions.timers.cancel(trial.name)  # set while it ran
        self._tracker.update(trial, now)
        self._pins.update(trial)
        self._nodes.update(trial)
        self._slots.update(trial, now)
        self._cleanup.update(trial, now)
        for name in (*self._restore_sources.waiting_for(trial), *self._processor.waiting_for(trial)):
            self._mark(name)

    def _go_on_if_asked(self, now: float) -> None:
        """Looks whether an experiment that has ended is to go on, by its spec as it is now."""
        status = self.experiment.status
        if self.experiment.problem:
            return
        following = resumption.following(status, self.spec)
        if resumption.is_asked(status, self.spec):
            self._tracker.go_on(following, now)
        elif resumption.has_other_limits(status, self.spec):
            reopens = any(opens(trial, following) for trial in self._trials.values())
            if not self._end.still_holds(parse_rfc3339(status.completion_time) or now, reopens=reopens):
                self._tracker.go_on(following, now)

    @property
    def _is_open(self) -> bool:
        """Whether trials may be made, started and ended: not once an end is found, nor while ended ones are opened."""
        return self._tracker.outcome is None and not self._tracker.is_going_on and not self._trial_reset.is_pending

    @property
    def _goes_on(self) -> bool:
        """Whether trials may still come."""
        return self._is_open and not self.spec.suspend

    @property
    def _may_start(self) -> bool:
        """Whether trials may be started: not while a storage pod works by what it was told of them."""
        return not self.spec.suspend and not self._storage.is_busy and self._finalizer_reconciled

    def _end_if_due(self, now: float) -> None:
        self._tracker.outcome, deadline = self._end.find(now)
        if deadline is not None:
            self._actions.timers.set(EXPERIMENT, deadline)

    def _start_trials(self, now: float) -> None:
        limit = self.spec.max_concurrent_trials
        for trial in self._slots.fill(limit, now, max_pending=self.spec.max_pending_trials):
            self._mark(trial.name)
        self._plan_dirty(now)
        slots = self._slots.unclaimed(limit)
        self._search.create_trials(slots, now)
        self._search.ask(slots, self.experiment.status.proposal_request, now)
        if self._tracker.is_durable:
            self._end_paused(self._paused_trials.never_promoted(len(self._tracker.unfinished)), now)

    def _end_paused(self, ends: Iterable[PausedEnd], now: float) -> None:
        """Ends trials that the scheduler has paused and that will never run again."""
        for end in list(ends):
            self._planner.end_paused(end, now)
            self._mark(end.trial.name)
        self._plan_dirty(now)

    # Bookkeeping

    def _saved(self, trial: TrialMachine) -> None:
        """What may go on now that the API server has a trial's status."""
        self._warm.saved(trial)
        if self._processor.on_status_saved(trial):
            for name in self._processor.barrier.waiting:
                self._mark(name)
            self._processor.barrier.waiting.clear()
        self._search.saved(trial)
        if self._trial_reset.saved(trial):
            self._outdated = True  # neither scheduler nor searcher is to know of the former ends

    def _rebuild(self, now: float) -> None:
        """Makes everything anew of the objects as they were last seen.

        A status that is still being written was made by the machine as it was: when it is seen, it is somebody else's,
        and everything is made anew once more. Where it is somebody else's, a pod of theirs may be seen only after it.
        """
        machines = list(self._trials.values())
        for machine in machines:
            machine.expectations.statuses.clear()
        own = () if self._context.reuses else (pod for machine in machines for pod in machine.pods)
        pods = [*self._strays.values(), *own]
        expectations = {machine.uid: machine.expectations for machine in machines}
        self._build([machine.seen for machine in machines], pods, expectations, now + self.settings.creation_timeout)

    def _adopt(
        self, trial: Trial, pods: Iterable[Pod], expectations: Expectations | None, pod_expected_until: float = 0.0
    ) -> TrialMachine:
        machine = TrialMachine(trial, self._context, expectations)
        self._trials[trial.name] = machine
        for pod in pods:
            if machine.owns(pod):
                machine.observe_pod(pod)
                self._strays.pop(pod.uid, None)
            else:
                self._strays[pod.uid] = pod
        self._warm.restore(machine)
        if pod_expected_until and machine.lacks_recorded_pod:
            machine.expectations.pod_expected_until = machine.expectations.pod_expected_until or pod_expected_until
        else:
            machine.miss_pods()
        self._nodes.update(machine)
        self._pins.update(machine)
        self._mark(trial.name)
        return machine

    def _spec_changed(self, spec: ExperimentSpec) -> None:
        self.spec = self._search.spec = spec
        self._processor.stopper = make_trial_stopper(spec)
        self._end.take_spec(spec)
        self._cleanup.take_spec(spec)
        self._context = self._make_context()
        self._nodes.take_spec(spec.failures)
        for trial in self._trials.values():
            trial.context = self._context
            self._processor.restore_stopper(trial)
            self._mark(trial.name)

    def _make_context(self) -> TrialContext:
        store = self.spec.checkpoints.store
        prefix = ""
        if store is not None:
            parts = (store.bucket, store.prefix, self.experiment.uid)
            prefix = "s3://" + "/".join(part for part in parts if part) + "/"
        return TrialContext(
            spec=self.spec,
            settings=self.settings,
            time_attribute=self._time_attribute,
            run_generation=resumption.run_generation_of(self.experiment.status),
            store_prefix=prefix,
            replicas=self.spec.trial_template.replicas,
            reuses=self.spec.trial_template.reuse,
        )

    def _mark(self, name: str) -> None:
        self._dirty[name] = None
