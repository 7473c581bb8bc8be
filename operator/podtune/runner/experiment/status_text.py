"""How an experiment's status reads."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from podtune.api.conditions import Condition, clip, find_condition, set_condition
from podtune.api.names import ConditionType, ExperimentReason, ExperimentState, TrialState
from podtune.api.resources.experiment import BestTrial, ExperimentStatus, TrialCounts


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
    """Why nothing can come of the experiment as things are, until somebody does something about it."""

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
        return f"suspending: {self.taken} trials still have a pod and are storing a checkpoint"


def counts(by_state: Mapping[TrialState, int], stopped_early: int) -> TrialCounts:
    """The table of trials by state."""
    return TrialCounts(
        total=sum(by_state.values()),
        pending=by_state.get(TrialState.PENDING, 0),
        running=by_state.get(TrialState.RUNNING, 0),
        paused=by_state.get(TrialState.PAUSED, 0),
        terminated=by_state.get(TrialState.TERMINATED, 0),
        error=by_state.get(TrialState.ERROR, 0),
        stopped_early=stopped_early,
    )


def compute_status(
    before: ExperimentStatus,
    *,
    trials: TrialCounts,
    best: BestTrial | None,
    outcome: ExperimentOutcome | None,
    over: bool,
    problem: str,
    blocker: ProposalBlocker | None,
    generation: int,
    now: str,
    suspended: Suspended | None = None,
    capped: str = "",
    hold: Hold | None = None,
    losses: str = "",
    limit: int | None = None,
) -> ExperimentStatus:
    """Computes the status that follows from what is known.

    Args:
        before: The status so far; transition times are taken from it.
        trials: Trials by state.
        best: The best result so far.
        outcome: Why no more trials are made; None while there may be more.
        over: Whether all trials are finished too.
        problem: Why the spec can't be used; empty where it can.
        blocker: What keeps trials from being made at present, if anything does.
        generation: The generation of the spec.
        now: The present time (RFC 3339).
        suspended: How its suspension goes; None where it is not suspended.
        capped: Why its namespace may have no more pods at present; empty where it may.
        hold: Why nothing can come of it at present; None where it can.
        losses: Which checkpoints were reported and are lost; empty where none is, or the condition says it already.
        limit: How many trials there will be; None where that is open.
    """
    stall = _stall(trials, outcome, problem=problem, blocker=blocker, hold=hold)
    obstacle = blocker.message if blocker is not None else capped
    progress = _progress(trials, limit)
    state, message = _state(trials, outcome, progress, over=over, stall=stall, obstacle=obstacle, suspended=suspended)
    conditions = tuple(before.conditions)
    truths = _truths(outcome, over=over, stall=stall, message=message)
    if blocker is not None or find_condition(conditions, ConditionType.PROPOSALS_MADE) is not None:
        truths.append(_proposing(blocker))
    if suspended is not None or find_condition(conditions, ConditionType.SUSPENDED) is not None:
        truths.append(_suspension(suspended))
    if capped or find_condition(conditions, ConditionType.POD_LIMIT_REACHED) is not None:
        truths.append(_capped(capped))
    if losses:
        truths.append((ConditionType.CHECKPOINTS_STORED, False, str(ExperimentReason.CHECKPOINTS_LOST), losses))
    truths += _decided(conditions, outcome)
    for type_, holds, reason, text in truths:
        conditions = set_condition(conditions, type_, holds, reason, text, now=now, generation=generation)
    return before.model_copy(
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


def _progress(trials: TrialCounts, limit: int | None) -> str:
    """How far it is, counted as `watch` does: out of all trials that there will be, not of those made so far."""
    done = trials.terminated + trials.error
    counted = f"{done}" if limit is None else f"{done} of {max(limit, trials.total)}"
    return f"{counted} trials done, {trials.running} running"


def _state(
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


def _stall(
    trials: TrialCounts,
    outcome: ExperimentOutcome | None,
    *,
    problem: str,
    blocker: ProposalBlocker | None,
    hold: Hold | None,
) -> Hold | None:
    """Why the experiment comes to nothing; None where it can come to something.

    A searcher that has found no configuration, in a thousand draws, makes that so as long as there is no trial at all:
    space and constraints can't be changed. It draws again all the same, and one that is found ends it.
    """
    if problem:
        return Hold(ExperimentReason.INVALID_SPEC, problem)
    if outcome is not None:
        return None
    if hold is not None:
        return hold
    if blocker is not None and blocker.reason is ExperimentReason.NO_CONFIGURATION and not trials.total:
        return Hold(blocker.reason, blocker.message)
    return None


def _decided(
    conditions: tuple[Condition, ...], outcome: ExperimentOutcome | None
) -> list[tuple[ConditionType, bool, str, str]]:
    """The conditions that tell of an end before it is acted on, named as those of a Job; there only from then on."""
    truths = []
    for type_, good in ((ConditionType.SUCCESS_CRITERIA_MET, True), (ConditionType.FAILURE_TARGET, False)):
        if outcome is not None and outcome.good is good:
            truths.append((type_, True, str(outcome.reason), outcome.message))
        elif find_condition(conditions, type_) is not None:
            truths.append((type_, False, str(ExperimentReason.IN_PROGRESS), ""))
    return truths


def _proposing(blocker: ProposalBlocker | None) -> tuple[ConditionType, bool, str, str]:
    """The condition that is there only after trials could not be made for a while."""
    if blocker is None:
        return ConditionType.PROPOSALS_MADE, True, str(ExperimentReason.PROPOSING), ""
    return ConditionType.PROPOSALS_MADE, False, str(blocker.reason), blocker.message


def _suspension(suspended: Suspended | None) -> tuple[ConditionType, bool, str, str]:
    """The condition that is there from the first suspension on; it holds once no trial has a pod."""
    if suspended is None:
        return ConditionType.SUSPENDED, False, str(ExperimentReason.RESUMED), ""
    reason = ExperimentReason.SUSPENDING if suspended.taken else ExperimentReason.SUSPENDED
    return ConditionType.SUSPENDED, not suspended.taken, str(reason), suspended.message


def _capped(message: str) -> tuple[ConditionType, bool, str, str]:
    """The condition that is there from the first time on that the namespace has as many pods as it may."""
    reason = ExperimentReason.NAMESPACE_CAP_REACHED if message else ExperimentReason.WITHIN_NAMESPACE_CAP
    return ConditionType.POD_LIMIT_REACHED, bool(message), str(reason), message


def _truths(
    outcome: ExperimentOutcome | None, *, over: bool, stall: Hold | None, message: str
) -> list[tuple[ConditionType, bool, str, str]]:
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
    finished = outcome is not None and over
    reason = str(outcome.reason) if outcome is not None and finished else str(ExperimentReason.IN_PROGRESS)
    complete = finished and outcome is not None and outcome.good
    failed = finished and outcome is not None and not outcome.good
    return [
        *accepted,
        (ConditionType.COMPLETE, complete, reason, message if finished else ""),
        (ConditionType.FAILED, failed, reason, message if finished else ""),
    ]
