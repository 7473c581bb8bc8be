"""Trials with several pods: the pods of an attempt are created, scheduled and ended together.

Pods are created behind a scheduling gate, which is removed when all of them exist, so none runs before that. The
Kubernetes scheduler does not know about gangs. An experiment has one gang scheduled at a time. If only some of its pods
have found a node after a while, for example because another experiment's gang holds the other nodes, the gang gives up
its own. The wait differs from gang to gang, so two gangs don't block each other for ever.

When one pod has failed or is disrupted, that is recorded with its rank before the others are deleted. So it is known
afterwards which pods' ends mean something.
"""

from __future__ import annotations

from podtune.api.names import QUEUE_NAME, DecisionAction, TrialReason, TrialState
from podtune.runner.action_queue import ActionQueue
from podtune.runner.actions import OpenGates
from podtune.runner.attempts import retries
from podtune.runner.attempts.pods import AttemptPods
from podtune.runner.records import Pod, PodPhase
from podtune.runner.trial.machine import TrialMachine


def keep_together(trial: TrialMachine, actions: ActionQueue, now: float) -> None:
    """Brings a gang on as a whole: lets it begin, gives its places back, or ends it with the first of its pods."""
    pods = trial.current.pods
    if pods.replicas == 1 or trial.status.decision is not None:
        return
    fallen = [pod for pod in pods if _has_fallen(pod)]
    if fallen:
        _end(trial, fallen, now)
    elif pods.is_complete and any(pod.gated for pod in pods):
        gated = tuple((pod.name, pod.uid) for pod in pods if pod.gated)
        actions.enqueue(OpenGates(trial.name, gated), now, trial.name)
    elif pods.has_begun and not pods.is_placed:
        _limit_placement(trial, actions, now)


class PlacementTurn:
    """Which gang of an experiment is being placed. Those that Kueue admits need no turn: it does so as a whole."""

    def __init__(self) -> None:
        self._placing: set[str] = set()

    def update(self, trial: TrialMachine, *, creating: bool) -> None:
        """Takes in what became of a trial, and whether pods of it may come to be that were not seen yet."""
        if trial.replicas == 1:
            self._placing.discard(trial.name)
            return
        waits = bool(trial.current.pods) and not (trial.current.pods.is_placed or trial.current.pods.is_over)
        needs_turn = QUEUE_NAME not in trial.context.spec.trial_template.metadata.labels
        (self._placing.add if needs_turn and (creating or waits) else self._placing.discard)(trial.name)

    def find_blocker(self, trial: TrialMachine) -> str:
        """Name of the trial whose pods have to be placed before this one's are made; empty where there is none."""
        return min(self._placing - {trial.name}, default="")


def wait_for_turn(trial: TrialMachine, other: str, actions: ActionQueue, now: float) -> None:
    """Says in the status that another gang is being placed."""
    if trial.explain(TrialState.PENDING, TrialReason.QUEUED, f"waiting until all pods of {other} are on a node"):
        trial.touch(now + trial.context.settings.starting_debounce)
        actions.timers.set(trial.name, trial.write_due)


def _has_fallen(pod: Pod) -> bool:
    """Whether a pod has ended badly, or is being taken away; one that has done its work is no reason to end."""
    if pod.phase is PodPhase.SUCCEEDED:
        return pod.interrupted or bool(pod.disruption)
    return pod.is_over or pod.interrupted


def _end(trial: TrialMachine, fallen: list[Pod], now: float) -> None:
    if trial.current.pods.is_over:
        return
    first = fallen[0]
    what = "is being taken away" if not first.is_over else "is gone" if first.gone else "has ended"
    which = f"rank {first.rank} ({first.role})" if first.role else f"rank {first.rank}"
    message = f"the pod of {which} {what}, so the other pods are deleted"
    trial.decide(DecisionAction.END, TrialReason.RANK_ENDED, message, ranks=[pod.rank for pod in fallen], now=now)


def _limit_placement(trial: TrialMachine, actions: ActionQueue, now: float) -> None:
    """Has a gang give its places back that it has held for too long without the others."""
    pods = trial.current.pods
    held_since = min((pod.started for pod in pods if pod.started), default=0.0)
    if not held_since:
        return  # it holds nothing, and so may wait
    due = held_since + retries.build_placement_timeout(trial.context.spec).compute_delay(
        trial.attempt, f"{trial.uid}/placement"
    )
    if now < due:
        actions.timers.set(trial.name, due)
        return
    message = (
        f"only {_count_placed(pods)} of {pods.replicas} pods found a node within trialTemplate.placementTimeout of "
        f"{trial.context.spec.trial_template.placement_timeout}; they are deleted, and the trial tries again later"
    )
    trial.decide(DecisionAction.REQUEUE, TrialReason.NOT_PLACED, message, now=now)


def _count_placed(pods: AttemptPods) -> int:
    return sum(1 for pod in pods if pod.node)
