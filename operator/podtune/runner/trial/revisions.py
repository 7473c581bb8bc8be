"""Which revision of the experiment's trial template an attempt is made from.

It is on record before the attempt has pods, and stands on each of them. An attempt that has none yet takes the template
as it is now; one that runs goes on with its own. A pod of another revision than is on record was made by a request from
before a change. Its attempt is given up, and nothing that it reports counts.
"""

from __future__ import annotations

from podtune.api.names import DecisionAction, DecisionKind, TrialReason
from podtune.runner.records import Pod
from podtune.runner.trial import own_limits
from podtune.runner.trial.machine import TrialMachine

_MIXED = "trialTemplate has changed while its pod was made; it gets another one"
_OUTDATED = "trialTemplate has changed before its pod could start; it gets another one, made from the template as it is"


def find_recorded_revision(trial: TrialMachine) -> str:
    """The revision that is on record for the current attempt, or the next one."""
    return trial.saved.revision or trial.context.first_revision


def find_pod_revision(trial: TrialMachine, pod: Pod) -> str:
    """The revision that a pod was made from; operators that knew but one noted none."""
    return pod.revision or trial.context.first_revision


def has_foreign_pods(trial: TrialMachine) -> bool:
    """Whether a pod of the current attempt was made from another revision, or with other limits, than is on record."""
    recorded = find_recorded_revision(trial)
    return any(find_pod_revision(trial, pod) != recorded for pod in trial.current.pods) or own_limits.differ(trial)


def has_present_revision(trial: TrialMachine) -> bool:
    """Whether the current attempt, or the next one, is made from the template as it is."""
    return find_recorded_revision(trial) == trial.context.revision


def record_present_revision(trial: TrialMachine, now: float) -> bool:
    """Has an attempt without pods take the template as it is; whether that has to be written before it gets them."""
    if trial.current.pods or has_present_revision(trial):
        return False
    trial.set(revision=trial.context.revision)
    trial.touch(now)
    return True


def give_up_outdated_pods(trial: TrialMachine, now: float) -> None:
    """Gives up an attempt that counts for nothing, or can't start, since the template has changed."""
    if trial.status.decision is not None or trial.pod is None:
        return
    if has_foreign_pods(trial):
        _restart(trial, own_limits.REPLACED if own_limits.differ(trial) else _MIXED, now)
    elif not has_present_revision(trial) and _cannot_start(trial):
        _restart(trial, _OUTDATED, now)


def _cannot_start(trial: TrialMachine) -> bool:
    """Whether the attempt has come to nothing so far, and lacks pods, or one of them can't be placed or started.

    Those of a gang that run wait for the others: only what they report counts.
    """
    pods = trial.current.pods
    if pods.is_over or trial.current.has_reported:
        return False
    waiting = pods.not_started.waiting if pods.not_started is not None else None
    if waiting is not None and waiting.hopeless:
        return True
    if any(pod.training or pod.training_since for pod in pods):
        return False
    return pods.lacks_some or (waiting is not None and waiting.reason == "Unschedulable")


def _restart(trial: TrialMachine, message: str, now: float) -> None:
    trial.log_decision(DecisionKind.RESTART, message, {}, now=now)
    trial.decide(DecisionAction.REQUEUE, TrialReason.TEMPLATE_CHANGED, message, now=now)
