"""How long a trial may take: every trial ends, or says what it waits for.

Each deadline counts from times in the objects (when a pod was created, when its program started, when the last result
arrived), so it spans restarts of the operator. A missed deadline becomes a decision, which is written first.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from podtune.api.base import parse_duration
from podtune.api.conditions import clip
from podtune.api.names import DecisionAction, TrialReason
from podtune.api.resources.trial import MAX_DECISION_MESSAGE
from podtune.runner.scheduling import clones
from podtune.runner.timestamps import parse_rfc3339
from podtune.runner.trial.machine import TrialMachine
from podtune.runner.trial.status_text import describe_pending_pod
from podtune.runner.trial.usage import measure_training


@dataclass(frozen=True, slots=True)
class Deadline:
    """A point in time at which the current attempt is ended if nothing has changed by then.

    Attributes:
        due: The point in time.
        action: FAIL ends the trial, RETRY spends a failure.
    """

    due: float
    action: DecisionAction
    reason: TrialReason
    message: str
    why: str

    @property
    def sentence(self) -> str:
        """What is recorded when it is over: where that is too long, what was waited for is cut off, not the field."""
        return clip(self.message, MAX_DECISION_MESSAGE - len(self.why) - 1) + " " + self.why


def find_earliest(trial: TrialMachine, now: float) -> Deadline | None:
    """The deadline of a trial with a pod that comes first; None where nothing has one, or its end is decided."""
    if trial.status.decision is not None:
        return None
    return min(_list_all(trial, now), key=lambda deadline: deadline.due, default=None)


def find_of_refused_pod(trial: TrialMachine) -> Deadline | None:
    """The deadline of a trial that waits for its first pod, which the API server refuses; None for any other.

    A trial that had a pod before keeps waiting, so that its results are not lost.
    """
    if trial.refused_since is None or trial.status.last_attempt is not None or trial.current.pods:
        return None
    if not trial.is_to_run or trial.context.spec.suspend:
        return None
    limit = trial.context.spec.failures.start_deadline
    why = f"(for longer than failures.startDeadline, {limit})"
    due = trial.refused_since + parse_duration(limit)
    return Deadline(due, DecisionAction.FAIL, TrialReason.START_DEADLINE_EXCEEDED, trial.status.message, why)


def _list_all(trial: TrialMachine, now: float) -> Iterator[Deadline]:
    if trial.current.pods and all(pod.training_until for pod in trial.current.pods):
        return  # all programs have ended; the agent has checkpoints.drain for what is left
    yield from _start(trial)
    yield from _list_pending(trial)
    yield from _list_handover(trial, now)
    yield from _list_run(trial, now)
    yield from _silence(trial, now)


def _start(trial: TrialMachine) -> Iterator[Deadline]:
    """What rarely goes away by itself: a bad image, a missing Secret, an unusable store."""
    pod = trial.current.pods.not_started
    if pod is not None and pod.started and pod.waiting is not None and pod.waiting.hopeless:
        since = pod.started
        reason, message = TrialReason.START_DEADLINE_EXCEEDED, describe_pending_pod(trial, pod, pod.waiting)
    elif trial.current.store_problem is not None and trial.current.store_problem.permanent:
        since = trial.current.store_problem_since
        reason, message = TrialReason.STORE_UNUSABLE, trial.current.store_problem.message
    else:
        return
    limit = trial.context.spec.failures.start_deadline
    why = f"(for longer than failures.startDeadline, {limit})"
    yield Deadline(since + parse_duration(limit), DecisionAction.FAIL, reason, message, why)


def _list_pending(trial: TrialMachine) -> Iterator[Deadline]:
    """A pod that does not come to run its program, for whatever reason."""
    limit = trial.context.spec.failures.pending_deadline
    pod = trial.current.pods.not_started
    if limit is None or pod is None or not pod.created:
        return
    words = describe_pending_pod(trial, pod, pod.waiting) if pod.waiting is not None else "it is still starting"
    why = f"(not running after failures.pendingDeadline, {limit})"
    due = pod.created + parse_duration(limit)
    yield Deadline(due, DecisionAction.FAIL, TrialReason.PENDING_DEADLINE_EXCEEDED, f"pod {pod.name}: {words}", why)


def _list_handover(trial: TrialMachine, now: float) -> Iterator[Deadline]:
    """A pod that had served another trial, and whose agent says nothing of this one. A restore may take its time."""
    given, pod = trial.status.pod, trial.pod
    if given is None or not given.since or pod is None or pod.uid != given.uid or clones.to_restore(trial.saved):
        return
    patience = trial.context.settings.report_wait
    until = trial.expectations.compute_silence_deadline(given.uid, now, patience)
    if until > now - patience:
        message = f"pod {given.name} was assigned to the trial, but has not started it"
        due = max(until, (parse_rfc3339(given.since) or 0.0) + patience)
        yield Deadline(
            due, DecisionAction.REQUEUE, TrialReason.WARM_POD_UNRESPONSIVE, message, f"(within {patience:g} s)"
        )


def _list_run(trial: TrialMachine, now: float) -> Iterator[Deadline]:
    """A program that takes longer than any should, all attempts of its stage added up."""
    limit = trial.context.spec.failures.run_deadline
    pod = next((pod for pod in trial.current.pods if pod.training_since and not pod.training_until), None)
    if limit is None or pod is None:
        return
    evaluation = trial.status.evaluation
    before, stage = (0.0, "") if evaluation is None else (evaluation.training_seconds, " of the evaluation")
    left = parse_duration(limit) - (measure_training(trial.status, pod, now) - before)
    why = f"(for longer than failures.runDeadline, {limit}, over all attempts{stage})"
    message = "the program is still running"
    yield Deadline(now + left, DecisionAction.FAIL, TrialReason.RUN_DEADLINE_EXCEEDED, message, why)


def _silence(trial: TrialMachine, now: float) -> Iterator[Deadline]:
    """A program that reports nothing: it hangs.

    After a restart of the operator, its agent is heard first: it may have results that nobody could take in meanwhile.
    """
    limit, pod = trial.context.spec.failures.silence_deadline, trial.pod
    if limit is None or pod is None or not pod.training_since or pod.training_until or pod.is_over:
        return
    last = max(pod.training_since, parse_rfc3339(trial.status.last_result_time) or 0.0)
    due = max(
        last + parse_duration(limit),
        trial.expectations.compute_silence_deadline(pod.uid, now, trial.context.settings.report_wait),
    )
    shown = f"no result since iteration {trial.status.iteration}" if trial.status.iteration else "no result at all"
    why = f"(for longer than failures.silenceDeadline, {limit})"
    yield Deadline(due, DecisionAction.RETRY, TrialReason.SILENCE_DEADLINE_EXCEEDED, shown, why)
