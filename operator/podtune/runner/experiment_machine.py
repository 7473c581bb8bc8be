"""One experiment: facts in, actions out.

The machine is fed what was seen (`…_seen`, `report`, `landed`) and asked what to do (`decide`). It does no I/O, and
draws time and randomness from its arguments. All it knows comes from the objects: a machine made afresh of the
same Experiment, Trials and pods decides the same.

`decide` looks only at trials that something happened to; what it needs of the others is kept in counters and sets.
"""

from __future__ import annotations

import heapq
from collections.abc import Iterable
from dataclasses import dataclass
from enum import Enum

from podtune.api.conditions import clip
from podtune.api.experiment import ExperimentSpec
from podtune.api.model import seconds
from podtune.api.names import DesiredState, ExperimentReason, TrialReason, TrialState
from podtune.api.search_space import parse_value
from podtune.api.trial import Decision
from podtune.protocol.messages import Reply, Report
from podtune.runner import attempt_end, trial_status
from podtune.runner.actions import (
    Action,
    CreatePod,
    CreateTrial,
    DeletePod,
    EmitEvent,
    FetchLogs,
    Logs,
    Outcome,
    Propose,
    Verdict,
    WriteExperimentStatus,
    WriteTrialStatus,
)
from podtune.runner.attempt_end import Ending
from podtune.runner.cleanup import Cleanup
from podtune.runner.experiment_status import Ended
from podtune.runner.judgement import Judge
from podtune.runner.overview import Overview
from podtune.runner.proposals import Proposals, Tells
from podtune.runner.records import Experiment, Pod, Trial
from podtune.runner.results import number
from podtune.runner.retry import InFlight
from podtune.runner.settings import RunnerSettings
from podtune.runner.trial_machine import NEVER, TrialContext, TrialMachine
from podtune.tuning.schedulers import make_scheduler
from podtune.tuning.schedulers.base import Action as Course
from podtune.tuning.searchers.base import Configuration, Tell, Unfinished
from podtune.tuning.stoppers import make_experiment_stopper, make_trial_stopper
from podtune.tuning.stoppers.base import Progress


class Unaccepted(Enum):
    """Why a report is not taken in."""

    FENCED = "fenced"
    """It is of an attempt that is over, or of one that never was."""
    TOO_EARLY = "too early"
    """Its pod has not been seen yet: ask again."""


@dataclass(frozen=True, slots=True)
class Plan:
    """What to do now, and when to ask again even if nothing happens (infinity: never)."""

    actions: tuple[Action, ...]
    wake: float


class ExperimentMachine:
    """The state of one experiment with a spec that can be used."""

    def __init__(
        self, experiment: Experiment, trials: Iterable[Trial], pods: Iterable[Pod], settings: RunnerSettings
    ) -> None:
        """Makes the machine of the objects alone.

        Args:
            experiment: The Experiment; its spec must be there.
            trials: All its Trials.
            pods: All their pods.
            settings: Times and limits.
        """
        assert experiment.spec is not None  # the caller reports a spec that can't be used
        self.experiment = experiment
        self.spec: ExperimentSpec = experiment.spec
        self.settings = settings
        self._flights = InFlight(settings.api_backoff)
        self._judge = Judge(make_scheduler(self.spec), make_trial_stopper(self.spec), settings.checkpoint_wait)
        self._stopper = make_experiment_stopper(self.spec)
        self._context = self._make_context()
        self._trials: dict[str, TrialMachine] = {}
        self._dirty: dict[str, None] = {}
        self._alarms: list[tuple[float, str]] = []
        self._alarm_of: dict[str, float] = {}
        self._waiting: dict[str, None] = {}
        self._active: set[str] = set()
        self._cleanup = Cleanup(self.spec.pod_retention, settings)
        self._overview = Overview(experiment, self.spec)
        self._told: set[str] = set()
        self._actions: list[Action] = []
        self._hindrance = ""
        for trial in sorted(trials, key=lambda trial: trial.spec.index):
            self._adopt(trial)
        self._tells = Tells((m.saved.told, self._tell(m)) for m in self._trials.values() if m.saved.told is not None)
        self._told.update(m.name for m in self._trials.values() if m.saved.told is not None)
        self._proposals = Proposals(experiment.name, (m.index for m in self._trials.values()))
        for pod in pods:
            self.pod_seen(pod)

    # Facts

    def experiment_seen(self, experiment: Experiment) -> None:
        """Takes in a version of the Experiment."""
        if experiment.version < self.experiment.version:
            return
        changed = experiment.spec is not None and experiment.spec != self.spec
        self.experiment = experiment
        self._overview.experiment_seen(experiment)
        if changed and experiment.spec is not None:
            self.spec = experiment.spec
            self._judge.stopper = make_trial_stopper(self.spec)
            self._stopper = make_experiment_stopper(self.spec)
            self._context = self._make_context()
            for trial in self._trials.values():
                trial.context = self._context
                self._mark(trial.name)

    def trial_seen(self, trial: Trial) -> None:
        """Takes in a version of one of the experiment's Trials."""
        known = self._trials.get(trial.name)
        if known is not None and known.uid == trial.uid:
            known.trial_seen(trial)
            self._after_save(known)
        else:
            self._adopt(trial)
            self._proposals.trial_exists(trial.spec.index)
        self._mark(trial.name)

    def trial_gone(self, name: str) -> None:
        """A Trial was deleted: it is as if it had never been, but its number is not used again."""
        trial = self._trials.pop(name, None)
        if trial is None:
            return
        self._judge.scheduler.on_trial_remove(trial.index)
        self._overview.forget(trial)
        self._waiting.pop(name, None)
        self._active.discard(name)
        self._dirty.pop(name, None)
        self._flights.forget(name)

    def pod_seen(self, pod: Pod) -> None:
        """Takes in a version of a pod of one of the trials; one that is gone is reported with `gone` set."""
        trial = self._trials.get(pod.trial)
        if trial is not None:
            trial.pod_seen(pod)
            self._mark(trial.name)

    def report(self, trial_name: str, pod_name: str, report: Report, now: float) -> Reply | Unaccepted:
        """Takes in what an agent has posted.

        Args:
            trial_name: The trial that it reports on.
            pod_name: The pod that it was authenticated as; its UID is the report's attempt.
            report: The report.
            now: The present time.

        Returns:
            The answer, or why it was not taken in.
        """
        trial = self._trials.get(trial_name)
        if trial is None or trial.is_finished or pod_name != f"{trial.name}-{trial.attempt}":
            return Unaccepted.FENCED
        if trial.pod is None:
            return Unaccepted.TOO_EARLY
        if trial.pod.uid != report.attempt or trial.pod.is_over:
            return Unaccepted.FENCED
        trial.report(report, now)
        self._mark(trial.name)
        return self._reply(trial, report)

    def landed(self, action: Action, outcome: Outcome, now: float) -> None:
        """Hears how an action went. What it made or changed is reported as seen before this."""
        failed = outcome.verdict is not Verdict.DONE
        refused_pod = isinstance(action, CreatePod) and outcome.verdict is Verdict.REFUSED
        self._flights.land(action.key, failed=failed and not refused_pod, now=now)
        match action:
            case Propose():
                self._proposals_landed(action, outcome)
            case CreateTrial():
                self._hindrance = outcome.message if outcome.verdict is not Verdict.DONE else ""
            case CreatePod():
                self._pod_landed(action, outcome, now)
            case WriteTrialStatus():
                self._status_landed(action, outcome, now)
            case FetchLogs():
                self._logs_landed(action, outcome)
            case DeletePod():
                if not failed and (trial := self._owner_of(action)) is not None:
                    trial.deleted_uids.add(action.uid)
                self._mark_owner(action)
            case _:
                pass

    # Decisions

    def decide(self, now: float) -> Plan:
        """What has to be done now."""
        self._ring(now)
        self._plan_dirty(now)
        if self._ends(now):
            self._plan_dirty(now)
        self._start_waiting(now)
        self._propose(now)
        self._create_trials(now)
        for action in self._cleanup.due(now, self._flights):
            self._launch(action)
        self._write_experiment(now)
        actions, self._actions = tuple(self._actions), []
        return Plan(actions, self._next_wake(now))

    def _plan_dirty(self, now: float) -> None:
        dirty, self._dirty = self._dirty, {}
        for name in dirty:
            if name in self._trials:
                self._plan(self._trials[name], now)

    def _plan(self, trial: TrialMachine, now: float) -> None:
        """Takes one trial as far as it can go with what is known."""
        self._follow_wishes(trial, now)
        pod = trial.pod
        if pod is not None and pod.is_over:
            self._end_attempt(trial, now)
        elif pod is not None:
            self._check_deadline(trial, pod, now)
            trial_status.explain_pod(trial, pod, now)
            self._carry_out_decision(trial, pod, now)
        elif not trial.is_finished:
            trial_status.explain_queue(trial, now)
        self._write(trial, now)
        for leftover in self._cleanup.leftovers(trial):
            if self._ready(leftover.key, now, trial.name):
                self._launch(leftover)
        self._settle(trial)

    def _follow_wishes(self, trial: TrialMachine, now: float) -> None:
        """What the user asks of this trial, and the experiment's end of all trials."""
        if trial.is_finished:
            return
        ended = self._overview.ended
        if ended is not None:
            self._stop(trial, "STOP", TrialReason.STOPPED_BY_EXPERIMENT, ended.message, now)
            return
        match trial.spec.desired_state:
            case DesiredState.STOPPED:
                self._stop(trial, "STOP", TrialReason.STOPPED_BY_USER, "spec.desiredState is Stopped", now)
            case DesiredState.PAUSED if self._context.store_prefix or trial.pod is None:
                self._stop(trial, "PAUSE", TrialReason.PAUSED_BY_USER, "spec.desiredState is Paused", now)
            case DesiredState.RUNNING if (
                trial.status.state is TrialState.PAUSED and trial.status.reason == TrialReason.PAUSED_BY_USER
            ):
                trial.set(decision=None)
                trial.explain(TrialState.PENDING, TrialReason.QUEUED, "resumed; waits for its turn")
                trial.touch(now)
            case _:
                pass

    def _stop(self, trial: TrialMachine, action: str, reason: TrialReason, message: str, now: float) -> None:
        """Stops or pauses a trial for a reason outside of its results, whether it has a pod or not."""
        if trial.pod is not None:
            if trial.status.decision is None and not trial.pod.is_over:
                step = trial.status.iteration
                decision = Decision(action=action, reason=reason, message=message, attempt=trial.attempt, step=step)
                pause = action == "PAUSE"
                seq, wait = (1, self.settings.pause_wait) if pause else (0, 0.0)
                trial.decide(decision, seq=seq, ticket=0, wait=wait, now=now)
        elif action == "STOP":
            self._judge.scheduler.on_trial_remove(trial.index)
            trial.finish(TrialState.TERMINATED, reason, message, now)
            trial.set(told=self._tells.reserve())
        elif trial.status.state is not TrialState.PAUSED:
            trial.explain(TrialState.PAUSED, reason, message)
            trial.touch(now)

    def _end_attempt(self, trial: TrialMachine, now: float) -> None:
        needed = attempt_end.logs_needed(trial)
        if needed is not None:
            if self._ready(needed.key, now, trial.name):
                self._launch(needed)
            return
        self._after_end(trial, attempt_end.conclude(trial, now), now)

    def _after_end(self, trial: TrialMachine, ending: Ending, now: float) -> None:
        if ending.completed:
            self._judge.completed(trial, _metrics(trial.status.last_result), now)
        if ending.failed or ending.outcome.failure_class.is_disruption:
            self._judge.scheduler.on_trial_error(trial.index)
            self._launch(EmitEvent(trial.name, ending.outcome.reason, clip(trial.status.message), warning=True))
        if trial.is_finished:
            trial.set(told=self._tells.reserve())

    def _check_deadline(self, trial: TrialMachine, pod: Pod, now: float) -> None:
        """Fails a trial that can't start, or can't store its checkpoints, for longer than startDeadline."""
        if trial.status.decision is not None or not pod.started:
            return
        limit = self.spec.failures.start_deadline
        due = pod.started + seconds(limit)
        if not pod.training and pod.waiting is not None and pod.waiting.hopeless:
            reason, message = TrialReason.START_DEADLINE_EXCEEDED, f"{pod.waiting.reason}: {pod.waiting.message}"
        elif trial.store_problem is not None and trial.store_problem.permanent:
            reason, message = TrialReason.STORE_UNUSABLE, trial.store_problem.message
        else:
            return
        if now < due:
            self._alarm(trial.name, due)
            return
        message = clip(f"{message} (for longer than failures.startDeadline, {limit})", 512)
        decision = Decision(
            action="FAIL", reason=reason, message=message, attempt=trial.attempt, step=trial.status.iteration
        )
        trial.decide(decision, seq=0, ticket=0, wait=0.0, now=now)

    def _carry_out_decision(self, trial: TrialMachine, pod: Pod, now: float) -> None:
        """Deletes the pod of a trial that is to stop or pause, once all that it rests on is durable."""
        if trial.status.decision is None or not trial.is_durable or pod.deleting or pod.uid in trial.deleted_uids:
            return
        if trial.waits_for_checkpoint(now):
            self._alarm(trial.name, trial.act_by)
        elif not self._judge.may_act(trial):
            self._judge.waiting.add(trial.name)
        elif self._ready(("delete-pod", pod.name), now, trial.name):
            self._launch(DeletePod(pod.name, pod.uid))

    def _write(self, trial: TrialMachine, now: float) -> None:
        if trial.write_due == NEVER or trial.deleting:
            return
        if trial.write_due > now:
            self._alarm(trial.name, trial.write_due)
            return
        if not self._ready(("write-trial", trial.name), now, trial.name):
            return
        trial.covering()
        trial_status.finish_wording(trial, now)
        trial.write_due = NEVER
        if trial.status != trial.saved:
            self._launch(WriteTrialStatus(trial.name, trial.version, trial.status))

    def _settle(self, trial: TrialMachine) -> None:
        """Brings counters and queues up to date with a trial."""
        self._overview.count(trial)
        self._active.discard(trial.name)
        if trial.has_pod or ("create-pod", trial.name) in self._flights:
            self._active.add(trial.name)
        start_at = trial.may_start_at()
        if start_at == NEVER or trial.name in self._active:
            self._waiting.pop(trial.name, None)
        elif trial.name not in self._waiting:
            self._waiting[trial.name] = None
        self._cleanup.note(trial)

    def _write_experiment(self, now: float) -> None:
        if self.experiment.deleting or not self._ready(("write-experiment", ""), now):
            return
        status = self._overview.due(
            now, idle=self._is_over(), hindrance=self._hindrance, debounce=self.settings.experiment_debounce
        )
        if status is not None:
            self._launch(WriteExperimentStatus(self.experiment.version, status))

    # Starting trials

    def _start_waiting(self, now: float) -> None:
        """Starts attempts for waiting trials while there are places, as the scheduler picks them."""
        while self._free_places() > 0:
            ready = [name for name in self._waiting if self._may_start(name, now)]
            if not ready:
                return
            by_index = {self._trials[name].index: name for name in ready}
            chosen = self._judge.scheduler.choose(list(by_index))
            if chosen is None:
                return
            trial = self._trials[by_index[chosen]]
            self._waiting.pop(trial.name)
            self._active.add(trial.name)
            self._launch(
                CreatePod(
                    trial=trial.name,
                    trial_uid=trial.uid,
                    attempt=trial.attempt,
                    spec=trial.spec,
                    restore=tuple(reversed(trial.saved.checkpoints)),
                    iteration=trial.saved.iteration,
                )
            )

    def _may_start(self, name: str, now: float) -> bool:
        start_at = max(self._trials[name].may_start_at(), self._flights.ready_at(("create-pod", name)))
        if start_at > now:
            self._alarm(name, start_at)
            return False
        return True

    def _free_places(self) -> int:
        if self._overview.ended is not None or self.experiment.deleting:
            return 0
        return self.spec.max_concurrent_trials - len(self._active)

    def _propose(self, now: float) -> None:
        """Asks for as many configurations as there are places that no trial waits for."""
        waiting = sum(1 for name in self._waiting if self._trials[name].may_start_at() <= now)
        wanted = self._free_places() - waiting - len(self._proposals.waiting)
        left = self.spec.search.max_trials - self._proposals.made
        count = min(wanted, left, self.settings.proposal_batch)
        if count < 1 or self._proposals.exhausted or self.experiment.problem:
            return
        if self._ready(("propose", ""), now):
            unfinished = (self._unfinished(trial) for trial in self._overview.unfinished.values())
            self._launch(self._proposals.request(count, self._tells, unfinished))

    def _create_trials(self, now: float) -> None:
        if self.experiment.deleting or self._overview.ended is not None:
            return
        for number_, spec in list(self._proposals.waiting.items()):
            action = CreateTrial(self._proposals.trial_name(number_), spec)
            if self._ready(action.key, now):
                self._launch(action)

    # How actions went

    def _proposals_landed(self, action: Propose, outcome: Outcome) -> None:
        if outcome.verdict is Verdict.DONE:
            self._proposals.answered(action, outcome.proposals)
            self._hindrance = ""
        else:
            self._hindrance = f"the searcher failed: {outcome.message}"

    def _pod_landed(self, action: CreatePod, outcome: Outcome, now: float) -> None:
        trial = self._trials.get(action.trial)
        if trial is None:
            return
        if outcome.verdict is Verdict.REFUSED and trial.attempt == action.attempt and trial.pod is None:
            self._after_end(trial, attempt_end.reject(trial, outcome.message, now), now)
        elif outcome.verdict is Verdict.FAILED:
            trial.explain(TrialState.PENDING, TrialReason.QUEUED, clip(f"pod not created yet: {outcome.message}"))
            trial.touch(now + self.settings.pending_debounce)
        self._mark(trial.name)

    def _status_landed(self, action: WriteTrialStatus, outcome: Outcome, now: float) -> None:
        trial = self._trials.get(action.name)
        if trial is None:
            return
        if outcome.verdict is not Verdict.DONE:
            trial.touch(now)
        self._after_save(trial)
        self._mark(trial.name)

    def _logs_landed(self, action: FetchLogs, outcome: Outcome) -> None:
        trial = self._trials.get(action.trial)
        if trial is None or trial.pod is None or trial.pod.name != action.pod:
            return
        if outcome.verdict is not Verdict.FAILED or self._flights.failures(action.key) >= self.settings.log_tries:
            trial.logs = outcome.logs or Logs()
        self._mark(trial.name)

    def _after_save(self, trial: TrialMachine) -> None:
        """What may go on now that the API server has a trial's status."""
        if self._judge.settle(trial):
            for name in self._judge.waiting:
                self._mark(name)
            self._judge.waiting.clear()
        finished = trial.saved.state is not None and trial.saved.state.is_finished
        if finished and trial.saved.told is not None and trial.name not in self._told:
            self._told.add(trial.name)
            self._tells.durable(trial.saved.told, self._tell(trial))

    # The whole experiment

    def _ends(self, now: float) -> bool:
        """Ends the experiment when nothing is left to try, time is up, or a failure is not to be survived.

        Returns:
            Whether it came to its end just now: then the trials that are left have to be looked at.
        """
        overview = self._overview
        if overview.ended is not None:
            return False
        verdict = self._stopper.check(Progress(elapsed=now - overview.start(now)))
        if verdict.action is Course.STOP:
            overview.ended = Ended(ExperimentReason.TIME_LIMIT, verdict.message)
        elif self.spec.failures.fail_fast and overview.by_state[TrialState.ERROR]:
            overview.ended = Ended(ExperimentReason.FAIL_FAST, "a trial ended in ERROR and failFast is set", good=False)
        elif self._nothing_left():
            overview.ended = self._natural_end()
        for name in overview.unfinished if overview.ended is not None else ():
            self._mark(name)
        return overview.ended is not None

    def _nothing_left(self) -> bool:
        no_more = self._proposals.exhausted or self._proposals.made >= self.spec.search.max_trials
        return no_more and not self._proposals.waiting and self._is_over()

    def _natural_end(self) -> Ended:
        by_state = self._overview.by_state
        total = sum(by_state.values())
        if total and by_state[TrialState.ERROR] == total:
            return Ended(ExperimentReason.ALL_TRIALS_FAILED, f"all {total} trials ended in ERROR", good=False)
        if self._proposals.exhausted:
            return Ended(ExperimentReason.SPACE_EXHAUSTED, f"all {total} configurations of the space were tried")
        return Ended(ExperimentReason.TRIALS_COMPLETE, f"all {total} trials are done")

    def _is_over(self) -> bool:
        """Whether the end is reached and everything about it is durable."""
        return not self._overview.unfinished and not self._overview.undurable

    # Bookkeeping

    def _adopt(self, trial: Trial) -> None:
        machine = TrialMachine(trial, self._context)
        self._trials[trial.name] = machine
        if trial.status.scheduler:
            self._judge.scheduler.restore(machine.index, trial.status.scheduler)
        else:
            self._judge.scheduler.on_trial_add(machine.index)
        self._overview.count(machine)
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
            time_attribute=self._judge.scheduler.time_attribute,
            store_prefix=prefix,
            judge=self._judge.judge,
        )

    def _reply(self, trial: TrialMachine, report: Report) -> Reply:
        saved = {checkpoint.uri for checkpoint in trial.saved.checkpoints}
        wanted = {checkpoint.uri for checkpoint in trial.status.checkpoints}
        same_attempt = trial.saved.pod is not None and trial.saved.pod.uid == trial.attempt_uid
        decision = trial.saved.decision
        return Reply(
            acked_seq=trial.acked_seq,
            durable_seq=trial.saved.durable_seq if same_attempt else 0,
            acked_checkpoints=tuple(c.uri for c in report.checkpoints if c.uri in saved or c.uri not in wanted),
            decision="CONTINUE" if decision is None else ("PAUSE" if decision.action == "PAUSE" else "STOP"),
            should_checkpoint=trial.status.decision is not None and trial.status.decision.action == "PAUSE",
            kept=tuple(checkpoint.uri for checkpoint in trial.saved.checkpoints),
        )

    def _configuration(self, trial: TrialMachine) -> Configuration:
        written = trial.spec.parameters
        return {p.name: parse_value(p, written[p.name]) for p in self.spec.parameters if p.name in written}

    def _tell(self, trial: TrialMachine) -> Tell:
        failed = trial.saved.state is TrialState.ERROR
        metrics = _metrics(trial.saved.last_result)
        return Tell(
            number=trial.index,
            configuration=self._configuration(trial),
            value=None if failed else number(metrics, self.spec.objective.metric),
            step=trial.saved.iteration,
        )

    def _unfinished(self, trial: TrialMachine) -> Unfinished:
        return Unfinished(trial.index, self._configuration(trial))

    def _owner_of(self, action: DeletePod) -> TrialMachine | None:
        return self._trials.get(action.name.rpartition("-")[0])

    def _mark_owner(self, action: DeletePod) -> None:
        self._mark(action.name.rpartition("-")[0])

    def _mark(self, name: str) -> None:
        self._dirty[name] = None

    def _launch(self, action: Action) -> None:
        if action.key in self._flights:
            return
        self._flights.launch(action.key)
        self._actions.append(action)

    def _ready(self, key: tuple[str, str], now: float, alarm: str = "") -> bool:
        """Whether an action of this key may be asked for; if it only has to wait, an alarm is set."""
        at = self._flights.ready_at(key)
        if at > now and at != NEVER:
            self._alarm(alarm, at)
        return at <= now

    def _alarm(self, name: str, at: float) -> None:
        """Has a trial (or, with an empty name, the experiment) looked at again at a point in time."""
        if at < self._alarm_of.get(name, NEVER):
            self._alarm_of[name] = at
            heapq.heappush(self._alarms, (at, name))

    def _ring(self, now: float) -> None:
        while self._alarms and self._alarms[0][0] <= now:
            at, name = heapq.heappop(self._alarms)
            if self._alarm_of.get(name) == at:
                del self._alarm_of[name]
            if name:
                self._mark(name)

    def _next_wake(self, now: float) -> float:
        wakes = [self._alarms[0][0] if self._alarms else NEVER, self._overview.wake, self._cleanup.wake]
        deadline = self._stopper.deadline()
        if deadline is not None and self._overview.ended is None:
            wakes.append(self._overview.start(now) + deadline)
        return min(wakes)


def _metrics(shown: dict[str, str]) -> dict[str, float | int | str | bool]:
    """Reads the metrics of a status back as numbers, where they are numbers."""
    metrics: dict[str, float | int | str | bool] = {}
    for name, value in shown.items():
        try:
            metrics[name] = float(value)
        except ValueError:
            metrics[name] = value
    return metrics
