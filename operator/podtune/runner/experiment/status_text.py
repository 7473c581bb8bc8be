"""The text of an experiment's status: state, message and conditions."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from podtune.api.conditions import Condition, clip, find_condition, set_condition
from podtune.api.names import ConditionType, ExperimentReason, ExperimentState, TrialState
from podtune.api.resources.experiment import (
    AvoidedNode,
    BestTrial,
    ExperimentStatus,
    ParetoTrial,
    PodRefusal,
    ProposalRequest,
    TrialCounts,
)
from podtune.api.resources.storage_jobs import StorageStatus
from podtune.api.resources.trial_template import TemplateStatus
from podtune.runner import transitions
from podtune.runner.records import Experiment


@dataclass(frozen=True, slots=True)
class ExperimentOutcome:
    """Why no more trials are made, and whether that is a good end."""

    reason: ExperimentReason
    message: str
    good: bool = True


@dataclass(frozen=True, slots=True)
class ProposalBlocker:
    """What keeps trials from being made at present."""

    reason: ExperimentReason
    message: str


@dataclass(frozen=True, slots=True)
class Hold:
    """Why the experiment can't proceed until somebody intervenes."""

    reason: ExperimentReason
    message: str


@dataclass(frozen=True, slots=True)
class Suspended:
    """How a suspension goes.

    Attributes:
        taken: How many trials still have a pod: they store their checkpoints.
    """

    taken: int

    @property
    def message(self) -> str:
        """In a sentence."""
        if not self.taken:
            return "suspended: no trial has a pod; set spec.suspend to false to continue"
        if self.taken == 1:
            return "suspending: 1 trial still has a pod and is storing a checkpoint"
        return f"suspending: {self.taken} trials still have a pod and are storing a checkpoint"


@dataclass(frozen=True, slots=True)
class StatusInputs:
    """What the Experiment's status says besides the state of its trials.

    Attributes:
        blocker: What keeps Trials from being made at present.
        refusal: That the API server refuses its pods; None where it does not.
        hold: Why nothing can come of it at present; None where it can.
        capped: Why its namespace may have no more pods at present; empty where it may.
        asked: What the searcher is to be asked for as soon as the status says so.
        front: The Pareto front, with several objectives.
        avoided: Nodes that the experiment avoids.
        storage: What is to be said of work in the bucket: it goes on only when that is written.
        template: Which revisions of the trial template there are.
        outdated: How many trials run another one than the present; empty where none does.
        agent_image: The agent's image, where a person needs it to read the store; else empty.
        records_transitions: Whether changes of the state are put on record.
    """

    blocker: ProposalBlocker | None = None
    refusal: PodRefusal | None = None
    hold: Hold | None = None
    capped: str = ""
    asked: ProposalRequest | None = None
    front: Sequence[ParetoTrial] = ()
    avoided: Sequence[AvoidedNode] = ()
    storage: StorageStatus | None = None
    template: TemplateStatus | None = None
    outdated: str = ""
    agent_image: str = ""
    records_transitions: bool = False


def build_counts(by_state: Mapping[TrialState, int], stopped_early: int, added: int) -> TrialCounts:
    """The table of trials by state."""
    return TrialCounts(
        total=sum(by_state.values()),
        added=added,
        pending=by_state.get(TrialState.PENDING, 0),
        running=by_state.get(TrialState.RUNNING, 0),
        paused=by_state.get(TrialState.PAUSED, 0),
        terminated=by_state.get(TrialState.TERMINATED, 0),
        error=by_state.get(TrialState.ERROR, 0),
        stopped_early=stopped_early,
    )


def compute_status(
    experiment: Experiment,
    inputs: StatusInputs,
    now: str,
    *,
    trials: TrialCounts,
    best: BestTrial | None = None,
    outcome: ExperimentOutcome | None = None,
    over: bool = False,
    suspended: Suspended | None = None,
    losses: str = "",
    limit: int | None = None,
) -> ExperimentStatus:
    """Computes the status that follows from what is known; transition times are taken from the one so far.

    Args:
        experiment: The Experiment.
        inputs: What the status says besides what the trials have come to.
        now: The present time (RFC 3339).
        trials: Trials by state.
        best: The best result so far.
        outcome: Why no more trials are made; None while there may be more.
        over: Whether all trials are finished too.
        suspended: How its suspension goes; None where it is not suspended.
        losses: Which checkpoints were reported and are lost; empty where none is, or the condition says it already.
        limit: How many trials there will be; None where that is open.
    """
    before, blocker, generation = experiment.status, inputs.blocker, experiment.generation
    stall = _stall(experiment.problem, inputs, trials, outcome)
    obstacle = blocker.message if blocker is not None else inputs.capped
    progress = _format_progress(trials, limit)
    state, message = _describe_state(
        trials, outcome, progress, over=over, stall=stall, obstacle=obstacle, suspended=suspended
    )
    conditions = tuple(before.conditions)
    truths = _list_truths(outcome, over=over, stall=stall, message=message)
    unreached = None if stall is not None else _find_unreached(outcome, over=over, suspended=suspended, message=message)
    if unreached is not None or find_condition(conditions, ConditionType.RECONCILING) is not None:
        truths.append(_describe_reconciling(unreached))
    if blocker is not None or find_condition(conditions, ConditionType.PROPOSALS_MADE) is not None:
        truths.append(_describe_proposing(blocker))
    if suspended is not None or find_condition(conditions, ConditionType.SUSPENDED) is not None:
        truths.append(_describe_suspension(suspended))
    if inputs.capped or find_condition(conditions, ConditionType.POD_LIMIT_REACHED) is not None:
        truths.append(_describe_cap(inputs.capped))
    if inputs.outdated or find_condition(conditions, ConditionType.TEMPLATE_CURRENT) is not None:
        truths.append(_describe_template(inputs.outdated))
    if losses:
        truths.append((ConditionType.CHECKPOINTS_STORED, False, str(ExperimentReason.CHECKPOINTS_LOST), losses))
    truths += _describe_outcome(conditions, outcome)
    for type_, holds, reason, text in truths:
        conditions = set_condition(conditions, type_, holds, reason, text, now=now, generation=generation)
    status = before.model_copy(
        update={
            "observed_generation": generation,
            "state": state,
            "message": clip(message),
            "trials": trials,
            "best": best,
            "completion_time": (before.completion_time or now) if state.is_finished else None,
            "conditions": list(conditions),
        }
    )
    return transitions.record_of_experiment(status, before, now) if inputs.records_transitions else status


def compute_status_on_hold(experiment: Experiment, hold: Hold, now: str, inputs: StatusInputs) -> ExperimentStatus:
    """The status of an Experiment whose trials can't be seen: what it says of them stays; one that has ended stays so.

    Args:
        experiment: The Experiment.
        hold: Why.
        now: The present time (RFC 3339).
        inputs: Whether changes of the state are put on record; nothing else is known.
    """
    before = experiment.status
    if before.state is not None and before.state.is_finished:
        return before
    conditions = tuple(before.conditions)
    for type_, holds in ((ConditionType.READY, False), (ConditionType.STALLED, True)):
        conditions = set_condition(
            conditions, type_, holds, str(hold.reason), hold.message, now=now, generation=experiment.generation
        )
    update = {
        "observed_generation": experiment.generation,
        "state": ExperimentState.STALLED,
        "message": clip(hold.message),
        "conditions": list(conditions),
    }
    status = before.model_copy(update=update)
    return transitions.record_of_experiment(status, before, now) if inputs.records_transitions else status


def _format_progress(trials: TrialCounts, limit: int | None) -> str:
    """How far it is, counted as `watch` does: out of all trials that there will be, not of those made so far."""
    done = trials.terminated + trials.error
    counted = f"{done}" if limit is None else f"{done} of {max(limit, trials.total)}"
    return f"{counted} trials done, {trials.running} running"


def _describe_state(
    trials: TrialCounts,
    outcome: ExperimentOutcome | None,
    progress: str,
    *,
    over: bool,
    stall: Hold | None,
    obstacle: str,
    suspended: Suspended | None,
) -> tuple[ExperimentState, str]:
    if outcome is not None and over:
        return (ExperimentState.COMPLETE if outcome.good else ExperimentState.FAILED), outcome.message
    if stall is not None and (suspended is None or stall.reason is ExperimentReason.INVALID_SPEC):
        return ExperimentState.STALLED, stall.message
    if outcome is not None:
        return ExperimentState.RUNNING, f"ending: {outcome.message}; {progress}"
    if suspended is not None:
        return ExperimentState.SUSPENDED, f"{suspended.message}; {progress}"
    if obstacle:
        return ExperimentState.RUNNING, f"{progress}; {obstacle}"
    return (ExperimentState.RUNNING if trials.total else ExperimentState.CREATED), progress


def _stall(problem: str, inputs: StatusInputs, trials: TrialCounts, outcome: ExperimentOutcome | None) -> Hold | None:
    """Why the experiment can't achieve anything; None if it can.

    That is so while there is no trial at all and the searcher has found no configuration in a thousand draws, because
    space and constraints can't be changed. It keeps drawing, and the first configuration that it finds ends this.
    """
    if problem:
        return Hold(ExperimentReason.INVALID_SPEC, problem)
    if outcome is not None:
        return None
    if inputs.hold is not None:
        return inputs.hold
    blocker = inputs.blocker
    if blocker is not None and blocker.reason is ExperimentReason.NO_CONFIGURATION and not trials.total:
        return Hold(blocker.reason, blocker.message)
    return None


def _describe_outcome(
    conditions: tuple[Condition, ...], outcome: ExperimentOutcome | None
) -> list[tuple[ConditionType, bool, str, str]]:
    """The conditions that announce an end before it is acted on, named like a Job's; absent before that."""
    truths = []
    for type_, good in ((ConditionType.SUCCESS_CRITERIA_MET, True), (ConditionType.FAILURE_TARGET, False)):
        if outcome is not None and outcome.good is good:
            truths.append((type_, True, str(outcome.reason), outcome.message))
        elif find_condition(conditions, type_) is not None:
            truths.append((type_, False, str(ExperimentReason.IN_PROGRESS), ""))
    return truths


def _describe_proposing(blocker: ProposalBlocker | None) -> tuple[ConditionType, bool, str, str]:
    """The condition that is there only after trials could not be made for a while."""
    if blocker is None:
        return ConditionType.PROPOSALS_MADE, True, str(ExperimentReason.PROPOSING), ""
    return ConditionType.PROPOSALS_MADE, False, str(blocker.reason), blocker.message


def _describe_suspension(suspended: Suspended | None) -> tuple[ConditionType, bool, str, str]:
    """The condition that is there from the first suspension on; it holds once no trial has a pod."""
    if suspended is None:
        return ConditionType.SUSPENDED, False, str(ExperimentReason.RESUMED), ""
    reason = ExperimentReason.SUSPENDING if suspended.taken else ExperimentReason.SUSPENDED
    return ConditionType.SUSPENDED, not suspended.taken, str(reason), suspended.message


def _describe_cap(message: str) -> tuple[ConditionType, bool, str, str]:
    """The condition that is there from the first time on that the namespace has as many pods as it may."""
    reason = ExperimentReason.NAMESPACE_CAP_REACHED if message else ExperimentReason.WITHIN_NAMESPACE_CAP
    return ConditionType.POD_LIMIT_REACHED, bool(message), str(reason), message


def _describe_template(outdated: str) -> tuple[ConditionType, bool, str, str]:
    """The condition that is there from the first time on that trials run another template than the present one."""
    reason = ExperimentReason.TEMPLATE_CHANGED if outdated else ExperimentReason.TEMPLATE_TAKEN
    return ConditionType.TEMPLATE_CURRENT, not outdated, str(reason), outdated


def _find_unreached(
    outcome: ExperimentOutcome | None, *, over: bool, suspended: Suspended | None, message: str
) -> Hold | None:
    """What the spec asks for and is on its way, such as a suspension while trials store checkpoints.

    Trials that run are nothing to reach: to run them is what the spec asks for, and it takes days. Nor is an end that
    the experiment has come to by itself.
    """
    if outcome is not None:
        is_stopping = outcome.reason is ExperimentReason.STOPPED_BY_USER and not over
        return Hold(ExperimentReason.STOPPING, message) if is_stopping else None
    if suspended is not None and suspended.taken:
        return Hold(ExperimentReason.SUSPENDING, suspended.message)
    return None


def _describe_reconciling(unreached: Hold | None) -> tuple[ConditionType, bool, str, str]:
    """The condition that is there from the first time on that something was asked for that takes a while."""
    if unreached is None:
        return ConditionType.RECONCILING, False, str(ExperimentReason.SPEC_APPLIED), ""
    return ConditionType.RECONCILING, True, str(unreached.reason), unreached.message


def _list_truths(
    outcome: ExperimentOutcome | None, *, over: bool, stall: Hold | None, message: str
) -> list[tuple[ConditionType, bool, str, str]]:
    finished = outcome is not None and over
    reason = str(outcome.reason) if outcome is not None and finished else str(ExperimentReason.IN_PROGRESS)
    complete = finished and outcome is not None and outcome.good
    failed = finished and outcome is not None and not outcome.good
    if failed and stall is None and outcome is not None:
        stall = Hold(outcome.reason, message)  # kstatus knows no other word for what only a person can mend
    if stall is not None:
        accepted = [
            (ConditionType.READY, False, str(stall.reason), stall.message),
            (ConditionType.STALLED, True, str(stall.reason), stall.message),
        ]
    else:
        accepted = [
            (ConditionType.READY, True, str(ExperimentReason.ACCEPTED), "the operator has accepted the experiment"),
            (ConditionType.STALLED, False, str(ExperimentReason.ACCEPTED), ""),
        ]
    return [
        *accepted,
        (ConditionType.COMPLETE, complete, reason, message if finished else ""),
        (ConditionType.FAILED, failed, reason, message if finished else ""),
    ]
