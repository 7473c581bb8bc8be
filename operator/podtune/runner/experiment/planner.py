"""Takes an experiment as far as it can go: plans its trials, starts and ends them, and writes its status.

A planner is built from the current objects, with a scheduler that has seen nothing. If it may be wrong about them, a
new one replaces it.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from itertools import islice

from podtune.api.resources.experiment import ExperimentSpec
from podtune.api.resources.storage_jobs import StorageStatus
from podtune.protocol.messages import Reply, Report
from podtune.protocol.storage_job import StoragePurpose
from podtune.runner.action_queue import EXPERIMENT, ActionQueue
from podtune.runner.actions import (
    Action,
    ActionResult,
    ActionStatus,
    CreatePod,
    CreateStoragePod,
    CreateTrial,
    DeleteExperiment,
    DeleteFinishedPods,
    DeletePod,
    DropRevision,
    FetchLogs,
    FindCheckpoint,
    KeepRevision,
    LoadWarmStart,
    OpenGates,
    Propose,
    TrialAction,
    TryPod,
    WriteTrialStatus,
)
from podtune.runner.attempts.nodes import Nodes
from podtune.runner.attempts.refusals import Refusals
from podtune.runner.attempts.warm_pool import WarmPool
from podtune.runner.checkpoints import due_jobs
from podtune.runner.checkpoints.cleanup import Cleanup
from podtune.runner.checkpoints.end_retention import EndRetention
from podtune.runner.checkpoints.former_trials import FormerTrials
from podtune.runner.checkpoints.pins import CheckpointPins
from podtune.runner.checkpoints.restore_sources import RestoreSources
from podtune.runner.checkpoints.snapshots import Snapshots
from podtune.runner.checkpoints.storage_work import StorageJobSpec, StorageWork
from podtune.runner.experiment import resumption
from podtune.runner.experiment.ending import ExperimentEnd
from podtune.runner.experiment.finalizer import Finalizer
from podtune.runner.experiment.front import Front
from podtune.runner.experiment.plugin_hold import PluginHold
from podtune.runner.experiment.status_text import StatusInputs
from podtune.runner.experiment.status_write_throttle import StatusWriteThrottle
from podtune.runner.experiment.template_revisions import TemplateRevisions
from podtune.runner.experiment.tracker import ExperimentTracker
from podtune.runner.experiment.trial_reset import TrialReset, opens
from podtune.runner.records import Experiment
from podtune.runner.scheduling.exploits import Exploits
from podtune.runner.scheduling.namespace_cap import PodQuota
from podtune.runner.scheduling.paused_trials import PausedEnd, PausedTrials
from podtune.runner.scheduling.pending_queue import PendingQueue
from podtune.runner.scheduling.registration import SchedulerRegistration
from podtune.runner.scheduling.result_processor import ResultProcessor
from podtune.runner.scheduling.run_status import build_run_facts
from podtune.runner.scheduling.scheduler_outage import SchedulerOutage
from podtune.runner.scheduling.slots import Slots
from podtune.runner.search.session import Search
from podtune.runner.settings import RunnerSettings
from podtune.runner.steps import BuildSteps
from podtune.runner.timestamps import parse_rfc3339
from podtune.runner.trial import replies, reports
from podtune.runner.trial.machine import NEVER, TrialMachine
from podtune.runner.trial.planner import TrialPlanner
from podtune.runner.trials import TrialIndex, Trials
from podtune.tuning.plugins import PluginFailure
from podtune.tuning.schedulers.base import Scheduler
from podtune.tuning.searchers.base import Observation
from podtune.tuning.stoppers.factory import make_trial_stopper

CHANGED_AT_A_TIME = 400
"""How many trials one decision plans: right after an experiment is read, all of them are due."""
TIMERS_AT_A_TIME = 100
"""Trials that one decision looks at because of the time: where thousands began to wait at once, all are due at once."""


@dataclass(slots=True)
class LastingParts:
    """What one planner passes on to the next: requests under way, and facts that no object records.

    Attributes:
        prior_observations: What an earlier experiment has found; None while that is not known.
    """

    settings: RunnerSettings
    quota: PodQuota
    throttle: StatusWriteThrottle
    actions: ActionQueue
    trials: Trials
    former: FormerTrials
    warm: WarmPool
    storage: StorageWork
    refusals: Refusals
    outage: SchedulerOutage
    plugin_hold: PluginHold
    prior_observations: Sequence[Observation] | None


class ExperimentPlanner:
    """Decides what is done about an experiment and its trials."""

    def __init__(
        self, experiment: Experiment, spec: ExperimentSpec, scheduler: Scheduler, lasting: LastingParts
    ) -> None:
        """Makes the parts, each of parts that are made before it. They know of no trial yet: see `restore`.

        Args:
            experiment: The Experiment.
            spec: The spec that it is served by.
            scheduler: A scheduler that has seen nothing.
            lasting: What the planner before it has left.
        """
        self.experiment = experiment
        self.spec = spec
        self._settings = settings = lasting.settings
        self._lasting = lasting
        self._actions = actions = lasting.actions
        self._trials = trials = lasting.trials
        self._warm = lasting.warm
        self._storage = lasting.storage
        self._refusals = lasting.refusals
        self._outage = lasting.outage
        self._dirty: dict[str, None] = {}
        self._pins = CheckpointPins()
        self._nodes = Nodes(spec.failures)
        self._search = search = Search(
            experiment.name,
            spec,
            actions,
            settings,
            prior_observations=lasting.prior_observations,
            former=lasting.former,
        )
        self._front = Front(spec, experiment.name)
        self.tracker = ExperimentTracker(experiment, spec, actions)
        self._end = ExperimentEnd(spec, self.tracker, search)
        queue = PendingQueue()
        exploits = Exploits(scheduler, trials, self._pins)
        self._end_retention = EndRetention(experiment.name, spec, scheduler, exploits, self._pins)
        self._processor = processor = ResultProcessor(
            scheduler,
            make_trial_stopper(spec),
            exploits,
            search=search,
            queue=queue,
            end=self._end,
            throttle=lasting.throttle,
            end_retention=self._end_retention,
        )
        self.slots = Slots(actions, processor, queue=queue, nodes=self._nodes, quota=lasting.quota, warm=lasting.warm)
        self._cleanup = Cleanup(spec, settings, actions)
        self._restore_sources = RestoreSources(experiment.name, trials, actions, self._pins, search)
        self._trial_planner = TrialPlanner(actions, processor, self.slots, search, self._restore_sources)
        self._paused_trials = PausedTrials(trials, processor, self.slots, search)
        self._registration = SchedulerRegistration(processor, search)
        self._trial_reset = TrialReset(experiment.status.resumption)
        self._finalizer = Finalizer(actions)
        self._revisions = revisions = TemplateRevisions(experiment.name, experiment.status, spec, actions)
        self._snapshots = Snapshots(spec, trials, lasting.prior_observations)
        self._indexes: tuple[TrialIndex, ...] = (
            self.tracker,
            self._pins,
            self._nodes,
            self.slots,
            revisions,
            self._end_retention,
            self._snapshots,
            self._cleanup,
        )
        """None of them reads another, so any order would do; what Cleanup asks for is asked for last."""

    def restore(self) -> BuildSteps:
        """Takes in what all trials have recorded, in steps."""
        for trial in self._trials.values():
            self._restore_trial(trial)
            self._trial_reset.restore(trial)
            yield
        yield from self._search.restore(self._trials.values())
        yield from self._registration.restore(self._trials.values())

    # Observations

    def observe_experiment(self, experiment: Experiment) -> None:
        """Takes in a version of the Experiment."""
        spec = experiment.spec if experiment.spec != self.spec else None
        self.experiment = experiment
        self.tracker.observe_experiment(experiment, changed=spec is not None)
        if self.tracker.end_to_act_on is not None:
            self.mark(self.tracker.unfinished)
        if spec is not None:
            self._take_spec(spec)

    def add_trial(self, trial: TrialMachine) -> None:
        """A Trial was made."""
        self._restore_trial(trial)
        self._search.add_trial(trial)
        self._registration.add(trial)

    def forget_trial(self, trial: TrialMachine) -> None:
        """A Trial was deleted."""
        self._trial_reset.forget(trial.name)
        self._snapshots.forget(trial)

    def on_status_saved(self, trial: TrialMachine) -> bool:
        """Continues what waited for the API server to have a trial's status.

        Returns:
            Whether a new planner must take over, because neither scheduler nor searcher may know about former ends.
        """
        self._warm.on_status_saved(trial)
        if self._processor.on_status_saved(trial):
            self.mark(self._processor.barrier.waiting)
            self._processor.barrier.waiting.clear()
        self._search.on_status_saved(trial)
        return self._trial_reset.on_status_saved(trial)

    def take_report(self, trial: TrialMachine, report: Report, now: float) -> Reply:
        """Takes in what the agent of a trial's current attempt has posted, and answers it."""
        reports.take_report(trial, report, self._processor, now)
        if report.final is not None and report.final.seq <= trial.current.acked_seq:
            self._warm.observe_attempt_end(trial, report, now)
        self._dirty[trial.name] = None
        pinned = self._pins.list_uris(trial.name, trial.saved)
        is_flushed = self._processor.is_flushed(trial)
        reply = replies.build_reply(trial, report, is_flushed=is_flushed, pinned=pinned)
        run = build_run_facts(trial, is_flushed=is_flushed, is_best=self.tracker.best is trial)
        reply = replace(reply, run=run) if run is not None else reply
        records = self._snapshots.answer(trial, report, self.experiment)
        return replace(reply, records=records) if records else reply

    def on_action_result(self, action: Action, result: ActionResult, now: float) -> None:
        """Hears how an action went. What it made or changed is reported as seen before this."""
        match action:
            case Propose():
                self._search.record_proposals(action, result)
            case LoadWarmStart():
                if result.status is ActionStatus.DONE:
                    self._lasting.prior_observations = result.prior_observations
                    self._snapshots.take_prior_observations(result.prior_observations)
                self._search.record_prior_observations(result, now)
            case CreateTrial():
                self._search.record_creation(action, result)
            case CreateStoragePod():
                self._storage.on_action_result(action, result)
            case DeletePod() if self._storage.owns(action.name):
                self._storage.on_action_result(action, result)
            case DeletePod():
                self._warm.on_action_result(action, result)
                self._on_trial_action_result(action, result, now)
            case DeleteFinishedPods():
                self.mark(self._cleanup.on_action_result(action, result, self._trials))
            case CreatePod() | TryPod():
                self._refusals.on_action_result(action, result, now)
                self._on_trial_action_result(action, result, now)
            case KeepRevision() | DropRevision():
                self._revisions.on_action_result(action, result, now)
            case FindCheckpoint() | OpenGates() | FetchLogs() | WriteTrialStatus():
                self._on_trial_action_result(action, result, now)
            case _:
                pass  # writes to the Experiment, and Events: what comes of them is seen, or is of no matter

    def _on_trial_action_result(self, action: TrialAction, result: ActionResult, now: float) -> None:
        trial = self._trials.get(action.trial)
        if trial is not None:
            self._trial_planner.on_action_result(trial, action, result, now)
            self._dirty[trial.name] = None

    def mark(self, names: Iterable[str]) -> None:
        """Has the next decision look at trials of these names."""
        self._dirty.update(dict.fromkeys(names))

    def take_marked(self) -> set[str]:
        """The names that were marked since the last time."""
        dirty, self._dirty = self._dirty, {}
        return set(dirty)

    # Decisions

    def decide(self, now: float) -> None:
        """Asks for what has to be done now."""
        self._register_new_trials(now)
        self._plan_changed_trials(now)
        if self._dirty:
            self._actions.timers.set(EXPERIMENT, now)
            return  # the next decision goes on with them
        self._restart_or_suspend_experiment(now)
        self._end_trials_and_experiment(now)
        self._release_retained_pods(now)
        self._start_trials(now)
        self._delete_spare_pods(now)
        self._keep_revisions(now)
        storage = self._continue_storage_jobs(now)
        self._write_status(storage, now)

    @property
    def is_outdated(self) -> bool:
        """Whether a new planner must take over, because the scheduler was told something that is no longer true.

        Or because a proposal has turned out to be another one.
        """
        return self._paused_trials.is_outdated or self._search.is_outdated

    @property
    def goes_on(self) -> bool:
        """Whether trials may still come."""
        return self._is_open and not self.spec.suspend

    @property
    def _plugin_failure(self) -> PluginFailure | None:
        """What the scheduler or a stopper of another package has failed at; None where all work."""
        return self._outage.failure or self._stopper_failure

    @property
    def _stopper_failure(self) -> PluginFailure | None:
        return self._processor.stopper.failure or self._end.plugin_failure

    @property
    def _is_open(self) -> bool:
        """Whether trials may be made, started and ended: not once an end is found, nor while ended ones are opened."""
        return self.tracker.outcome is None and not self.tracker.is_going_on and not self._trial_reset.is_pending

    def _register_new_trials(self, now: float) -> None:
        """Tells the scheduler of new trials."""
        self.mark(trial.name for trial in self._registration.register_ready(now))

    def _plan_changed_trials(self, now: float) -> None:
        """Plans each trial that something happened to, or that has waited for this time; some of very many."""
        self.mark(islice(self._actions.timers.pop_due(now), TIMERS_AT_A_TIME))
        self.mark(self._restore_sources.list_orphans())
        if len(self._dirty) <= CHANGED_AT_A_TIME:
            self._plan_marked(now)
            return
        for name in list(islice(self._dirty, CHANGED_AT_A_TIME)):
            del self._dirty[name]
            self._plan_named(name, now)

    def _restart_or_suspend_experiment(self, now: float) -> None:
        """Resumes an ended experiment, and suspends a running one, if its spec asks for it."""
        if self.tracker.is_recorded and not self.experiment.problem:
            self._go_on_if_asked(now)
        self.tracker.follow_suspension(now, asked=self.spec.suspend, taken=self.slots.taken)

    def _end_trials_and_experiment(self, now: float) -> None:
        """Ends the paused trials that the scheduler stops, and the experiment once one of its rules holds."""
        if not self._is_open:
            return
        self._end_paused(self._paused_trials.list_stopped_by_scheduler(), now)
        if self._trials or (self._search.is_informed and not self.spec.suspend):  # before, time does not run
            self.tracker.outcome, deadline = self._end.find(now)
            if deadline is not None:
                self._actions.timers.set(EXPERIMENT, deadline)

    def _release_retained_pods(self, now: float) -> None:
        """Has pods go that stay for people to look at, some time after the experiment's end."""
        self.mark(self._cleanup.follow_end(self.tracker.find_end_time(now), now, shared=self._warm.retains))
        self._plan_marked(now)

    def _start_trials(self, now: float) -> None:
        """Gives free slots to trials that wait, and has new ones proposed and made for the others."""
        is_finalizer_reconciled = self._finalizer.reconcile(self.experiment, self.spec, now)
        if not self.goes_on or self.experiment.problem or self._storage.is_busy or not is_finalizer_reconciled:
            return  # a storage pod works by what it was told of the trials
        self._refusals.ask_again(self._trials, self.slots, now)
        if self._refusals.is_held or self._outage.is_on or self._stopper_failure is not None:
            return
        limit = self.spec.max_concurrent_trials
        begun = self.slots.fill(limit, now, max_pending=self.spec.max_pending_trials)
        self.mark(trial.name for trial in begun)
        self._plan_marked(now)
        unclaimed = self.slots.count_unclaimed(limit)
        self._search.create_trials(unclaimed, now)
        self._search.ask(unclaimed, self.experiment.status.proposal_request, now)
        if self.tracker.is_durable:
            self._end_paused(self._paused_trials.list_never_promoted(len(self.tracker.unfinished)), now)

    def _delete_spare_pods(self, now: float) -> None:
        """Deletes pods that have ended, and warm ones that no trial needs."""
        self._cleanup.delete_due(now)
        self._warm.delete_idle(now, keeps=self.goes_on, retention=self._cleanup.retention)

    def _keep_revisions(self, now: float) -> None:
        """Keeps the present trial template, and those that somebody may want to look at; not once all is over."""
        if not self.tracker.is_recorded:
            self._revisions.decide(self.tracker.best, now)

    def _continue_storage_jobs(self, now: float) -> StorageStatus | None:
        """Has done what is due without a running trial; an end is called one when that is over, or takes too long."""
        tracker = self.tracker
        due = due_jobs.find_due(self.experiment, self.spec, self._trials, tracker, self._snapshots)
        left = next((one for one in due if not self._storage.is_over(one)), None)
        tracker.is_held = left is not None and not tracker.is_recorded and self._holds_end(left, now)
        if tracker.is_recorded and tracker.is_over and left is None:
            self._delete_after_ttl(now)
        if tracker.end_to_act_on is None:
            due = self._find_work_while_running(now)
        return self._storage.decide(due, now)

    def _holds_end(self, left: StorageJobSpec, now: float) -> bool:
        """Whether the end is not called one before a job is over: people who wait for it may delete all the rest."""
        return left.purpose is StoragePurpose.EXPORT or self._storage.is_waited_for(left, now)

    def _find_work_while_running(self, now: float) -> list[StorageJobSpec]:
        """What is due in the bucket beside running trials; where it is due later, this is decided again then."""
        if self.spec.checkpoints.store is None:
            return []
        last_stop, period = self._end_retention.last_stop, self._settings.prune_period
        found = (
            due_jobs.find_due_while_running(self.experiment, self._trials, last_stop, period),
            self._snapshots.find_due_while_running(self.experiment, now),
        )
        due: list[tuple[StorageJobSpec, float]] = []
        for one in found:
            if one is not None and one[1] > now:
                self._actions.timers.set(EXPERIMENT, one[1])
            elif one is not None and one[0] is not None:
                due.append((one[0], one[1]))
        return [job for job, _ in sorted(due, key=lambda one: one[1])]  # one that has begun comes first

    def _delete_after_ttl(self, now: float) -> None:
        """Deletes the Experiment `ttlSecondsAfterFinished` after the end on record, as Kubernetes deletes Jobs."""
        ended, ttl = parse_rfc3339(self.experiment.status.completion_time), self.spec.ttl_seconds_after_finished
        if ended is None or ttl is None:
            return
        if now < ended + ttl:
            self._actions.timers.set(EXPERIMENT, ended + ttl)
        else:
            self._actions.enqueue(DeleteExperiment(self.experiment.version), now)

    def _write_status(self, storage: StorageStatus | None, now: float) -> None:
        """Has the Experiment's status say what is known."""
        self._front.take_in(self._search)
        self._actions.timers.set(EXPERIMENT, self._nodes.find_next_change(now))
        self._outage.end_if_over(now)
        if not self.tracker.is_recorded:
            self._actions.timers.set(EXPERIMENT, self._outage.next_change)
        plugin_hold = self._lasting.plugin_hold.follow(self._plugin_failure, now)
        settings = self._settings
        inputs = StatusInputs(
            blocker=None if self.spec.suspend else self._search.blocker,
            refusal=self._refusals.record,
            hold=self._refusals.hold or plugin_hold,
            capped=self.slots.kept_back,
            asked=self._search.to_record if self._is_open else None,
            front=self._front.trials,
            avoided=[node.shown for node in self._nodes.list_avoided(now)],
            storage=storage,
            template=self._revisions.build_status(self.experiment.status, self.spec),
            outdated=self._revisions.describe_outdated(),
            agent_image=settings.agent_image if self._stores_on_volume else "",
            records_transitions=settings.records_transitions,
        )
        debounce = self._lasting.throttle.stretch_experiment_wait(
            settings.experiment_debounce, settings.throttle_above_experiments
        )
        self.tracker.write(inputs, debounce, now)

    @property
    def _stores_on_volume(self) -> bool:
        store = self.spec.checkpoints.store
        return store is not None and store.volume is not None

    # Steps that several sentences share

    def _plan_marked(self, now: float) -> None:
        while self._dirty:
            dirty, self._dirty = self._dirty, {}
            for name in dirty:
                self._plan_named(name, now)

    def _plan_named(self, name: str, now: float) -> None:
        trial = self._trials.get(name)
        if trial is not None and trial not in self._registration:
            self._plan(trial, now)

    def _plan(self, trial: TrialMachine, now: float) -> None:
        if not self._outage.is_on:
            self._registration.tell_unheard(trial, now)
        self._trial_reset.open(trial, now)
        self._actions.timers.set(trial.name, self._processor.continue_exploit(trial, now))
        if not self.tracker.is_recorded and self._end_retention.review(trial):
            trial.touch(now)
        self._trial_planner.plan(trial, self.tracker.end_to_act_on, now)
        if trial.is_finished and trial.is_durable and trial.write_due == NEVER:
            self._actions.timers.cancel(trial.name)  # set while it ran
        for index in self._indexes:
            index.update(trial, now)
        self.mark(self._restore_sources.list_waiting_for(trial))
        self.mark(self._processor.list_waiting_for(trial))
        self.mark(self._end_retention.take_due())

    def _end_paused(self, ends: Iterable[PausedEnd], now: float) -> None:
        """Ends trials that the scheduler has paused and that will never run again."""
        for end in list(ends):
            self._trial_planner.end_paused(end, now)
            self._dirty[end.trial.name] = None
        self._plan_marked(now)

    def _go_on_if_asked(self, now: float) -> None:
        """Checks whether an ended experiment should resume, by its current spec."""
        status = self.experiment.status
        following = resumption.build_resumption(status, self.spec)
        if resumption.is_asked(status, self.spec):
            self.tracker.go_on(following, now)
        elif resumption.has_other_limits(status, self.spec):
            reopens = any(opens(trial, following) for trial in self._trials.values())
            if not self._end.still_holds(parse_rfc3339(status.completion_time) or now, reopens=reopens):
                self.tracker.go_on(following, now)

    def _restore_trial(self, trial: TrialMachine) -> None:
        """Takes in what a trial has recorded."""
        self._processor.restore_stopper(trial)
        self._nodes.update(trial)
        self._pins.update(trial)
        self._end_retention.update(trial)
        self._dirty[trial.name] = None

    def _take_spec(self, spec: ExperimentSpec) -> None:
        """Goes by another spec from now on, and has all trials looked at."""
        self.spec = self._search.spec = spec
        self._processor.stopper = make_trial_stopper(spec)
        self._end.take_spec(spec)
        self._revisions.take_spec(spec)
        self._cleanup.take_spec(spec)
        self._nodes.take_spec(spec.failures)
        self._end_retention.take_spec(spec)
        self._snapshots.take_spec(spec)
        for trial in self._trials.values():
            self._processor.restore_stopper(trial)
        self.mark(self._trials)
