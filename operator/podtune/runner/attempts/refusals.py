"""Pods that the API server rejects for what they are: the experiment is held until it accepts one.

All pods of an experiment are made from one template, so what is wrong with one is wrong with the next, and a retry does
not help. From the first rejection on, no pod is created and no trial is proposed; running trials continue. The operator
asks the API server with a dry run, every five minutes and whenever the spec changes. Once that is accepted, everything
continues. The hold is recorded in the Experiment's status, so a restarted operator asks, too, instead of sending all
pods again.

A pod with other limits than the template's (`scheduler.resources`) holds the experiment, too: each trial that gets this
far would be rejected alike, and its training until then would be wasted. Limits that only this trial has, because they
follow from its parameters, may be what is wrong: then the operator asks about a pod without them. Only if that is
rejected as well is the experiment held; if not, the trial alone waits.
"""

from __future__ import annotations

import random
from collections.abc import Mapping

from podtune.api.conditions import clip, find_condition
from podtune.api.names import ConditionType, ExperimentReason
from podtune.api.resources.experiment import PodRefusal
from podtune.runner import resources
from podtune.runner.action_queue import EXPERIMENT, ActionQueue
from podtune.runner.actions import ActionResult, ActionStatus, CreatePod, EmitEvent, TryPod
from podtune.runner.experiment.status_text import Hold
from podtune.runner.records import Experiment
from podtune.runner.scheduling.slots import Slots
from podtune.runner.settings import RunnerSettings
from podtune.runner.timestamps import format_rfc3339, parse_rfc3339
from podtune.runner.trial.machine import TrialMachine

MAX_WORDS = 700
"""So much is told of what the API server says."""
JITTER = 0.1
"""Up to this share is added to the wait between two questions, or taken off it."""
_TRAINING, _EVALUATION = "spec.trialTemplate", "spec.evaluation.template"
_CORRECT_TEMPLATE = "correct spec.trialTemplate"
_CORRECT_LIMITS = "correct spec.trialTemplate.limits, or have an administrator allow as much"
_CORRECT_OWN_LIMITS = "correct spec.limits of the Trial, or have an administrator allow as much"
_CORRECT_RAISE = "set memory in spec.limits of the Trial, or have an administrator allow as much"
_REMEDIES: Mapping[str, str] = {
    "violates PodSecurity": (
        "give spec.trialTemplate the securityContext that the namespace requires, or have an "
        "administrator relax the namespace's label pod-security.kubernetes.io/enforce"
    ),
    "is forbidden": f"create or allow what this message names, or {_CORRECT_TEMPLATE}",
}
"""What to do, by a piece of what the API server says; else the template is to be corrected."""


class Refusals:
    """Whether the API server currently rejects an experiment's pods. It survives rebuilds."""

    def __init__(self, experiment: Experiment, actions: ActionQueue, settings: RunnerSettings) -> None:
        self._experiment = experiment
        self._actions = actions
        self._settings = settings
        self._refusal = experiment.status.pod_refusal
        stalled = find_condition(experiment.status.conditions, ConditionType.STALLED)
        is_told = stalled is not None and stalled.reason == ExperimentReason.POD_REFUSED
        self._message = stalled.message if is_told and stalled is not None else ""
        self._told = self._message
        """What the last Event said: a dry run may pass what is refused all the same."""

    @property
    def is_held(self) -> bool:
        """Whether to create no pods and propose no trials."""
        return self._refusal is not None

    @property
    def record(self) -> PodRefusal | None:
        """What to write into the Experiment's status."""
        return self._refusal

    @property
    def hold(self) -> Hold | None:
        """What people are told of it."""
        return Hold(ExperimentReason.POD_REFUSED, self._message) if self._refusal is not None else None

    def observe_experiment(self, experiment: Experiment) -> None:
        """Takes in a version of the Experiment."""
        self._experiment = experiment

    def on_action_result(self, action: CreatePod | TryPod, result: ActionResult, now: float) -> None:
        """Hears whether the API server takes a pod, or would."""
        if result.reason is ExperimentReason.POD_REFUSED:
            if isinstance(action, TryPod):
                self._record_refusal(action.creation, result.message, now)
            elif self._refusal is not None:
                pass  # it was on its way already
            elif action.has_own_limits:
                self._actions.enqueue(TryPod(action.share_limits()), now)
            else:
                self._record_refusal(action, result.message, now)
        elif isinstance(action, TryPod) and result.status is ActionStatus.DONE:
            self._release()

    def _release(self) -> None:
        """Pods may be made again."""
        self._refusal, self._message = None, ""

    def ask_again(self, trials: Mapping[str, TrialMachine], slots: Slots, now: float) -> None:
        """Asks the API server, when it is time, whether it still refuses pods.

        It is asked about the pod of the same trial, else of one that waits. Where none waits, no trial is proposed for
        the question: one that has ended will do, and rather one that had a pod. If that is taken, only the other was
        refused.
        """
        if self._refusal is None:
            return
        due = self._due
        if now < due <= now + self._settings.refusal_wait * (1 + JITTER):  # else the clock has gone back since
            self._actions.timers.set(EXPERIMENT, due)
            return
        refused = trials.get(self._refusal.trial)
        waiting = (refused,) if refused is not None and refused.is_to_run else slots.queue.trials
        had_pods = (trial for trial in trials.values() if trial.status.last_attempt is not None)
        trial = next(iter(waiting), None) or next(had_pods, refused)
        if trial is None or (trial.current.pods and not trial.current.pods.lacks_some):
            self._release()  # nothing is known that would be refused
        else:
            self._actions.enqueue(TryPod(slots.build_creation(trial, now).share_limits()), now)

    def _record_refusal(self, creation: CreatePod, words: str, now: float) -> None:
        is_new = self._refusal is None
        self._refusal = PodRefusal(
            trial=creation.trial, generation=self._experiment.generation, time=format_rfc3339(now)
        )
        spec = self._experiment.spec
        self._message = _describe(creation, resources.list_fixed_limits(spec) if spec is not None else {}, words)
        if is_new and self._message != self._told:
            self._told = self._message
            event = EmitEvent("", str(ExperimentReason.POD_REFUSED), self._message, warning=True)
            self._actions.enqueue(event, now)

    @property
    def _due(self) -> float:
        refusal = self._refusal
        if refusal is None or not self._message or refusal.generation != self._experiment.generation:
            return 0.0
        drawn = random.Random(f"{self._experiment.uid}/{refusal.time}").uniform(1 - JITTER, 1 + JITTER)
        return (parse_rfc3339(refusal.time) or 0.0) + self._settings.refusal_wait * drawn


def describe_refused_pod(creation: CreatePod, words: str) -> str:
    """What a trial is told that waits for its pod, and what to do where only its own limits may be to blame."""
    given = resources.show_limits(creation.limits) if creation.has_own_limits else ""
    if not given:
        return f"the API server refuses its pod: {words}"
    return f"the API server refuses its pod with {given}: {clip(words, MAX_WORDS)}; {_find_remedy(creation)}"


def _find_remedy(creation: CreatePod) -> str:
    """Where to correct the limits that only one trial has; what its user has set comes before all others."""
    if not creation.own_limits:
        return _CORRECT_LIMITS
    return _CORRECT_OWN_LIMITS if creation.spec.limits else _CORRECT_RAISE


def _describe(creation: CreatePod, template_limits: Mapping[str, str], words: str) -> str:
    """What the API server says, and what to do about it."""
    of_rungs = {name: amount for name, amount in creation.limits.items() if template_limits.get(name) != amount}
    limits = resources.show_limits(of_rungs)
    given = f" with {limits} (scheduler.resources)" if limits else ""
    remedy = next((remedy for piece, remedy in _REMEDIES.items() if piece in words), _CORRECT_TEMPLATE)
    template = _TRAINING
    if creation.evaluates:
        template, remedy = _EVALUATION, remedy.replace(_TRAINING, _EVALUATION)
    return (
        f"{template}: the API server refuses the pod of {creation.trial}{given}: {clip(words, MAX_WORDS)}; "
        f"{remedy}; Podtune tries again every five minutes, and when the spec changes"
    )
