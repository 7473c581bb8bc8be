"""What stopper and scheduler say to a result, turned into a decision that the Trial records."""

from __future__ import annotations

from podtune.api.conditions import clip
from podtune.api.names import TrialReason
from podtune.api.trial import Decision
from podtune.protocol.messages import Result
from podtune.runner.trial_machine import TrialMachine
from podtune.tuning.schedulers.base import Action, MetricMissing, Metrics, Record, Scheduler, Verdict
from podtune.tuning.stoppers.base import TrialStopper

MAX_MESSAGE = 512


class Judge:
    """Shows results to the stopper first, then to the scheduler, and keeps track of what it has to remember.

    A scheduler compares trials, so a decision on one trial rests on the records of others. Each change of a record
    gets a ticket, in order; a decision is acted on only when all records with a ticket up to its own are durable.
    """

    def __init__(self, scheduler: Scheduler, stopper: TrialStopper) -> None:
        self.scheduler = scheduler
        self.stopper = stopper
        self._ticket = 0
        self._unsaved: dict[str, list[tuple[int, Record]]] = {}
        self.waiting: dict[str, None] = {}
        """Trials whose decision waits for records to become durable."""

    def judge(self, trial: TrialMachine, result: Result, now: float) -> None:
        """Shows a new result of a running trial to stopper and scheduler."""
        verdict = self.stopper.on_result(trial.index, result.metrics)
        if verdict.action is Action.STOP:
            self.completed(trial, result.metrics, now)
            self._decide(trial, verdict, TrialReason.STOPPED_BY_CRITERION, result, now)
            return
        try:
            verdict = self.scheduler.on_result(trial.index, result.metrics)
        except MetricMissing as missing:
            failed = Decision(
                action="FAIL",
                reason=TrialReason.METRIC_MISSING,
                message=clip(str(missing), MAX_MESSAGE),
                attempt=trial.attempt,
                step=result.step,
            )
            trial.decide(failed, ticket=self._ticket, now=now)
            return
        if verdict.recorded:
            self._record(trial, now)
        if verdict.action is Action.STOP:
            self.completed(trial, result.metrics, now)
            reason = TrialReason.MAX_TIME_REACHED if verdict.full else TrialReason.STOPPED_BY_SCHEDULER
            self._decide(trial, verdict, reason, result, now)
        elif verdict.action is Action.PAUSE:
            self._decide(trial, verdict, TrialReason.PAUSED_BY_SCHEDULER, result, now)

    def completed(self, trial: TrialMachine, metrics: Metrics, now: float) -> None:
        """Tells the scheduler of a trial's good end."""
        if self.scheduler.on_trial_complete(trial.index, metrics):
            self._record(trial, now)

    def saved(self, trial: TrialMachine) -> bool:
        """The API server has a trial's status; whether a record became durable, so that decisions may be due."""
        records = self._unsaved.get(trial.name, [])
        durable = [place for place, (_, record) in enumerate(records) if record == trial.saved.scheduler]
        if not durable:
            return False
        del records[: durable[-1] + 1]
        if not records:
            del self._unsaved[trial.name]
        return True

    def may_act(self, trial: TrialMachine) -> bool:
        """Whether all records that the trial's decision rests on are durable."""
        return all(records[0][0] > trial.decision_ticket for records in self._unsaved.values())

    def _record(self, trial: TrialMachine, now: float) -> None:
        record = {name: dict(values) for name, values in self.scheduler.record(trial.index).items()}
        trial.set(scheduler=record)
        self._ticket += 1
        self._unsaved.setdefault(trial.name, []).append((self._ticket, record))
        trial.touch(now)

    def _decide(self, trial: TrialMachine, verdict: Verdict, reason: TrialReason, result: Result, now: float) -> None:
        decision = Decision(
            action=verdict.action,
            reason=reason,
            message=clip(verdict.message, MAX_MESSAGE),
            attempt=trial.attempt,
            step=result.step,
        )
        trial.decide(decision, ticket=self._ticket, wait=self._wait(trial, verdict, result), now=now)

    def _wait(self, trial: TrialMachine, verdict: Verdict, result: Result) -> float:
        """How long a checkpoint is waited for: the one that the result carries, and before a pause any new one."""
        if not trial.context.store_prefix:
            return 0.0
        if verdict.action is Action.PAUSE:
            return trial.context.settings.pause_wait
        return trial.context.settings.checkpoint_wait if result.checkpoint else 0.0
