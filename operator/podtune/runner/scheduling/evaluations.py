"""The two stages of a trial: its training, and the evaluation of the checkpoint that training has ended with.

A trial is evaluated if training has ended as it was meant to: by itself, at the scheduler's maxTime, or by a criterion
of `stop`. What follows is one attempt after the other as in training, with pods of another template, until one
completes. `status.evaluation` is written together with the end of training. So there is never a doubt which stage an
attempt is of, and a restarted operator goes on with the same one.

Scheduler and stoppers hear of the end of training, and of nothing after it. The evaluation's result becomes the trial's
when it completes; until then it stands in `status.evaluation` alone.
"""

from __future__ import annotations

from dataclasses import replace

from podtune.api.names import DecisionKind, TrialReason, TrialState
from podtune.api.resources.experiment import ExperimentSpec
from podtune.api.resources.trial import Checkpoint, TrialStatus
from podtune.api.resources.trial_evaluation import TrialEvaluation
from podtune.protocol.messages import MAX_METRICS, Result, read_number
from podtune.runner.checkpoints import retention
from podtune.runner.scheduling import clones
from podtune.runner.timestamps import format_rfc3339
from podtune.runner.trial import ledger, results

FULL_LENGTH_REASONS = frozenset({TrialReason.MAX_TIME_REACHED, TrialReason.STOPPED_BY_CRITERION})
"""Reasons of stopped trials that have trained for as long as they were meant to."""
NO_CHECKPOINT = (
    "there is no checkpoint to evaluate; report one with the last result, as in "
    "podtune.trial.report({…}, checkpoint=directory)"
)


def find_evaluated(status: TrialStatus) -> Checkpoint | None:
    """The checkpoint that is or was evaluated; None where none was."""
    evaluation = status.evaluation
    if evaluation is None:
        return None
    return next((known for known in status.checkpoints if known.uri == evaluation.uri), None)


def find_representative(status: TrialStatus, spec: ExperimentSpec) -> Checkpoint | None:
    """The checkpoint that stands for a trial: the one that was evaluated, else its best one; None where it has none."""
    evaluated = find_evaluated(status)
    return evaluated or retention.find_best_checkpoint(status.checkpoints, spec.training_objective)


def list_restorable(status: TrialStatus) -> tuple[Checkpoint, ...]:
    """What the next attempt may start from, the one to try first at the front; an evaluation, from one alone."""
    if status.evaluation is None:
        return clones.to_restore(status)
    evaluated = find_evaluated(status)
    return (evaluated,) if evaluated is not None else ()


def choose_evaluated(status: TrialStatus, spec: ExperimentSpec) -> Checkpoint | None:
    """The checkpoint to evaluate: one of the trial's own that was taken with its present parameters; None for none."""
    own = () if status.clone is not None else clones.list_own_checkpoints(status)
    if spec.evaluation is not None and spec.evaluation.checkpoint == "best":
        return retention.find_best_checkpoint(own[::-1], spec.training_objective)
    return next(iter(own), None)


def begin_evaluation(
    status: TrialStatus, chosen: Checkpoint, now: float, *, run_generation: int, was_paused: bool = False
) -> TrialStatus:
    """The status of a trial that is evaluated next, instead of that of its end.

    The chosen checkpoint moves to the end: what comes last is what attempts start from, and is never dropped.

    Args:
        status: The status as it would be at the trial's end; it says how training has ended.
        chosen: What is evaluated.
        now: The present time.
        run_generation: That of the status before.
        was_paused: Whether the scheduler has ended a trial that it had paused.
    """
    message = f"training has ended ({status.reason}); the checkpoint of iteration {chosen.step} is evaluated next"
    evaluation = TrialEvaluation(
        step=chosen.step,
        uri=chosen.uri,
        reason=status.reason,
        message=status.message,
        since=format_rfc3339(now),
        attempt=(status.last_attempt.attempt if status.last_attempt else 0) + 1,
        training_seconds=status.usage.training_seconds if status.usage is not None else 0,
        was_paused=was_paused,
    )
    changes = {
        "evaluation": evaluation,
        "checkpoints": [*(known for known in status.checkpoints if known is not chosen), chosen],
        "checkpoint": chosen,
        "state": TrialState.PENDING,
        "reason": str(TrialReason.QUEUED),
        "message": message,
        "decision": None,
        "exploit": None,
        "retry_time": None,
        "completion_time": None,
        "run_generation": run_generation,
    }
    begun, inputs = status.model_copy(update=changes), {"checkpoint": chosen.step}
    at = {"attempt": status.attempt, "step": status.iteration}
    return ledger.enter(begun, DecisionKind.EVALUATE, message, inputs, now=now, **at)


def restart_evaluation(status: TrialStatus) -> TrialStatus:
    """The status of a trial whose evaluation starts anew: what the attempt before has reported counts for nothing."""
    if status.evaluation is None or not status.evaluation.result:
        return status
    return status.model_copy(update={"evaluation": status.evaluation.model_copy(update={"result": {}})})


def record_metrics(status: TrialStatus, result: Result) -> TrialStatus:
    """The status after a result of the evaluation: its metrics replace those of the same name from before."""
    assert status.evaluation is not None  # the caller has looked
    shown = {**status.evaluation.result, **results.show_all(result.metrics)}
    kept = dict(list(shown.items())[:MAX_METRICS])
    return status.model_copy(update={"evaluation": status.evaluation.model_copy(update={"result": kept})})


def leave_out_objective(result: Result, spec: ExperimentSpec) -> Result:
    """A result of training without what only the evaluation may report."""
    optimised = {criterion.metric for criterion in spec.objective.criteria}
    if spec.evaluation is None or optimised.isdisjoint(result.metrics):
        return result
    metrics = {name: value for name, value in result.metrics.items() if name not in optimised}
    return replace(result, metrics=metrics)


def preview_end(status: TrialStatus, spec: ExperimentSpec) -> TrialStatus:
    """The status as if its evaluation were complete, and training had reported nothing: to see what is missing."""
    assert status.evaluation is not None  # the caller has looked
    bare = status.model_copy(update={"last_result": {}, "best": {}})
    return conclude_evaluation(bare, spec)


def conclude_evaluation(status: TrialStatus, spec: ExperimentSpec) -> TrialStatus:
    """The status once the evaluation is complete: what it has reported is the trial's result.

    Of a name that both stages have reported, `lastResult` keeps the value of training.
    """
    assert status.evaluation is not None  # the caller has looked
    told, objective = status.evaluation.result, spec.objective
    optimised = {criterion.metric for criterion in objective.criteria}
    trained = {name: value for name, value in status.last_result.items() if name not in optimised}
    changes: dict[str, object] = {"last_result": dict(list({**told, **trained}.items())[:MAX_METRICS])}
    value = read_number(results.parse_metrics(told), objective.metric)
    if value is not None and objective.is_better(value, None):
        changes |= {"best": told, "best_value": told[objective.metric], "best_parameters": status.parameters}
    return status.model_copy(update=changes)
