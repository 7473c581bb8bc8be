"""Passes results to stopper and scheduler, and turns their answers into decisions that the Trial records."""

from __future__ import annotations

from collections.abc import Mapping
from enum import Enum, auto

from podtune.api.names import DecisionAction, DecisionKind, TrialReason, TrialState
from podtune.api.resources.trial import MAX_RESULT_OBSERVATIONS, MAX_RUNG_OBSERVATIONS, RungObservation
from podtune.protocol.messages import Result, read_number
from podtune.runner import resources
from podtune.runner.action_queue import SOON
from podtune.runner.checkpoints.end_retention import EndRetention
from podtune.runner.experiment.ending import ExperimentEnd
from podtune.runner.experiment.status_write_throttle import StatusWriteThrottle
from podtune.runner.scheduling.exploits import ExploitOutcome, Exploits, describe_wait
from podtune.runner.scheduling.pending_queue import PendingQueue
from podtune.runner.scheduling.write_barrier import WriteBarrier
from podtune.runner.search.session import Search
from podtune.runner.trial import ledger
from podtune.runner.trial.machine import NEVER, TrialMachine
from podtune.runner.trial.phase import TrialPhase
from podtune.runner.trial.results import make_comparable, parse_metrics, show
from podtune.runner.trial.usage import measure_training
from podtune.tuning.schedulers.base import (
    MetricMissing,
    Metrics,
    Scheduler,
    SchedulerAction,
    SchedulerDecision,
    StartDecision,
)
from podtune.tuning.stoppers.trial import TrialStopper


class Begin(Enum):
    """When a trial that was picked to run next begins."""

    AT_ONCE = auto()
    """It was next in the queue, or why it begins is on record: its pod is made."""
    ONCE_WRITTEN = auto()
    """What was decided has to be durable before its pod is made."""
    NOT_YET = auto()
    """What it is to clone is not stored yet."""


class ResultProcessor:
    """Shows results to the stopper first, then to the scheduler, and has the Trials record what they say."""

    def __init__(
        self,
        scheduler: Scheduler,
        stopper: TrialStopper,
        exploits: Exploits,
        *,
        search: Search,
        queue: PendingQueue,
        end: ExperimentEnd,
        throttle: StatusWriteThrottle,
        end_retention: EndRetention,
    ) -> None:
        self.scheduler = scheduler
        self.stopper = stopper
        self.barrier = WriteBarrier(scheduler)
        self._exploits = exploits
        self._search = search
        self._queue = queue
        self._end = end
        self._throttle = throttle
        self.end_retention = end_retention
        self._start_lsn = 0
        self._held: set[int] = set()

    def add(self, trial: TrialMachine, now: float) -> None:
        """Registers a new trial with the scheduler; what that remembers about it from the start is written soon."""
        if trial.status.scheduler:
            self.scheduler.restore(trial.index, trial.status.scheduler, trial.configuration)
            return
        self.scheduler.on_trial_add(trial.index, trial.configuration)
        if self.scheduler.record(trial.index):
            self.barrier.mark_changed(trial)
            trial.touch(now + trial.context.settings.starting_debounce)

    def process(self, trial: TrialMachine, result: Result, now: float) -> None:
        """Shows a new result of a running trial to stopper and scheduler."""
        value = read_number(result.metrics, trial.context.spec.objective.metric)
        if value is not None and self._end.is_decided_by(value):
            trial.touch(now)
        elapsed = measure_training(trial.status, trial.pod, now) if self.stopper.is_timed else 0.0
        decision = self.stopper.on_result(trial.index, result.metrics, elapsed)
        trial.remark = self.stopper.find_problem(trial.index, result.metrics)
        if decision.action is SchedulerAction.STOP:
            self.record_completion(trial, result.metrics, now)
            self._decide(trial, decision, TrialReason.STOPPED_BY_CRITERION, result, now)
            return
        record = {part: dict(values) for part, values in self.stopper.record(trial.index).items()}
        if record != trial.status.stopper:
            trial.set(stopper=record)
        answer = self._ask_scheduler(trial, result, now)
        if trial.status.unheard:
            trial.remark = trial.remark or "scheduler.plugin has failed, so it decides nothing on this trial yet"
        if answer is not None:
            self._reserve_observation(trial, answer, result, now)
            self._carry_out(trial, answer, result, now)

    def show_late(self, trial: TrialMachine, result: Result, now: float) -> None:
        """Shows a result to a scheduler that could not hear of it when it came; stopper and searcher have."""
        decision = self._ask_scheduler(trial, result, now)
        if decision is not None:
            if not self._search.learns_from_results:
                self._reserve_observation(trial, decision, result, now)
            self._carry_out(trial, decision, result, now)

    def show_result_of_ended(self, trial: TrialMachine, result: Result, now: float) -> None:
        """Shows the last result of a trial that others may be compared with; of itself nothing is decided any more."""
        try:
            decision = self._show(trial, result)
        except MetricMissing:
            return  # it ended without
        if decision.recorded:
            self.barrier.write_record(trial, now)

    def _ask_scheduler(self, trial: TrialMachine, result: Result, now: float) -> SchedulerDecision | None:
        """What the scheduler makes of a result; None where it lacks a metric, and that was dealt with."""
        try:
            decision = self._show(trial, result)
        except MetricMissing as missing:
            if trial.context.spec.objective.missing == "lenient":
                trial.set(missing_metrics=trial.status.missing_metrics + 1)
            else:
                self._fail(trial, missing, result, now)
            return None
        if decision.recorded and self.scheduler.records_every_result:
            self.barrier.mark_changed(trial)
        elif decision.recorded:
            self.barrier.write_record(trial, now)
        return decision

    def _show(self, trial: TrialMachine, result: Result) -> SchedulerDecision:
        metrics = make_comparable(result.metrics, trial.context.spec.training_objective)
        return self.scheduler.on_result(trial.index, metrics, waiting=len(self._queue) + self._search.to_come)

    def _carry_out(self, trial: TrialMachine, decision: SchedulerDecision, result: Result, now: float) -> None:
        if decision.exploit is not None:
            self._exploit(trial, decision, result, now)
        else:
            self._follow(trial, decision, result, now)

    def write_delay(self, trial: TrialMachine) -> float:
        """How long a result may wait to be written: the longer, the more trials have results to be written."""
        settings = trial.context.settings
        if self.scheduler.records_every_result:
            return settings.result_debounce  # its decisions wait for that
        return self._throttle.stretch_trial_wait(settings.result_debounce, settings.throttle_above_trials)

    def check_time(self, trial: TrialMachine, now: float) -> float:
        """Stops a running trial whose time is over, whether it reports or not; returns when to check again."""
        if not self.stopper.is_timed or trial.pod is None or trial.status.decision is not None or trial.is_evaluated:
            return NEVER
        if not trial.pod.training_since or trial.pod.training_until:
            return NEVER
        elapsed = measure_training(trial.status, trial.pod, now)
        decision = self.stopper.on_time(trial.index, elapsed)
        if decision.action is not SchedulerAction.STOP:
            deadline = self.stopper.find_deadline(trial.index, elapsed)
            return NEVER if deadline is None else now + max(deadline - elapsed, SOON)
        self.record_completion(trial, parse_metrics(trial.status.last_result), now)
        trial.log_decision(DecisionKind.STOP, decision.message, decision.inputs, now=now)
        reason = TrialReason.STOPPED_BY_CRITERION
        trial.decide(DecisionAction.STOP, reason, decision.message, lsn=self.barrier.latest, now=now)
        return NEVER

    def restore_stopper(self, trial: TrialMachine) -> None:
        """Has the stopper remember what the trial's status holds of its results."""
        if not trial.is_finished:
            self.stopper.restore(trial.index, trial.status.stopper)

    def record_end(self, trial: TrialMachine) -> None:
        """Forgets what the stopper remembers about a trial that has ended."""
        self.stopper.forget(trial.index)
        trial.set(stopper={})

    def record_completion(self, trial: TrialMachine, metrics: Metrics, now: float) -> None:
        """Tells the scheduler that a trial has completed."""
        if self.scheduler.on_trial_complete(
            trial.index, make_comparable(metrics, trial.context.spec.training_objective)
        ):
            self.barrier.write_record(trial, now)

    def start(self, trial: TrialMachine, start: StartDecision, now: float) -> Begin:
        """Records that the scheduler has picked a trial to run next."""
        resumes = trial.phase is TrialPhase.PAUSED_BY_SCHEDULER
        exploited: ExploitOutcome | None = None
        if resumes and start.exploit is not None:
            exploited = self._exploits.carry_out(
                trial, start.exploit, start.message, start.inputs, now=now, step=trial.status.iteration
            )
        has_reason = bool(start.message) and exploited is None
        if has_reason and not resumes and ledger.tells_of_start(trial.status):
            has_reason = False  # it was picked by an operator that came no further than to write that down
        if has_reason:
            trial.log_decision(
                DecisionKind.PROMOTE if resumes else DecisionKind.START, start.message, start.inputs, now=now
            )
        if start.recorded or exploited is not None:
            self.barrier.write_record(trial, now)
            self._start_lsn = self.barrier.latest
        if trial.status.exploit is not None:
            trial.explain(TrialState.PAUSED, TrialReason.PAUSED_BY_SCHEDULER, describe_wait(trial.status.exploit))
            return Begin.NOT_YET
        if not resumes and not start.recorded and not has_reason:
            trial.decision_lsn = self._start_lsn  # it was chosen after those that are
            return Begin.AT_ONCE
        message = trial.status.ledger[-1].message if exploited is ExploitOutcome.SKIPPED else start.message
        trial.resume(message or "continues; its pod is created next", lsn=self.barrier.latest, now=now)
        return Begin.ONCE_WRITTEN

    def continue_exploit(self, trial: TrialMachine, now: float) -> float:
        """Continues with an exploit that waits for its donor's checkpoint; returns when to check again."""
        outcome = self._exploits.continue_waiting(trial, now)
        if outcome is ExploitOutcome.WAITS:
            return self._exploits.find_deadline(trial) or NEVER
        if outcome is not None:
            self.barrier.write_record(trial, now)
            trial.decision_lsn = self.barrier.latest
        return NEVER

    def list_waiting_for(self, donor: TrialMachine) -> tuple[str, ...]:
        """The trials to check when the state of their donor has changed."""
        return self._exploits.list_waiting_for(donor)

    def compute_limits(self, trial: TrialMachine) -> resources.TrialLimits:
        """The resource limits of a trial's next attempt, or present one; evaluations have those of their template."""
        if trial.is_evaluated:
            return resources.CONTAINER_LIMITS
        return self._compose_limits(trial, trial.saved.limits)

    def choose_own_limits(self, trial: TrialMachine) -> dict[str, str]:
        """The limits that a trial's next attempt has for itself."""
        if trial.is_evaluated or (not trial.spec.limits and trial.saved.raised_memory is None):
            return {}
        without = self._compose_limits(trial, {}).limits
        return resources.choose_own_limits(trial.context.spec, without, trial.spec, trial.saved)

    def _compose_limits(self, trial: TrialMachine, own: Mapping[str, str]) -> resources.TrialLimits:
        spec = trial.context.spec
        if not spec.scheduler.resources and not spec.trial_template.has_limits and not own:
            return resources.CONTAINER_LIMITS
        return resources.compose_limits(spec, trial.configuration, self.scheduler.rungs_passed(trial.index), own)

    def hold(self, trial: TrialMachine, *, held: bool) -> None:
        """Tells the scheduler of a user's pause, or of its end, once."""
        held = held and not trial.is_evaluated
        if held and trial.index not in self._held:
            self._held.add(trial.index)
            self.scheduler.on_trial_hold(trial.index)
        elif not held and trial.index in self._held:
            self._held.discard(trial.index)
            self.scheduler.on_trial_release(trial.index)

    def update_configuration(self, trial: TrialMachine, now: float) -> None:
        """The trial's configuration is another one: a user has changed it, or an exploit was undone."""
        self.scheduler.on_configuration(trial.index, trial.configuration)
        self.barrier.write_record(trial, now)

    def on_status_saved(self, trial: TrialMachine) -> bool:
        """The API server has a trial's status; whether a record became durable, so that decisions may be due."""
        return self.barrier.on_status_saved(trial)

    def is_flushed(self, trial: TrialMachine) -> bool:
        """Whether all records that what was decided on the trial rests on are durable."""
        return self.barrier.is_flushed(trial.decision_lsn)

    def _reserve_observation(
        self, trial: TrialMachine, decision: SchedulerDecision, result: Result, now: float
    ) -> None:
        """Reserves a sequence number for a value that the searcher learns from: each, or those at rungs.

        A value at a rung is written at once. Of all results that would be a write each, so they wait for others; not
        for long, because the searcher may only be told of them, and of ends with higher numbers, when they are written.
        """
        value = read_number(result.metrics, trial.context.spec.objective.metric)
        if value is None:
            return
        search, observed = self._search, trial.status.rung_observations
        if search.learns_from_results:
            step, limit, wait = result.step, MAX_RESULT_OBSERVATIONS, trial.context.settings.observation_wait / 2
        elif search.learns_from_rungs and decision.milestone is not None:
            step, limit, wait = decision.milestone, MAX_RUNG_OBSERVATIONS, 0.0
        else:
            return
        if len(observed) < limit:
            observation = RungObservation(seq=search.reserve_seq(), step=step, value=show(value))
            trial.set(rung_observations=[*observed, observation])
            trial.touch(now + wait)

    def _follow(self, trial: TrialMachine, decision: SchedulerDecision, result: Result, now: float) -> None:
        match decision.action:
            case SchedulerAction.STOP:
                self.record_completion(trial, result.metrics, now)
                reason = TrialReason.MAX_TIME_REACHED if decision.full else TrialReason.STOPPED_BY_SCHEDULER
                self._decide(trial, decision, reason, result, now)
            case SchedulerAction.PAUSE:
                self._decide(trial, decision, TrialReason.PAUSED_BY_SCHEDULER, result, now)
            case SchedulerAction.CONTINUE:
                if decision.message:
                    trial.log_decision(
                        DecisionKind.CONTINUE, decision.message, decision.inputs, now=now, step=result.step
                    )
                if decision.wants_checkpoint and not result.checkpoint:
                    trial.current.wanted_step = result.step

    def _exploit(self, trial: TrialMachine, decision: SchedulerDecision, result: Result, now: float) -> None:
        """Replaces what the trial has learnt by a clone of the donor; with nothing to clone, the trial continues.

        If the donor's checkpoint is not stored yet, the trial is paused with its own checkpoint, which it may have to
        continue from.
        """
        assert decision.exploit is not None  # the caller has looked
        outcome = self._exploits.carry_out(
            trial, decision.exploit, decision.message, decision.inputs, now=now, step=result.step
        )
        self.barrier.write_record(trial, now)
        if outcome is ExploitOutcome.SKIPPED:
            return
        awaited = trial.status.exploit
        message = decision.message if awaited is None else describe_wait(awaited)
        reason, action = TrialReason.PAUSED_BY_SCHEDULER, DecisionAction(decision.action)
        trial.decide(action, reason, message, step=result.step, lsn=self.barrier.latest, now=now)

    def _fail(self, trial: TrialMachine, missing: MetricMissing, result: Result, now: float) -> None:
        trial.log_decision(DecisionKind.FAIL, str(missing), {}, now=now, step=result.step)
        reason, lsn = TrialReason.METRIC_MISSING, self.barrier.latest
        trial.decide(DecisionAction.FAIL, reason, str(missing), step=result.step, lsn=lsn, now=now)

    def _decide(
        self, trial: TrialMachine, decision: SchedulerDecision, reason: TrialReason, result: Result, now: float
    ) -> None:
        trial.log_decision(DecisionKind(decision.action), decision.message, decision.inputs, now=now, step=result.step)
        action, lsn = DecisionAction(decision.action), self.barrier.latest
        discards = self.end_retention.discards(trial, action, reason)
        trial.decide(action, reason, decision.message, step=result.step, lsn=lsn, discards=discards, now=now)
