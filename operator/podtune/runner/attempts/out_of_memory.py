"""Help after an out-of-memory failure: the trial's next attempt gets a higher memory limit (failures.outOfMemory).

In a gang with roles, the pods of the role whose container was killed get it, and those of other roles don't.

The new limit follows from that of the container that was killed, and is in the status that records the failure. So a
restarted operator gives the next attempt the same.
"""

from __future__ import annotations

import math
from dataclasses import replace

from podtune.api.pods.limit_names import qualify_limit
from podtune.api.pods.quantities import parse_quantity
from podtune.api.resources.failures import Failures, OutOfMemoryPolicy
from podtune.api.resources.trial import RaisedMemory, TrialSpec, TrialStatus
from podtune.runner.attempts import retries
from podtune.runner.attempts.classification import RAISE_IN_TEMPLATE, AttemptOutcome
from podtune.runner.resources import MEMORY

_MI = 1 << 20
_RAISE_IN_EVALUATION = "raise its limits.memory in spec.evaluation.template"


def help_after_out_of_memory(
    outcome: AttemptOutcome, trial: TrialSpec, status: TrialStatus, failures: Failures
) -> tuple[AttemptOutcome, RaisedMemory | None]:
    """Raises the memory limit after an attempt that was killed for using more, or says what else to do.

    Args:
        outcome: How the attempt has ended.
        trial: What the trial's user asks for.
        status: The trial's status before the end.
        failures: What the user says of failures.

    Returns:
        The outcome with what follows in its message, and the new limit; None where none is raised.
    """
    if outcome.memory is None:
        return outcome, None
    if status.evaluation is not None:
        return replace(outcome, message=f"{outcome.message}; {_RAISE_IN_EVALUATION}"), None
    is_retried = retries.may_retry(status, failures, outcome.failure_class)
    raised, words = None, ""
    if (name := qualify_limit(outcome.role, MEMORY)) in trial.limits:
        words = _describe_limit_of_user(outcome.memory, trial.limits[name], is_retried=is_retried)
    elif failures.out_of_memory is None or not is_retried:
        words = RAISE_IN_TEMPLATE
    elif not parse_quantity(outcome.memory):
        words = "it has no memory limit that failures.outOfMemory could raise; set limits.memory in spec.trialTemplate"
    elif limit := _raise_limit(outcome.memory, failures.out_of_memory):
        raised = _note_raise(outcome, limit, status.raised_memory)
        words = describe_raise(raised)
    else:
        highest = f"failures.outOfMemory.upTo, {failures.out_of_memory.up_to}"
        remedy = "raise upTo, or set memory in spec.limits of the Trial"
        words = f"the limit, {outcome.memory}, is not below {highest}; {remedy}"
    return replace(outcome, message=f"{outcome.message}; {words}"), raised


def describe_raise(raised: RaisedMemory) -> str:
    """Such as: memory raised from 2Gi to 3Gi after an out-of-memory failure."""
    name = f"memory of role {raised.role}" if raised.role else "memory"
    return f"{name} raised from {raised.previous} to {raised.limit} after an out-of-memory failure"


def _note_raise(outcome: AttemptOutcome, limit: str, before: RaisedMemory | None) -> RaisedMemory:
    """Only the role whose container was killed gets more; what others got before stays."""
    others = {} if before is None else {**before.others, before.role: before.limit}
    others.pop(outcome.role, None)
    return RaisedMemory(previous=outcome.memory or "", limit=limit, role=outcome.role, others=others)


def _describe_limit_of_user(before: str, limit: str, *, is_retried: bool) -> str:
    """Says what becomes of memory that a user has set for the trial: it is not raised."""
    if parse_quantity(before) != parse_quantity(limit) and is_retried:
        return f"its next attempt has memory {limit} (spec.limits of the Trial)"
    return "spec.limits of the Trial sets its memory, so it is not raised; set more there"


def _raise_limit(before: str, policy: OutOfMemoryPolicy) -> str:
    """The next higher limit, in whole Mi; empty where the highest is reached."""
    present, highest = parse_quantity(before), parse_quantity(policy.up_to)
    factor = parse_quantity(str(policy.raise_memory_by))
    assert present is not None  # the caller has looked
    assert highest is not None  # so has the model
    assert factor is not None  # a number from 1 to 10
    if present >= highest:
        return ""
    mebibytes = math.ceil(present * factor / _MI)
    if mebibytes * _MI >= highest:
        return policy.up_to
    return f"{mebibytes}Mi" if mebibytes % 1024 else f"{mebibytes // 1024}Gi"
