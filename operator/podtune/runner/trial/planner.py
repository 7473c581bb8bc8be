"""Takes one trial as far as it can go: what its user asks, the end of an attempt, decisions, its status."""

from __future__ import annotations

from podtune.api.conditions import clip
from podtune.api.names import DecisionAction, DecisionKind, DesiredState, ExperimentReason, TrialReason, TrialState
from podtune.protocol.assignment import parse_pod_uid
from podtune.runner import transitions
from podtune.runner.action_queue import ActionQueue
from podtune.runner.actions import (
    ActionResult,
    ActionStatus,
    CreatePod,
    DeletePod,
    EmitEvent,
    FetchLogs,
    FindCheckpoint,
    Logs,
    TrialAction,
    TryPod,
    WriteTrialStatus,
)
from podtune.runner.attempts import gangs, logs
from podtune.runner.attempts.ending import AttemptEnding, SchedulerEvent, end_attempt, reject_attempt
from podtune.runner.attempts.refusals import describe_refused_pod
from podtune.runner.checkpoints import checkpoint_requests, former_trials, upload_waits
from podtune.runner.checkpoints.restore_sources import RestoreSources
from podtune.runner.experiment.status_text import ExperimentOutcome
from podtune.runner.records import Pod
from podtune.runner.scheduling import evaluations, retry_requests
from podtune.runner.scheduling.paused_trials import PausedEnd
from podtune.runner.scheduling.result_processor import ResultProcessor
from podtune.runner.scheduling.slots import Slots
from podtune.runner.search.session import Search
from podtune.runner.timestamps import format_rfc3339, parse_rfc3339
from podtune.runner.trial import (
    deadlines,
    durability,
    own_limits,
    reports,
    revisions,
    status_text,
    usage,
)
from podtune.runner.trial.machine import NEVER, TrialMachine
from podtune.runner.trial.overrides import Overrides
from podtune.runner.trial.phase import TrialPhase
from podtune.runner.trial.results import parse_metrics


class TrialPlanner:
    """Decides what is done about a trial that something happened to."""

    def __init__(
        self,
        actions: ActionQueue,
        processor: ResultProcessor,
        slots: Slots,
        search: Search,
        restore_sources: RestoreSources,
    ) -> None:
        self._actions = actions
        self._processor = processor
        self._slots = slots
        self._search = search
        self._overrides = Overrides(processor, search)
        self._restore_sources = restore_sources

    def plan(self, trial: TrialMachine, outcome: ExperimentOutcome | None, now: float) -> None:
        """Brings a trial's status up to date and asks for the actions that are due."""
        if trial.lacks_recorded_pod:
            if self._slots.is_creating(trial, now):
                return  # another leader has made it, and the watch of pods has yet to tell
            trial.miss_pods()
        self._take_over(trial, now)
        self._follow_user_requests(trial, outcome, now)
        revisions.give_up_outdated_pods(trial, now)
        pod = trial.pod
        if pod is not None and trial.current.pods.is_over:
            self._end_attempt(trial, pod, now)
        elif pod is not None:
            self._check_deadlines(trial, now)
            gangs.keep_together(trial, self._actions, now)
            self._make_anew(trial, pod, now)
            self._actions.timers.set(trial.name, self._processor.check_time(trial, now))
            if not trial.is_evaluated:
                self._overrides.check(trial, now)
            status_text.explain_pods(trial, self._processor.compute_limits(trial), now)
            self._carry_out_decision(trial, now)
        elif not trial.is_finished:
            status_text.explain_queue(trial, now)
            if not trial.current.pods and not self._slots.is_creating(trial, now):
                if not trial.is_evaluated:
                    self._prepare_training(trial, now)
                self._check_refusal(trial, now)
        status_text.note_generation(trial, now)
        self._write(trial, now)

    def _prepare_training(self, trial: TrialMachine, now: float) -> None:
        """Takes in what the next attempt is to train with, and ends a trial that can't have it."""
        self._overrides.take_in(trial, now)
        own_limits.explain_problem(trial, now)
        self._fail_without_restore_source(trial, self._restore_sources.find_source(trial, now), now)
        self._fail_without_resources(trial, now)

    def on_action_result(self, trial: TrialMachine, action: TrialAction, result: ActionResult, now: float) -> None:
        """Hears how an action on a trial went. What it made or changed is reported as seen before this."""
        match action:
            case CreatePod():
                self._on_pod_created(trial, action, result, now)
            case TryPod() if result.reason is ExperimentReason.POD_REFUSED and trial.is_to_run:
                self._on_pod_refused(trial, describe_refused_pod(action.creation, result.message), now)
            case DeletePod() if result.status is ActionStatus.DONE and action.uid not in trial.expectations.gone:
                trial.expectations.deletions.add(action.uid)
            case WriteTrialStatus() if result.status is not ActionStatus.DONE and trial.status != trial.saved:
                trial.touch(now)
            case FindCheckpoint():
                self._on_checkpoint_found(trial, result, now)
            case FetchLogs():
                self._on_logs_fetched(trial, action, result)
            case _:
                pass  # a gate that was opened is seen to be

    def _on_pod_created(self, trial: TrialMachine, action: CreatePod, result: ActionResult, now: float) -> None:
        if trial.attempt != action.attempt or not trial.current.pods.lacks_some or trial.is_finished:
            return
        if result.reason is ExperimentReason.POD_REFUSED:
            self._on_pod_refused(trial, describe_refused_pod(action, result.message), now)
        elif result.status is ActionStatus.REFUSED:
            self._on_pod_rejected(trial, result.message, now)
        elif result.status is ActionStatus.FAILED and result.reason is not ExperimentReason.TEMPLATE_CHANGED:
            self._on_pod_not_made(trial, result.message, now)

    def _on_checkpoint_found(self, trial: TrialMachine, result: ActionResult, now: float) -> None:
        """Hears of the checkpoint of another experiment that a trial is to start from."""
        if not trial.is_finished:
            self._fail_without_restore_source(trial, self._restore_sources.on_action_result(trial, result, now), now)

    def _fail_without_restore_source(self, trial: TrialMachine, problem: str, now: float) -> None:
        """Ends a trial whose checkpoint to start from can't be had."""
        if problem:
            self._fail_unstarted(trial, TrialReason.CHECKPOINT_UNAVAILABLE, problem, now)

    def _fail_without_resources(self, trial: TrialMachine, now: float) -> None:
        """Ends a trial whose parameters come to limits that no pod can have."""
        if trial.is_to_run and (problem := self._processor.compute_limits(trial).problem):
            self._fail_unstarted(trial, TrialReason.INVALID_RESOURCES, problem, now)

    def _fail_unstarted(self, trial: TrialMachine, reason: TrialReason, message: str, now: float) -> None:
        """Ends a trial without a pod."""
        trial.log_decision(DecisionKind.FAIL, message, {}, now=now)
        trial.finish(TrialState.ERROR, reason, message, now)
        self._processor.scheduler.on_trial_remove(trial.index)
        self._reserve_observation(trial)

    def end_paused(self, end: PausedEnd, now: float) -> None:
        """Ends a trial that the scheduler has paused and that will never run again."""
        trial = end.trial
        self._processor.scheduler.on_trial_remove(trial.index)
        trial.log_decision(DecisionKind.STOP, end.message, end.inputs, now=now)
        run_generation = trial.status.run_generation
        trial.finish(TrialState.TERMINATED, end.reason, end.message, now)
        if trial.context.spec.evaluation is not None and end.reason in evaluations.FULL_LENGTH_REASONS:
            self._begin_evaluation(trial, run_generation, now)
        else:
            self._reserve_observation(trial)

    def _begin_evaluation(self, trial: TrialMachine, run_generation: int, now: float) -> None:
        """Has a trial evaluated whose training the scheduler has ended while it was paused."""
        chosen = evaluations.choose_evaluated(trial.status, trial.context.spec)
        if chosen is None:
            trial.log_decision(DecisionKind.FAIL, evaluations.NO_CHECKPOINT, {}, now=now)
            trial.finish(TrialState.ERROR, TrialReason.NOTHING_TO_EVALUATE, evaluations.NO_CHECKPOINT, now)
            self._reserve_observation(trial)
            return
        begun = evaluations.begin_evaluation(trial.status, chosen, now, run_generation=run_generation, was_paused=True)
        trial.begin_stage(begun, now)

    def _on_pod_refused(self, trial: TrialMachine, message: str, now: float) -> None:
        """The API server refuses the pod of the trial's next attempt: that is to blame, and no attempt."""
        trial.expectations.pod_expected_until = 0.0
        if trial.refused_since is None:
            trial.refused_since = now
        trial.explain(TrialState.PENDING, TrialReason.POD_REFUSED, clip(message))
        trial.touch(now)

    def _on_pod_rejected(self, trial: TrialMachine, message: str, now: float) -> None:
        """The pods of the trial's next attempt can no longer be created, so another trial's may be."""
        trial.expectations.pod_expected_until = 0.0
        self._follow_end(trial, reject_attempt(trial.describe_end(None), message, now), now)

    def _on_pod_not_made(self, trial: TrialMachine, message: str, now: float) -> None:
        """The pod could not be made, as far as is known: a request without an answer may have been carried out."""
        settings = trial.context.settings
        trial.expectations.pod_expected_until = now + settings.creation_timeout
        trial.explain(TrialState.PENDING, TrialReason.QUEUED, clip(f"can't create the pod: {message}"))
        trial.touch(now + settings.pending_debounce)

    def _on_logs_fetched(self, trial: TrialMachine, action: FetchLogs, result: ActionResult) -> None:
        """Hears of an ended pod's logs; after some tries the end is told without them."""
        if trial.pod is None or trial.pod.name != action.pod:
            return
        tries = trial.context.settings.log_tries
        if result.status is not ActionStatus.FAILED or self._actions.count_failures(action.key) >= tries:
            fetched = result.logs or Logs()
            if action.early:
                trial.current.printed = fetched.program_tail
            else:
                trial.current.logs = fetched

    def _take_over(self, trial: TrialMachine, now: float) -> None:
        """Lets a recreated Trial continue from what the former one left, and notifies its user."""
        if message := former_trials.take_over(trial, now):
            self._warn_of_new_one(f"{trial.name} was {message}", now)
        if trial.news:
            self._warn_of_new_one(f"{trial.name} {trial.news}", now)
            trial.news = ""

    def _warn_of_new_one(self, message: str, now: float) -> None:
        self._actions.enqueue(EmitEvent("", ExperimentReason.TRIAL_MADE_ANEW, message, warning=True), now)

    # User requests

    def _follow_user_requests(self, trial: TrialMachine, outcome: ExperimentOutcome | None, now: float) -> None:
        """What the user asks of this trial, and the experiment's end of all trials."""
        if trial.is_finished:
            return
        if outcome is not None:
            self._stop(trial, TrialReason.STOPPED_BY_EXPERIMENT, outcome.message, now)
            return
        is_paused = trial.spec.desired_state is DesiredState.PAUSED
        self._processor.hold(trial, held=is_paused and (trial.pod is None or bool(trial.context.store_prefix)))
        match trial.spec.desired_state:
            case DesiredState.STOPPED:
                self._stop(trial, TrialReason.STOPPED_BY_USER, "spec.desiredState is Stopped", now)
            case DesiredState.PAUSED:
                self._pause(trial, now)
            case DesiredState.RUNNING if trial.context.spec.suspend:
                self._suspend(trial, now)
            case DesiredState.RUNNING:
                self._resume(trial, now)
                if not trial.is_evaluated:
                    checkpoint_requests.take_up(trial, now)
        if not trial.is_finished and not self._slots.is_creating(trial, now):
            retry_requests.carry_out(trial, now)

    def _stop(self, trial: TrialMachine, reason: TrialReason, message: str, now: float) -> None:
        """Stops a trial for a reason outside of its results, whether it has a pod or not."""
        # If the experiment goes on, so does the trial; and one that is evaluated was completed for the scheduler.
        tells_scheduler = reason is not TrialReason.STOPPED_BY_EXPERIMENT and not trial.is_evaluated
        if trial.current.pods:
            if trial.status.decision is None and not trial.current.pods.is_over:
                if tells_scheduler:
                    self._processor.record_completion(trial, parse_metrics(trial.status.last_result), now)
                trial.log_decision(DecisionKind.STOP, message, {}, now=now)
                discards = self._processor.end_retention.discards(trial, DecisionAction.STOP, reason)
                trial.decide(DecisionAction.STOP, reason, message, discards=discards, now=now)
        elif not self._slots.is_creating(trial, now):
            if tells_scheduler:
                self._processor.scheduler.on_trial_remove(trial.index)
            trial.log_decision(DecisionKind.STOP, message, {}, now=now)
            trial.finish(TrialState.TERMINATED, reason, message, now)
            self._reserve_observation(trial)

    def _pause(self, trial: TrialMachine, now: float) -> None:
        """Pauses a trial; one that runs needs somewhere to put its checkpoint."""
        reason, message = TrialReason.PAUSED_BY_USER, "spec.desiredState is Paused"
        if trial.current.pods:
            if trial.context.store_prefix or trial.context.spec.suspend:
                self._give_pod_back(trial, reason, message, now)
        elif not (
            trial.phase is TrialPhase.PAUSED_BY_SCHEDULER
            or trial.status.reason == reason
            or self._slots.is_creating(trial, now)
        ):
            trial.log_decision(DecisionKind.PAUSE, message, {}, now=now)
            trial.explain(TrialState.PAUSED, reason, message)
            trial.touch(now)

    def _suspend(self, trial: TrialMachine, now: float) -> None:
        """Takes a trial's pod away while the whole experiment is suspended, store or not, as a Job's are."""
        if trial.current.pods:
            self._give_pod_back(trial, TrialReason.SUSPENDED, "spec.suspend of the experiment is true", now)

    def _give_pod_back(self, trial: TrialMachine, reason: TrialReason, message: str, now: float) -> None:
        """Pauses a trial that has a pod, once it has stored a checkpoint, or had the time to."""
        if trial.status.decision is None and not trial.current.pods.is_over:
            trial.log_decision(DecisionKind.PAUSE, message, {}, now=now)
            trial.decide(DecisionAction.PAUSE, reason, message, now=now)

    def _resume(self, trial: TrialMachine, now: float) -> None:
        if trial.phase is TrialPhase.PAUSED_BY_USER:
            trial.set(decision=None)
            trial.explain(
                TrialState.PENDING, TrialReason.QUEUED, "resumed; waiting for a free slot (maxConcurrentTrials)"
            )
            trial.touch(now)

    # The end of an attempt

    def _end_attempt(self, trial: TrialMachine, pod: Pod, now: float) -> None:
        """Takes in an attempt's end, once its logs are there and no request can make its pod once more."""
        if ("fetch-logs", trial.name) in self._actions or ("create-pod", trial.name) in self._actions:
            return
        needed = logs.find_needed_at_end(trial, pod)
        if needed is not None:
            self._actions.enqueue(needed, now, trial.name)
        else:
            final = None if revisions.has_foreign_pods(trial) else trial.read_final_commit()
            if final is not None:
                reports.take_final(trial, final, logs.read_unacked_results(trial), self._processor, now)
            self._follow_end(trial, end_attempt(trial.describe_end(final), now), now)

    def _follow_end(self, trial: TrialMachine, ending: AttemptEnding, now: float) -> None:
        """Has trial, scheduler, searcher and people hear of an attempt's end."""
        trial.follow_end(ending, now)
        for event in ending.scheduler_events:
            match event:
                case SchedulerEvent.RECONFIGURED:
                    self._processor.update_configuration(trial, now)
                case SchedulerEvent.COMPLETED:
                    self._processor.record_completion(trial, parse_metrics(trial.status.last_result), now)
                case SchedulerEvent.FAILED:
                    self._processor.scheduler.on_trial_error(trial.index)
                case SchedulerEvent.REMOVED:
                    self._processor.scheduler.on_trial_remove(trial.index)
        for emitted in ending.events:
            self._actions.enqueue(emitted, now)
        if trial.is_finished:
            self._reserve_observation(trial)

    def _reserve_observation(self, trial: TrialMachine) -> None:
        trial.set(observation_seq=self._search.reserve_seq())
        self._processor.end_retention.drop_surplus(trial)
        self._processor.record_end(trial)

    # Decisions

    def _check_deadlines(self, trial: TrialMachine, now: float) -> None:
        """Ends an attempt that was waited for long enough."""
        deadline = deadlines.find_earliest(trial, now)
        if deadline is None:
            return
        if now < deadline.due:
            self._actions.timers.set(trial.name, deadline.due)
            return
        trial.log_decision(DecisionKind.FAIL, deadline.sentence, {}, now=now)
        trial.decide(deadline.action, deadline.reason, deadline.sentence, now=now)

    def _check_refusal(self, trial: TrialMachine, now: float) -> None:
        """Ends a trial whose first pod was refused for long enough."""
        deadline = deadlines.find_of_refused_pod(trial)
        if deadline is None:
            return
        if now < deadline.due:
            self._actions.timers.set(trial.name, deadline.due)
            return
        self._fail_unstarted(trial, deadline.reason, deadline.sentence, now)
        self._actions.enqueue(EmitEvent(trial.name, deadline.reason, clip(trial.status.message), warning=True), now)

    def _make_anew(self, trial: TrialMachine, pod: Pod, now: float) -> None:
        """Replaces unscheduled pods once they need not avoid all the nodes that they were created to avoid."""
        if trial.status.decision is not None or pod.node or not pod.avoids:
            return
        due = max(self._slots.nodes.release(trial, pod.avoids, now), pod.created + trial.context.settings.requeue_wait)
        if now < due:
            self._actions.timers.set(trial.name, due)
            return
        message = f"the pod is replaced: it avoids nodes {', '.join(pod.avoids)}, but it may use some of them again"
        trial.decide(DecisionAction.REQUEUE, TrialReason.NODE_AVOIDANCE_EXPIRED, message, step=0, now=now)

    def _carry_out_decision(self, trial: TrialMachine, now: float) -> None:
        """Deletes the pods of a trial that is to stop or pause, once all that it rests on is durable."""
        doomed = trial.to_delete
        if trial.status.decision is None or not trial.is_durable or not doomed:
            return
        if ("create-pod", trial.name) in self._actions:
            return  # were its answer lost before, this request would make the deleted pod once more
        if now < (stored_by := upload_waits.compute_upload_deadline(trial, now)):
            self._actions.timers.set(trial.name, stored_by)
        elif not self._processor.is_flushed(trial):
            self._processor.barrier.waiting[trial.name] = None
        elif now < (leave_by := _leaves_by(trial)):
            self._actions.timers.set(trial.name, leave_by)
        elif ("fetch-logs", trial.name) not in self._actions:
            self._end_pods(trial, doomed, now)

    def _end_pods(self, trial: TrialMachine, doomed: list[Pod], now: float) -> None:
        """Deletes pods, after what the program has printed was read, where that tells of a bad end."""
        needed = logs.find_needed_before_deletion(trial)
        if needed is not None:
            self._actions.enqueue(needed, now, trial.name)
        else:
            for pod in doomed:
                grace = upload_waits.compute_grace_period(trial, pod)
                self._actions.enqueue(DeletePod(trial.name, pod.name, parse_pod_uid(pod.uid), grace), now, trial.name)

    # The status

    def _write(self, trial: TrialMachine, now: float) -> None:
        if trial.write_due == NEVER or trial.deleting:
            return
        if trial.write_due > now:
            self._actions.timers.set(trial.name, trial.write_due)
            return
        if not self._actions.is_ready(("write-trial", trial.name), now, trial.name):
            return
        trial.cover()
        if not trial.is_being_reset:
            self._processor.barrier.refresh_record(trial)
        status_text.finish_wording(trial, self._processor.compute_limits(trial), now)
        if trial.context.settings.records_transitions:
            trial.status = transitions.record_of_trial(trial.status, trial.saved, format_rfc3339(now))
        trial.write_due = NEVER
        if trial.status != trial.saved:
            trial.set(usage=usage.sum_up(trial.status, trial.current.pods.members, now))
            trial.expectations.statuses.append(trial.status)
            routine = durability.lacks_only_results(trial.saved, trial.status)
            self._actions.enqueue(
                WriteTrialStatus(trial.name, trial.uid, trial.seen.version, trial.status, routine), now
            )


def _leaves_by(trial: TrialMachine) -> float:
    """Until when a program in a reused pod may leave the trial by itself, as its agent asks. 0 for no time."""
    decision, ledger = trial.saved.decision, trial.saved.ledger
    if not trial.context.reuses or decision is None or not ledger:
        return 0.0
    if not (trial.current.pods.is_training or trial.current.has_reported):
        return 0.0
    if decision.action is not DecisionAction.STOP and not decision.wants_checkpoint:
        return 0.0
    return (parse_rfc3339(ledger[-1].time) or 0.0) + trial.context.settings.handover_wait
