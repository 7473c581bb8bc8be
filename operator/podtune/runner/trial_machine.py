"""One trial: what was seen of it, what its status should say, and what has to be done next.

`saved` is the status as the API server has it, `status` as it should be. Everything that acts on the world (a pod
created, deleted) follows from `saved` alone: so whatever was decided is durable before it is acted on, and a restarted
operator, which knows nothing but `saved`, goes on with the same step.

An attempt ends in four steps, each of which may be the first that a restarted operator takes: the pod is seen to be
over; its logs are fetched if they are needed; the end is classified and written; the pod is cleaned up.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from podtune.api.conditions import clip
from podtune.api.experiment import ExperimentSpec
from podtune.api.names import DesiredState, TrialReason, TrialState
from podtune.api.trial import Checkpoint, Decision, PodRef, TrialStatus
from podtune.protocol.messages import (
    CheckpointCommit,
    FinalCommit,
    ProtocolError,
    Report,
    Restored,
    Result,
    StoreProblem,
    parse_final_commit,
)
from podtune.runner import checkpoints, results
from podtune.runner.actions import Logs
from podtune.runner.records import Pod, Trial
from podtune.runner.settings import RunnerSettings
from podtune.runner.timestamps import parse_rfc3339, rfc3339

NEVER = float("inf")


@dataclass(frozen=True, slots=True)
class TrialContext:
    """What a trial shares with the other trials of its experiment."""

    spec: ExperimentSpec
    settings: RunnerSettings
    time_attribute: str
    store_prefix: str
    """`s3://bucket/prefix/<experiment uid>/`, below which checkpoints are accepted; empty without a store."""
    judge: Callable[[TrialMachine, Result, float], None]
    """Shows a result to stopper and scheduler, and records their decision."""


class TrialMachine:
    """The state of one trial. The experiment's machine feeds it facts, and asks it what it needs."""

    def __init__(self, trial: Trial, context: TrialContext) -> None:
        self.name = trial.name
        self.uid = trial.uid
        self.index = trial.spec.index
        self.spec = trial.spec
        self.generation = trial.generation
        self.version = trial.version
        self.deleting = trial.deleting
        self.saved = trial.status
        self.status = trial.status
        self.context = context
        self.pod: Pod | None = None
        self.leftovers: dict[str, Pod] = {}
        self.attempt_uid = self._recorded_attempt_uid()
        self.acked_seq = trial.status.durable_seq if self.attempt_uid else 0
        self.logs: Logs | None = None
        self.write_due = NEVER
        self.ticket = 0
        """Order in which the scheduler's record of this trial changed and is not durable yet; 0 where it is."""
        self.decision_ticket = 0
        self.decision_seq = 0
        self.act_by = 0.0
        self.restored: Restored | None = None
        self.store_problem: StoreProblem | None = None
        self.results_lost = False
        self.checkpoint_values: dict[int, str] = {}
        self.deleted_uids: set[str] = set()
        """Pods whose deletion was asked for, and not yet seen."""

    # What was seen of the Trial and its pods

    def trial_seen(self, trial: Trial) -> None:
        """Takes in a version of the Trial; what the status should say is kept where it goes beyond what was seen."""
        if trial.version < self.version:
            return
        untouched = self.status == self.saved
        self.spec, self.generation, self.version = trial.spec, trial.generation, trial.version
        self.deleting = trial.deleting
        self.saved = trial.status
        if untouched:
            self.status = trial.status
        if self.saved.scheduler == self.status.scheduler:
            self.ticket = 0
        if self.status == self.saved:
            self.write_due = NEVER

    def pod_seen(self, pod: Pod) -> None:
        """Takes in a version of one of the trial's pods."""
        if pod.attempt != self.attempt:
            if pod.gone:
                self.leftovers.pop(pod.name, None)
            else:
                self.leftovers[pod.name] = pod
            return
        known = self.pod
        if pod.gone:
            self.deleted_uids.discard(pod.uid)
        if known is not None and known.uid == pod.uid and (known.gone or pod.version < known.version):
            return
        if known is not None and known.uid != pod.uid and pod.gone:
            return
        if pod.uid != self.attempt_uid:
            self._attempt_begins(pod.uid)
        self.pod = pod

    @property
    def attempt(self) -> int:
        """Number of the current attempt: the one after the last that ended."""
        return (self.status.last_attempt.attempt if self.status.last_attempt else 0) + 1

    @property
    def is_finished(self) -> bool:
        """Whether the trial has come to its end, be it recorded already or not."""
        return self.status.state is not None and self.status.state.is_finished

    @property
    def is_durable(self) -> bool:
        """Whether the API server has all that the status should say of attempts, decisions and the trial's end."""
        return (
            self.saved.last_attempt == self.status.last_attempt
            and self.saved.decision == self.status.decision
            and (self.saved.state == self.status.state or not self.is_finished)
        )

    @property
    def has_pod(self) -> bool:
        """Whether an attempt is under way: its pod counts against maxConcurrentTrials."""
        return self.pod is not None

    def may_start_at(self) -> float:
        """When a new attempt may be started: a point in time, infinity where none is to be started."""
        waits = self.status.state in (None, TrialState.PENDING) and self.pod is None and self.status.decision is None
        if not waits or not self.is_durable or self.deleting or self.spec.desired_state is not DesiredState.RUNNING:
            return NEVER
        return parse_rfc3339(self.status.retry_time) or 0.0

    # Results

    def report(self, report: Report, now: float) -> None:
        """Takes in what the agent of the current attempt has posted; its results from the first unknown one on."""
        for result in report.results:
            if result.seq == self.acked_seq + 1:
                self.take(result, now)
        for commit in report.checkpoints:
            self.accept(commit, now)
        if report.restored is not None:
            self.restored = report.restored
        if report.store_problem != self.store_problem:
            self.store_problem = report.store_problem
            self.touch(now)

    def take(self, result: Result, now: float) -> None:
        """Takes in the next result of the current attempt, and shows it to stopper and scheduler if it is new."""
        self.acked_seq = result.seq
        spec = self.context.spec
        new = results.is_new(self.status, result, self.context.time_attribute)
        if result.checkpoint:
            value = results.number(result.metrics, spec.objective.metric)
            self.checkpoint_values[result.seq] = "" if value is None else results.show(value)
        self.status = results.with_result(self.status, result, spec.objective, self.context.time_attribute)
        if new and self.status.decision is None:
            self.context.judge(self, result, now)
        self.touch(now + self.context.settings.result_debounce)

    def accept(self, commit: CheckpointCommit, now: float) -> None:
        """Records a checkpoint of the current attempt; one from elsewhere is passed over."""
        home = f"{self.context.store_prefix}{self.name}/{self.attempt_uid}/"
        if not self.context.store_prefix or not commit.uri.startswith(home):
            return
        newest = max((c.step for c in self.status.checkpoints if c.uri.startswith(home)), default=-1)
        if commit.step <= newest:
            return
        checkpoint = Checkpoint(
            step=commit.step,
            uri=commit.uri,
            digest=commit.digest,
            metric=self.checkpoint_values.get(commit.seq, ""),
        )
        for seq in [seq for seq in self.checkpoint_values if seq <= commit.seq]:
            del self.checkpoint_values[seq]
        spec = self.context.spec
        self.status = checkpoints.accept(self.status, checkpoint, spec.checkpoints.keep, spec.objective)
        waited_for = self.status.decision is not None and commit.seq >= self.decision_seq
        self.touch(now if waited_for else now + self.context.settings.checkpoint_debounce)

    def decide(self, decision: Decision, *, seq: int, ticket: int, wait: float, now: float) -> None:
        """Records a decision that ends or pauses the current attempt.

        Args:
            decision: The decision.
            seq: A checkpoint committed with this result or a later one is waited for; 0 for none.
            ticket: The decision must not be acted on before all records up to this one are durable.
            wait: How long to wait for the checkpoint, in seconds.
            now: The present time.
        """
        self.status = self.status.model_copy(update={"decision": decision})
        self.decision_seq = seq
        self.decision_ticket = ticket
        self.act_by = now + wait if seq else now
        self.touch(now)

    def waits_for_checkpoint(self, now: float) -> bool:
        """Whether the recorded decision still waits for a checkpoint."""
        if not self.decision_seq or now >= self.act_by or self.store_problem is not None:
            return False
        home = f"{self.context.store_prefix}{self.name}/{self.attempt_uid}/"
        wanted = self.saved.decision.step if self.saved.decision else 0
        return not any(c.uri.startswith(home) and c.step >= wanted for c in self.saved.checkpoints)

    # The end of an attempt

    def final_commit(self) -> FinalCommit | None:
        """The agent's last word, None where there is none that is this attempt's."""
        if self.pod is None or not self.pod.agent_message:
            return None
        try:
            final = parse_final_commit(self.pod.agent_message)
        except ProtocolError:
            return None
        return final if final.attempt == self.pod.uid else None

    def take_final(self, final: FinalCommit, unacked: list[Result], now: float) -> None:
        """Takes in what the agent left behind: results that were never acknowledged, and late checkpoints."""
        for result in unacked:
            if result.seq == self.acked_seq + 1:
                self.take(result, now)
        if final.seq > self.acked_seq or not final.complete:
            self.results_lost = True
            if final.last is not None and final.last.seq > self.acked_seq:
                self.take(final.last, now)
        for commit in final.checkpoints:
            self.accept(commit, now)
        self.store_problem = final.store_problem
        if final.restored is not None:
            self.restored = final.restored

    def attempt_over(self) -> None:
        """The end of the current attempt is in the status: the next one begins afresh."""
        if self.pod is not None and not self.pod.gone:
            self.leftovers[self.pod.name] = self.pod
        self.pod = None
        self.logs = None
        self._attempt_begins("")

    # Writing

    def touch(self, due: float) -> None:
        """Asks for the status to be written by then."""
        self.write_due = min(self.write_due, due)

    def set(self, **changes: object) -> None:
        """Changes fields of the status."""
        self.status = self.status.model_copy(update=changes)

    def explain(self, state: TrialState, reason: TrialReason | str, message: str) -> bool:
        """Sets state, reason and message; whether that changed anything."""
        before = (self.status.state, self.status.reason, self.status.message)
        if before == (state, str(reason), message):
            return False
        self.set(state=state, reason=str(reason), message=message)
        return True

    def finish(self, state: TrialState, reason: TrialReason | str, message: str, now: float) -> None:
        """Brings the trial to its end."""
        self.explain(state, reason, clip(message))
        self.set(completion_time=rfc3339(now), retry_time=None)
        self.touch(now)

    def covering(self) -> TrialStatus:
        """The status to write: it covers all results that were taken in."""
        pod = self.status.pod
        if self.pod is not None and self.pod.uid == self.attempt_uid:
            pod = PodRef(name=self.pod.name, uid=self.pod.uid, node=self.pod.node)
        if pod == self.status.pod and self.acked_seq == self.status.durable_seq:
            return self.status
        self.set(pod=pod, durable_seq=self.acked_seq)
        return self.status

    def _recorded_attempt_uid(self) -> str:
        """The current attempt's id, if the status knows it; the last attempt's is none."""
        pod, last = self.saved.pod, self.saved.last_attempt
        return pod.uid if pod is not None and (last is None or last.uid != pod.uid) else ""

    def _attempt_begins(self, uid: str) -> None:
        self.attempt_uid = uid
        self.acked_seq = 0
        self.restored = None
        self.store_problem = None
        self.checkpoint_values.clear()
        self.decision_seq = 0
