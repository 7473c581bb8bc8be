"""Limits that a trial has for itself: those of `spec.limits`, and memory that `failures.outOfMemory` has raised.

They are on record before the attempt has pods, and stand on each of them. What a user changes while an attempt runs is
for the next one. A pod with other limits than are on record was made by a request from before a change; its attempt is
given up. A warm pod is assigned by its limits, so it names none.
"""

from __future__ import annotations

from collections.abc import Mapping

from podtune.api.conditions import clip
from podtune.api.names import TrialReason, TrialState
from podtune.api.pods.limit_names import qualify_limit
from podtune.runner import resources
from podtune.runner.attempts.out_of_memory import describe_raise
from podtune.runner.trial.machine import TrialMachine

REPLACED = "the limits of the trial have changed while its pod was made; it gets another one"
_MAX_PROBLEM = 512


def record(trial: TrialMachine, limits: Mapping[str, str], now: float) -> bool:
    """Has an attempt without pods take these limits; whether that has to be written before it gets them."""
    if trial.current.pods or limits == trial.saved.limits:
        return False
    trial.set(limits=dict(limits))
    trial.touch(now)
    return True


def differ(trial: TrialMachine) -> bool:
    """Whether a pod of the current attempt was made with other limits than are on record."""
    recorded = resources.write_own_limits(trial.saved.limits)
    return any(pod.own_limits != recorded for pod in trial.current.pods if not pod.template_hash)


def explain_problem(trial: TrialMachine, now: float) -> None:
    """Says of a trial that would run what is wrong with the limits that its user has set."""
    if trial.status.state not in (None, TrialState.PENDING) or trial.refusal:
        return
    if problem := trial.limits_problem:
        is_news = trial.explain(TrialState.PENDING, TrialReason.INVALID_RESOURCES, clip(problem, _MAX_PROBLEM))
    else:
        is_news = trial.status.reason == TrialReason.INVALID_RESOURCES and trial.explain(
            TrialState.PENDING, TrialReason.QUEUED, "waiting for a free slot (maxConcurrentTrials)"
        )
    if is_news:
        trial.touch(now)


def describe_limits(trial: TrialMachine, shown: Mapping[str, str]) -> list[str]:
    """Says of a trial that runs which limits it has, and whether its next attempt has others.

    Args:
        trial: The trial.
        shown: Limits that other trials need not have.
    """
    parts, raised, given = [], trial.status.raised_memory, trial.saved.limits
    raised_name = qualify_limit(raised.role, resources.MEMORY) if raised is not None else ""
    if raised is not None and given.get(raised_name) == raised.limit:
        parts.append(describe_raise(raised))
        shown = {name: amount for name, amount in shown.items() if name != raised_name}
    if words := resources.show_limits(shown):
        parts.append(f"with {words}")
    if problem := trial.limits_problem:
        parts.append(clip(problem, _MAX_PROBLEM))
    elif any(given.get(name) != amount for name, amount in trial.spec.limits.items()):
        parts.append("spec.limits takes effect with its next attempt")
    return parts
