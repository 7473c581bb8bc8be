"""One trial: what was observed of it, what its status should say, and what to do next.

`saved` is the status as the API server has it, `status` as it should be. Everything that acts on the world (a pod
created or deleted) follows from `saved` alone. So every decision is durable before it is acted on, and a restarted
operator, which knows only `saved`, continues with the same step.

Each attempt has its own `AttemptState`. The trial's `TrialPhase`, its position between creation and end, is derived
from `status` and the attempt's pods.

An attempt ends in four steps, and a restarted operator may begin with any of them: observe that the pod has ended;
fetch its logs if needed; classify the end and write it; clean up the pod.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

from podtune.api.conditions import clip, find_condition
from podtune.api.names import ConditionType, DecisionAction, DecisionKind, DesiredState, TrialReason, TrialState
from podtune.api.resources.experiment import ExperimentSpec
from podtune.api.resources.trial import MAX_DECISION_MESSAGE, Decision, PodRef, TrialSpec, TrialStatus
from podtune.api.tuning.search_space import parse_configuration
from podtune.protocol.assignment import format_attempt_folder, parse_attempt_number, parse_pod_uid
from podtune.protocol.fields import ProtocolError
from podtune.protocol.messages import FinalCommit, parse_final_commit
from podtune.runner import resources
from podtune.runner.attempts.ending import AttemptEnding, EndedAttempt
from podtune.runner.attempts.pods import AttemptPods, format_pod_name
from podtune.runner.attempts.state import AttemptState
from podtune.runner.expectations import Expectations
from podtune.runner.records import Pod, Trial
from podtune.runner.scheduling import clones
from podtune.runner.settings import RunnerSettings
from podtune.runner.timestamps import format_rfc3339, parse_rfc3339
from podtune.runner.trial import durability, ledger, parameters
from podtune.runner.trial.ledger import DecisionInputs
from podtune.runner.trial.phase import STARTABLE, WAITING_FOR_PODS, TrialPhase, find_phase
from podtune.tuning.searchers.base import Attributes, Configuration

NEVER = float("inf")


@dataclass(frozen=True, slots=True)
class TrialContext:
    """What a trial shares with the other trials of its experiment."""

    spec: ExperimentSpec
    settings: RunnerSettings
    time_attribute: str
    run_generation: int
    """How many times the experiment has resumed after an end."""
    store_prefix: str
    """`s3://bucket/prefix/<experiment uid>/`, below which checkpoints are accepted; empty without a store."""
    replicas: int = 1
    """How many pods an attempt has."""
    reuses: bool = False
    """Whether attempts share pods, one after the other."""
    revision: str = ""
    """The present revision of the trial template."""
    first_revision: str = ""
    """That of trials whose status names none."""
    curve_metrics: tuple[str, ...] = ()
    """What learning curves show: that by which trials are compared while they train."""


class TrialMachine:
    """The state of one trial. The experiment's machine feeds it what was seen, and asks it what it needs."""

    def __init__(self, trial: Trial, context: TrialContext, expectations: Expectations | None = None) -> None:
        self.name = trial.name
        self.uid = trial.uid
        self.index = trial.spec.index
        self.seen = trial
        """The Trial as it was last seen."""
        self.status = trial.status
        """Its status as it should be."""
        self.context = context
        self.expectations = expectations or Expectations()
        uid = self._read_attempt_uid()
        pods, acked_seq = AttemptPods(self.replicas), trial.status.durable_seq if uid else 0
        self.current = AttemptState(pods, uid=uid, acked_seq=acked_seq)
        self.leftovers: dict[str, Pod] = {}
        """Pods of earlier attempts."""
        self.write_due = NEVER
        self.decision_lsn = 0
        self.results_lost = False
        self.news = ""
        """What was found of a former Trial, for an Event."""
        self.remark = ""
        """The problem with its last result despite which the trial continues."""
        self.refusal = ""
        """Why what its user has changed of its configuration can't be: it does not start before that is corrected."""
        self.refused_since = _find_refusal_time(trial.status)
        """Since when the API server has refused the pod of its next attempt; None where it has not."""

    # What was seen of the Trial and its pods

    @property
    def spec(self) -> TrialSpec:
        """What is asked for."""
        return self.seen.spec

    @property
    def saved(self) -> TrialStatus:
        """Its status as the API server has it."""
        return self.seen.status

    @property
    def deleting(self) -> bool:
        """Whether the Trial is being deleted."""
        return self.seen.deleting

    @property
    def phase(self) -> TrialPhase:
        """Where it is between its creation and its end."""
        return find_phase(self.status, self.current.pods)

    @property
    def is_evaluated(self) -> bool:
        """Whether its training has ended, and its attempts are those of the evaluation."""
        return self.status.evaluation is not None

    @property
    def replicas(self) -> int:
        """How many pods an attempt of the present stage has."""
        return 1 if self.is_evaluated else self.context.replicas

    @property
    def configuration(self) -> Configuration:
        """The values of its parameters as it runs with them now, in the manifest's order."""
        return parse_configuration(self.context.spec.parameters, parameters.find_effective(self.spec, self.status))

    @property
    def attributes(self) -> Attributes:
        """What its searcher has to know again of the proposal."""
        return self.spec.proposal.attributes if self.spec.proposal is not None else {}

    @property
    def pod(self) -> Pod | None:
        """The pod that leads the current attempt; the only one, unless that is a gang."""
        return self.current.pods.leader

    @property
    def limits_problem(self) -> str:
        """What is wrong with the limits that its user has set: it does not train before that is corrected."""
        roles = self.context.spec.trial_template.role_names
        limits = {} if self.is_evaluated else self.spec.limits
        return resources.find_limits_problem(limits, roles) if limits else ""

    @property
    def pods(self) -> tuple[Pod, ...]:
        """All pods as they were last seen."""
        return (*self.leftovers.values(), *self.current.pods)

    def observe_trial(self, trial: Trial) -> bool:
        """Takes in a version of the Trial.

        Returns:
            Whether its status is one that this machine knows or wrote. If not, somebody else acts on the trial too,
            and what this machine makes of it is worth nothing.
        """
        if trial.version <= self.seen.version:
            return True
        is_known = trial.status == self.saved or trial.status in self.expectations.statuses
        self.expectations.statuses.clear()  # any that is still on its way is for an older version, and will be refused
        self.seen = trial
        if self.status == self.saved:
            self.write_due = NEVER
        return is_known

    def owns(self, pod: Pod) -> bool:
        """Whether a pod is this trial's, not one of an earlier trial of the same name."""
        return pod.trial_uid in ("", self.uid)

    def observe_pod(self, pod: Pod) -> None:
        """Takes in a version of one of the trial's pods."""
        if pod.uid in self.expectations.gone and not pod.gone:
            return
        if pod.gone:
            self.expectations.gone.add(pod.uid)
            self.expectations.deletions.discard(parse_pod_uid(pod.uid))
        if pod.attempt == self.attempt and not self.is_finished:
            self._observe_attempt_pod(pod)
        elif not pod.gone:
            self._observe_leftover(pod)
        elif (known := self.leftovers.get(pod.name)) is not None and known.uid == pod.uid:
            del self.leftovers[pod.name]

    def _observe_attempt_pod(self, pod: Pod) -> None:
        known = self.current.pods.find_pod(pod.rank)
        if known is not None and pod.version < known.version:
            if pod.uid != known.uid or not pod.gone:
                return
            pod = replace(known, gone=True)
        if known is not None and known.uid != pod.uid and pod.gone:
            return
        if pod.rank == 0 and pod.uid != self.current.uid:
            self.current = AttemptState(self.current.pods, uid=pod.uid)
        self.current.pods = self.current.pods.put_pod(pod)
        if not self.current.pods.lacks_some:
            self.expectations.pod_expected_until = 0.0
            self.refused_since = None

    def _observe_leftover(self, pod: Pod) -> None:
        known = self.leftovers.get(pod.name)
        if known is None or known.uid != pod.uid or known.version <= pod.version:
            self.leftovers[pod.name] = pod

    @property
    def lacks_recorded_pod(self) -> bool:
        """Whether the status names a pod of the current attempt that has not been seen."""
        return self.pod is None and bool(self.current.uid or self.recorded_pod) and self.saved.pod is not None

    def miss_pods(self) -> None:
        """All existing pods have been observed: a started attempt has lost those that are not among them."""
        recorded = self.saved.pod
        if self.lacks_recorded_pod and recorded is not None:
            self._miss_pod(0, recorded.name, recorded.uid, recorded.node)
        if self.current.pods.has_begun or self._ends_before_it_has_begun:
            for rank in range(self.current.pods.replicas):
                if self.current.pods.find_pod(rank) is None:
                    self._miss_pod(rank, format_pod_name(self.name, self.attempt, rank, self.current.pods.replicas))

    @property
    def _ends_before_it_has_begun(self) -> bool:
        """Whether a gang is given up whose pods are behind their gate: those that are gone are not made again."""
        decision = self.saved.decision
        is_over = decision is not None and decision.attempt == self.attempt and not self.is_finished
        return is_over and self.replicas > 1

    def _miss_pod(self, rank: int, name: str, uid: str = "", node: str = "") -> None:
        lost = Pod(
            name=name,
            uid=uid,
            trial=self.name,
            attempt=self.attempt,
            gone=True,
            node=node,
            training=self.saved.state is TrialState.RUNNING,
            rank=rank,
            revision=self.saved.revision,
            own_limits=resources.write_own_limits(self.saved.limits),
        )
        self.current.pods = self.current.pods.put_pod(lost)

    @property
    def attempt(self) -> int:
        """Number of the current attempt: the one after the last that ended."""
        return (self.status.last_attempt.attempt if self.status.last_attempt else 0) + 1

    @property
    def is_finished(self) -> bool:
        """Whether the trial has ended, recorded or not."""
        return self.status.state is not None and self.status.state.is_finished

    @property
    def awaits_restore_source(self) -> bool:
        """Whether the checkpoint that its user has it start from is still to be found."""
        return clones.awaits_restore_source(self.spec, self.status)

    @property
    def awaits_takeover(self) -> bool:
        """Whether it was recreated and has not recorded yet, as the first entry of its ledger, what it takes over."""
        return self.spec.former is not None and not self.saved.ledger

    @property
    def finds_checkpoints(self) -> bool:
        """Whether its attempt looks in the bucket for what a deleted Trial has left, and has not told what it found.

        The pods of a gang look one by one, and might not find the same.
        """
        former, status = self.spec.former, self.status
        may_find = former is not None and former.find_checkpoints and status.former is None and not status.checkpoints
        return may_find and bool(self.context.store_prefix) and self.context.replicas == 1

    @property
    def is_being_reset(self) -> bool:
        """Whether it had ended before its experiment resumed: the scheduler knows it as ended."""
        return self.saved.state is not None and self.saved.state.is_finished and not self.is_finished

    @property
    def is_durable(self) -> bool:
        """Whether the API server has all that the status should say of attempts, decisions, exploits and the end."""
        return durability.is_durable(self.saved, self.status)

    @property
    def recorded_pod(self) -> str:
        """UID of the warm pod that the current attempt has on record; empty where it has none."""
        return self._find_warm_pod_uid(self.saved.pod)

    @property
    def claimed_pod(self) -> str:
        """UID of the warm pod that the current attempt has, or is to have; empty where it has none."""
        if self.pod is not None:
            return parse_pod_uid(self.pod.uid)
        return self._find_warm_pod_uid(self.status.pod)

    @property
    def is_claiming(self) -> bool:
        """Whether its claim on a warm pod is being written."""
        return self.pod is None and bool(self.claimed_pod) and self.claimed_pod != self.recorded_pod

    def _find_warm_pod_uid(self, pod: PodRef | None) -> str:
        if not self.context.reuses or pod is None or self.is_finished or parse_attempt_number(pod.uid) != self.attempt:
            return ""
        return parse_pod_uid(pod.uid)

    @property
    def occupies_slot(self) -> bool:
        """Whether it has pods that count against maxConcurrentTrials: current ones, or some that still run."""
        return bool(self.current.pods) or any(not pod.is_over for pod in self.leftovers.values())

    @property
    def is_to_run(self) -> bool:
        """Whether it lacks pods and is to get them."""
        return self._is_wanted and self.phase in WAITING_FOR_PODS

    @property
    def _is_wanted(self) -> bool:
        return not self.deleting and self.spec.desired_state is DesiredState.RUNNING

    def find_start_time(self) -> float:
        """When a new attempt may start; infinity if none is to start.

        For a trial that the scheduler has paused, it is the time from which that may pick it.
        """
        if (
            (self.refusal and not self.is_evaluated)
            or self.limits_problem
            or self.awaits_restore_source
            or self.awaits_takeover
            or self.status.exploit is not None
            or not (self._is_wanted and self.phase in STARTABLE and self.current.pods.lacks_some)
            or not self.is_durable
            or not durability.is_start_durable(self.saved, self.status)
        ):
            return NEVER
        return parse_rfc3339(self.status.retry_time) or 0.0

    # Decisions

    def decide(
        self,
        action: DecisionAction,
        reason: TrialReason,
        message: str,
        *,
        now: float,
        step: int | None = None,
        ranks: Sequence[int] = (),
        lsn: int = 0,
        discards: bool = False,
        restore_step: int | None = None,
    ) -> None:
        """Records a decision that ends or pauses the current attempt.

        Args:
            action: What to do with the attempt.
            reason: Why, in one word.
            message: Why, in a sentence.
            now: The present time.
            step: The iteration of the result that it was taken on; the last one unless it is said.
            ranks: Of an END: the ranks whose pods had ended, or were being taken away.
            lsn: The decision must not be acted on before all records up to this one are durable.
            discards: Whether the trial keeps none of its checkpoints, and stores no more.
            restore_step: Iteration of the earlier checkpoint that the trial goes back to; None where it doesn't.
        """
        decision = Decision(
            action=action,
            reason=reason,
            message=clip(message, MAX_DECISION_MESSAGE),
            attempt=self.attempt,
            step=self.status.iteration if step is None else step,
            seq=self.current.acked_seq,
            time=format_rfc3339(now),
            ranks=list(ranks),
            discards=discards,
            restore_step=restore_step,
        )
        self.set(decision=decision)
        if discards:
            self.set(checkpoints=[], checkpoint=None)
        self.decision_lsn = lsn
        self.touch(now)

    def claim(self, pod: PodRef, now: float) -> None:
        """Has a warm pod run the next attempt, as soon as that is on record."""
        self.set(pod=pod, durable_seq=0)
        self.explain(TrialState.PENDING, TrialReason.STARTING, f"pod {pod.name} runs it next")
        self.touch(now)

    def resume(self, message: str, *, lsn: int, now: float) -> None:
        """The scheduler has picked it: it is made to run as soon as that and all records up to `lsn` are durable."""
        self.set(decision=None)
        self.explain(TrialState.PENDING, TrialReason.QUEUED, clip(message))
        self.decision_lsn = lsn
        self.touch(now)

    def log_decision(
        self, action: DecisionKind, message: str, inputs: DecisionInputs, *, now: float, step: int | None = None
    ) -> None:
        """Puts a decision into the ledger; it is written with what follows from it."""
        at = self.status.iteration if step is None else step
        attempt = self.status.attempt if self.pod is None else self.attempt
        self.status = ledger.enter(self.status, action, message, inputs, now=now, attempt=attempt, step=at)

    # The end of an attempt

    @property
    def to_delete(self) -> list[Pod]:
        """The pods of the current attempt that still run and whose deletion nobody has asked for."""
        return [
            pod
            for pod in self.current.pods
            if not (pod.is_over or pod.deleting or parse_pod_uid(pod.uid) in self.expectations.deletions)
        ]

    def read_final_commit(self) -> FinalCommit | None:
        """The agent's last word, None where there is none that is this attempt's."""
        if self.pod is None or not self.pod.agent_message:
            return None
        try:
            final = parse_final_commit(self.pod.agent_message)
        except ProtocolError:
            return None
        return final if final.attempt == self.pod.uid else None

    def describe_end(self, final: FinalCommit | None) -> EndedAttempt:
        """What is known of the current attempt, which has ended; `final` is its agent's last word, and taken in."""
        return EndedAttempt(
            trial=self.seen,
            status=self.status,
            number=self.attempt,
            pods=self.current.pods,
            spec=self.context.spec,
            run_generation=self.context.run_generation,
            home=self.home,
            said_done=final is not None and final.done,
            unstored=final.unstored if final is not None else self.expectations.find_unstored(self.current.uid),
            store_problem=self.current.store_problem,
            results_lost=self.results_lost,
            log_tail=self.current.log_tail,
            records_times=self.context.settings.records_times,
        )

    def follow_end(self, ending: AttemptEnding, now: float) -> None:
        """The current attempt has ended: the next one begins with a clean state."""
        if not self.context.reuses:  # else the pod is not the trial's to clean up
            self.leftovers.update((pod.name, pod) for pod in self.current.pods if not pod.gone)
        self.status = ending.status
        self.current = AttemptState(AttemptPods(self.replicas))
        self.touch(now)

    def begin_stage(self, status: TrialStatus, now: float) -> None:
        """A trial without pods begins another stage, whose attempts may have another number of them."""
        self.status = status
        self.current = AttemptState(AttemptPods(self.replicas))
        self.touch(now)

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
        self.set(
            completion_time=format_rfc3339(now),
            retry_time=None,
            clone=None,
            exploit=None,
            run_generation=self.context.run_generation,
        )
        self.touch(now)

    def cover(self) -> None:
        """Has the status say which results it covers: all that were taken in."""
        pod = self.status.pod
        if self.pod is not None and self.current.pods.has_begun:
            since = pod.since if pod is not None and pod.uid == self.pod.uid else ""
            pod = PodRef(name=self.pod.name, uid=self.pod.uid, node=self.pod.node, since=since)
        covered = self.current.acked_seq - len(self.current.held)
        if pod != self.status.pod or covered != self.status.durable_seq:
            self.set(pod=pod, durable_seq=covered)

    @property
    def pod_name(self) -> str:
        """Name of the pod that leads the current attempt."""
        return format_pod_name(self.name, self.attempt, 0, self.replicas)

    @property
    def folder(self) -> str:
        """What the URIs of its checkpoints start with; empty without a store."""
        prefix = self.context.store_prefix
        return f"{prefix}{self.name}/" if prefix else ""

    @property
    def home(self) -> str:
        """Where the checkpoints of the current attempt are; empty without a store."""
        return f"{self.folder}{format_attempt_folder(self.current.uid)}/" if self.folder else ""

    def _read_attempt_uid(self) -> str:
        """The current attempt's id, if the status knows it."""
        pod = self.saved.pod
        is_current = bool(self.recorded_pod) if self.context.reuses else pod is not None and pod.name == self.pod_name
        return pod.uid if pod is not None and is_current else ""


def _find_refusal_time(status: TrialStatus) -> float | None:
    accepted = find_condition(status.conditions, ConditionType.POD_ACCEPTED)
    return parse_rfc3339(accepted.last_transition_time) if accepted and accepted.status == "False" else None
