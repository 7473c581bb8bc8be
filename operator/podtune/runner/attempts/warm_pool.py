"""Pods that serve one trial after the other (`trialTemplate.reuse`): which trial each serves, and when it ends.

A trial's claim on a pod is its `status.pod`, or that the pod was made for its attempt. It is written before the pod's
agent hears of it, and holds until the attempt's end is on record. A pod is free when no trial has a claim on it and its
agent has asked for the next one; so after a restart it takes a moment until it is known what is free.

Trials see a pod of their own (`WarmPod.build_trial_pod`), which is all that the rest of the runner knows of.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from enum import Enum

from podtune.api.resources.experiment import ExperimentSpec
from podtune.api.resources.trial import PodRef, TrialStatus
from podtune.protocol.assignment import Assignment, build_attempt_id, parse_attempt_number, parse_pod_uid
from podtune.protocol.messages import Reply, Report
from podtune.runner.action_queue import EXPERIMENT, ActionQueue
from podtune.runner.actions import Action, ActionResult, ActionStatus, CreatePod, DeletePod
from podtune.runner.attempts.classification import OWN_FAILURES
from podtune.runner.attempts.warm_pod import EndInPod, WarmPod
from podtune.runner.records import Pod
from podtune.runner.scheduling import clones
from podtune.runner.settings import RunnerSettings
from podtune.runner.timestamps import format_rfc3339_precise
from podtune.runner.trial import parameters, revisions
from podtune.runner.trial.machine import TrialMachine
from podtune.runner.trial.replies import Unaccepted
from podtune.runner.trials import Trials


class PodAssignment(Enum):
    """Where a trial's next attempt finds its pod."""

    ASSIGNED = "a free one was assigned to it"
    CREATE = "there is room for one more"
    WAIT = "it waits until one ends, or its agent is heard"


class WarmPool:
    """The pool of warm pods of one experiment. It survives rebuilds of the machine."""

    def __init__(self, trials: Trials, actions: ActionQueue, settings: RunnerSettings) -> None:
        self._trials = trials
        self._actions = actions
        self._settings = settings
        self._pods: dict[str, WarmPod] = {}
        self._made_for: dict[tuple[str, int], str] = {}
        self._gone: set[str] = set()
        self._alive: set[str] = set()
        self._idle: dict[str, None] = {}
        """UIDs of pods that no trial has a claim on, except retained ones."""
        self._retained: dict[str, None] = {}
        """UIDs of pods that have ended and are kept for people to look at."""
        self._failed_in: dict[str, str] = {}
        """By trial: UID of the pod that its last failed attempt ran in."""
        self._claims: dict[str, str] = {}
        """By trial: the pod that it has a claim on."""
        self._making: set[str] = set()
        """Trials whose pod may come to be and was not seen yet."""
        self._assigned: list[str] = []
        """UIDs of pods whose next attempt is on record, and whose agents may wait to hear of it."""

    # What was seen

    def observe_pod(self, pod: Pod) -> list[str]:
        """Takes in a version of a pod; returns the names of the trials that it changes something for."""
        if pod.uid in self._gone:
            return []
        known = self._pods.get(pod.uid)
        if known is None and not pod.gone:
            known = self._pods[pod.uid] = WarmPod(pod)
            self._made_for[pod.trial, pod.attempt] = pod.uid
            self._idle[pod.uid] = None
        elif known is not None and (pod.gone or pod.version >= known.pod.version):
            known.pod = pod
        if known is None or known.pod.is_over:
            self._alive.discard(pod.uid)
        else:
            self._alive.add(pod.uid)
        names = self._show(known) if known is not None else []
        if pod.gone:
            self._forget_pod(pod)
        return names

    def reset(self) -> None:
        """All trials are about to be rebuilt: they will report their claims again."""
        self._claims.clear()
        self._making.clear()
        self._retained.clear()
        for uid, known in self._pods.items():
            known.claims.clear()
            self._idle[uid] = None

    def restore(self, trial: TrialMachine) -> None:
        """A trial was made of its objects: shows it its pod."""
        if not trial.context.reuses:
            return
        self._note_failure(trial)
        known = self._pods.get(trial.recorded_pod or self._made_for.get((trial.name, trial.attempt), ""))
        if known is not None and self._serves(known, trial):
            self._claim(trial.name, known)
            trial.observe_pod(known.build_trial_pod(trial))

    def on_status_saved(self, trial: TrialMachine) -> None:
        """The API server has a trial's status: a claim that is new in it may be acted on."""
        if trial.pod is not None or not trial.recorded_pod:
            return
        known = self._pods.get(trial.recorded_pod)
        if known is not None:
            trial.observe_pod(known.build_trial_pod(trial))
            self._assigned.append(known.pod.uid)
        else:
            trial.miss_pods()  # it has ended meanwhile

    def observe_trial_deletion(self, name: str) -> None:
        """A Trial was deleted: what its pod does for it counts for nothing, and none is retained for it."""
        if (failed := self._pods.get(self._failed_in.pop(name, ""))) is not None:
            failed.failed = False
        self._reassess([uid for uid in self._retained if (one := self._pods[uid]) is failed or one.pod.trial == name])
        self._making.discard(name)
        known = self._pods.get(self._claims.pop(name, ""))
        if known is not None:
            self._release(name, known)
            known.is_draining = True

    def update(self, trial: TrialMachine, *, making: bool) -> None:
        """Takes in what became of a trial, and whether a pod of it may come to be that was not seen yet."""
        if not trial.context.reuses:
            return
        (self._making.add if making else self._making.discard)(trial.name)
        before, uid = self._claims.get(trial.name, ""), trial.claimed_pod
        if uid == before or (before and not trial.is_durable):
            return  # an end counts once it is on record: else nobody would tell of it again
        if before:
            del self._claims[trial.name]
            if (known := self._pods.get(before)) is not None:
                self._release(trial.name, known)
        self._note_failure(trial)
        if uid and (known := self._pods.get(uid)) is not None:
            self._claim(trial.name, known)

    # Agents

    def hear(self, trial: TrialMachine | None, report: Report) -> Reply | Unaccepted | None:
        """What is answered to a report that is not of a current attempt; None where it is."""
        uid = parse_pod_uid(report.attempt)
        known = self._pods.get(uid)
        if known is None:
            return Unaccepted.FENCED if uid in self._gone else Unaccepted.TOO_EARLY
        pod = trial.pod if trial is not None else None
        if trial is not None and pod is not None and pod.uid == report.attempt and not pod.is_over:
            return Unaccepted.FENCED if revisions.has_foreign_pods(trial) else None
        is_recorded = trial is None or _has_recorded(trial.saved, report.attempt)
        if report.final is None:
            return _build_over(report) if is_recorded else Unaccepted.TOO_EARLY
        if not is_recorded:
            return Reply(report.final.seq, 0)
        known.is_free = not known.claims
        known.last = report.attempt
        return Reply(report.final.seq, report.final.seq, next=self._find_next(known))

    def observe_attempt_end(self, trial: TrialMachine, report: Report, now: float) -> None:
        """The current attempt of a trial is over, and its pod is not."""
        known = self._pods.get(parse_pod_uid(report.attempt))
        if known is None or report.final is None:
            return
        known.last = report.attempt
        known.ended[trial.name] = EndInPod(report.final.to_json(), report.restore_failure, now)
        trial.observe_pod(known.build_trial_pod(trial))

    def take_assigned(self) -> tuple[str, ...]:
        """UIDs of the pods that have something to do since the last time."""
        assigned, self._assigned = tuple(self._assigned), []
        return assigned

    def _find_next(self, known: WarmPod) -> Assignment | None:
        """The attempt that a pod is to run next, where there is one that is on record."""
        waiting = [trial for name in known.claims if (trial := self._trials.get(name)) is not None]
        for trial in sorted(waiting, key=lambda trial: trial.index):
            if trial.pod is not None and not trial.pod.is_over and trial.recorded_pod == known.pod.uid:
                return _build_assignment(trial, known.pod.uid)
        return None

    # Trials that need a pod

    def assign_pod(self, trial: TrialMachine, wanted: CreatePod, *, limit: int, now: float) -> PodAssignment:
        """Assigns a free pod to a trial, or says where it gets one."""
        if trial.is_claiming:
            return PodAssignment.ASSIGNED
        if trial.name in self._making:
            return PodAssignment.CREATE  # it may be there already, and is found by its name when it is asked for again
        free = self._free
        for known in free:
            pod = known.pod
            attempt = build_attempt_id(pod.uid, trial.name, trial.attempt)
            is_alike = pod.template_hash == wanted.template_hash
            is_alike = is_alike and revisions.find_pod_revision(trial, pod) == wanted.revision
            if is_alike and pod.node not in wanted.avoid and known.last != attempt:
                trial.claim(PodRef(name=pod.name, uid=attempt, node=pod.node, since=format_rfc3339_precise(now)), now)
                self._claim(trial.name, known)
                return PodAssignment.ASSIGNED
        if len(self._alive) + len(self._making) < limit:
            return PodAssignment.CREATE
        if free:
            free[0].is_draining = True
        return PodAssignment.WAIT

    def give_back(self) -> None:
        """Has one that is free deleted, unless one is being given back already."""
        if not any(self._pods[uid].is_draining for uid in self._idle) and (free := self._free):
            free[0].is_draining = True

    @property
    def _free(self) -> list[WarmPod]:
        """Those that a trial may be given, in an order that a restarted operator has, too."""
        free = [known for uid in self._idle if (known := self._pods[uid]).is_free and not known.is_ending]
        return sorted(free, key=lambda known: known.pod.name)

    def delete_idle(self, now: float, *, keeps: bool, retention: str) -> None:
        """Has pods deleted that serve no trial for too long, and those that have ended.

        Args:
            now: The present time.
            keeps: Whether trials may still come.
            retention: Which pods stay after their end.
        """
        if retention == "None" and self._retained:
            self._reassess(list(self._retained))
        for uid in list(self._idle):
            known = self._pods[uid]
            if known.deleted or known.pod.deleting:
                continue
            if self._is_retained(known, retention):
                del self._idle[uid]
                self._retained[uid] = None
                continue
            due = now if known.pod.is_over else self._find_due(known, now, keeps=keeps)
            if due <= now:
                known.deleted = self._actions.enqueue(DeletePod("", known.pod.name, uid), now)
            elif due < float("inf"):
                self._actions.timers.set(EXPERIMENT, due)

    @property
    def retains(self) -> bool:
        """Whether pods that have ended are retained, or will be looked at for that."""
        return bool(self._retained or self._idle)

    def on_action_result(self, action: Action, result: ActionResult) -> None:
        """Hears how an action went."""
        known = self._pods.get(action.uid) if isinstance(action, DeletePod) else None
        if known is not None:
            known.deleted = result.status is ActionStatus.DONE

    @property
    def all(self) -> tuple[Pod, ...]:
        """The pods themselves."""
        return tuple(known.pod for known in self._pods.values())

    # Bookkeeping

    def _is_retained(self, known: WarmPod, retention: str) -> bool:
        """Whether a pod stays after its end; its name is needed for a Trial that is made again under the old one's."""
        if not known.pod.is_over or not (retention == "All" or (retention == "Failed" and known.failed)):
            return False
        trial = self._trials.get(known.pod.trial)
        return trial is not None and trial.uid == known.pod.trial_uid

    def _reassess(self, retained: list[str]) -> None:
        """Has pods that were retained looked at again."""
        for uid in retained:
            del self._retained[uid]
            self._idle[uid] = None

    def _find_due(self, known: WarmPod, now: float, *, keeps: bool) -> float:
        """When a pod that serves no trial has to go."""
        if known.idle_since is None:
            known.idle_since = now
        if known.is_draining or (known.is_free and not keeps):
            return now
        return known.idle_since + (self._settings.idle_pod_time if known.is_free else self._settings.report_wait)

    def _note_failure(self, trial: TrialMachine) -> None:
        """Takes in which pod a trial's last attempt failed in: another pod need no longer be retained for it."""
        last = trial.status.last_attempt
        failed = last is not None and last.failure_class in OWN_FAILURES
        uid = parse_pod_uid(last.uid) if last is not None and failed else ""
        before = self._failed_in.get(trial.name, "")
        if last is None or uid == before:
            return
        self._failed_in[trial.name] = uid
        for pod_uid, has_failed in ((before, False), (uid, True)):
            if (known := self._pods.get(pod_uid)) is not None:
                known.failed = has_failed
        if before in self._retained:
            self._reassess([before])

    def _show(self, known: WarmPod) -> list[str]:
        """Shows a pod to the trials that it serves; returns their names."""
        names = []
        for name in {*known.claims, known.pod.trial}:
            trial = self._trials.get(name)
            if trial is not None and self._serves(known, trial):
                self._claim(name, known)
                trial.observe_pod(known.build_trial_pod(trial))
                names.append(name)
        return names

    def _serves(self, known: WarmPod, trial: TrialMachine) -> bool:
        """Whether it is on record that a pod serves a trial's current attempt."""
        if trial.is_finished:
            return False
        if trial.claimed_pod:
            return trial.claimed_pod == known.pod.uid and (trial.pod is not None or bool(trial.recorded_pod))
        return known.was_made_for(trial)

    def _claim(self, name: str, known: WarmPod) -> None:
        self._claims[name] = known.pod.uid
        known.claims.add(name)
        known.is_free = False
        known.idle_since = None
        self._idle.pop(known.pod.uid, None)

    def _release(self, name: str, known: WarmPod) -> None:
        known.claims.discard(name)
        has_left = known.ended.pop(name, None) is not None
        if not known.claims:
            known.is_free = has_left
            self._idle[known.pod.uid] = None

    def _forget_pod(self, pod: Pod) -> None:
        self._gone.add(pod.uid)
        self._idle.pop(pod.uid, None)
        self._retained.pop(pod.uid, None)
        if self._pods.pop(pod.uid, None) is not None and self._made_for.get((pod.trial, pod.attempt)) == pod.uid:
            del self._made_for[pod.trial, pod.attempt]


def compute_template_hash(spec: ExperimentSpec, limits: Mapping[str, str]) -> str:
    """What the manifests of two trials' pods may differ in besides the trial, as a digest."""
    store = spec.checkpoints.store
    made_from = {"limits": dict(limits), "store": store.model_dump(mode="json") if store is not None else None}
    return hashlib.sha256(json.dumps(made_from, sort_keys=True).encode()).hexdigest()[:12]


def _has_recorded(status: TrialStatus, attempt: str) -> bool:
    """Whether a status says that an attempt is over."""
    is_finished = status.state is not None and status.state.is_finished
    return is_finished or (
        status.last_attempt is not None and status.last_attempt.attempt >= parse_attempt_number(attempt)
    )


def _build_over(report: Report) -> Reply:
    """What an agent is told of an attempt whose end is on record: to leave it, and that its results need nobody.

    It may not know better because it was started again after it had said so.
    """
    last = report.results[-1].seq if report.results else 0
    return Reply(last, last, decision="STOP")


def _build_assignment(trial: TrialMachine, pod_uid: str) -> Assignment:
    """What an agent has to know of the current attempt of a trial."""
    written = parameters.find_effective(trial.spec, trial.saved)
    return Assignment(
        trial=trial.name,
        number=trial.attempt,
        attempt=build_attempt_id(pod_uid, trial.name, trial.attempt),
        parameters=parameters.decode_configuration(trial.context.spec.parameters, written),
        display_name=trial.spec.display_name,
        seed=trial.spec.seed,
        restore_from=tuple(checkpoint.ref for checkpoint in clones.to_restore(trial.saved)),
        restore_or_fail=trial.saved.clone is not None,
        find=trial.finds_checkpoints,
        configuration=parameters.compute_configuration_digest(parameters.make_effective(trial.spec, trial.saved)),
        trial_uid=trial.seen.uid,
    )
