"""Parameters that a user changes while a trial has no pod: it continues with them from its own checkpoint.

`spec.overrides` is applied once, in one write with the resulting parameters and an entry of the ledger. From then on
the trial's checkpoints count as taken with these parameters: a user who changes the parameters of a paused trial wants
to keep its weights. If a checkpoint can't be restored, the usual fallback applies.
"""

from __future__ import annotations

from podtune.api.base import FieldError
from podtune.api.conditions import clip
from podtune.api.names import DecisionKind, TrialReason, TrialState
from podtune.api.resources.trial import Checkpoint, TrialStatus
from podtune.api.tuning.overrides import apply_overrides
from podtune.runner.scheduling.result_processor import ResultProcessor
from podtune.runner.search.session import Search
from podtune.runner.trial import parameters
from podtune.runner.trial.machine import TrialMachine

_MAX_REFUSAL = 512


class Overrides:
    """Applies users' changes, and passes them on to scheduler and searcher."""

    def __init__(self, processor: ResultProcessor, search: Search) -> None:
        self._processor = processor
        self._search = search

    def take_in(self, trial: TrialMachine, now: float) -> None:
        """Gives a trial that has no pod the values that its user asks for; where they can't be, it says why.

        One that waits to clone another has to know first which parameters they are to change.
        """
        if trial.status.exploit is not None:
            return
        if trial.spec.overrides == trial.status.overrides:
            self._accept(trial, now)
            return
        before = parameters.find_effective(trial.spec, trial.status)
        try:
            new = self._apply_changes(trial)
        except FieldError as error:
            self._refuse(trial, f"spec.{error}", now)
            return
        changes = parameters.list_differences(before, new)
        trial.status = _set_parameters(trial.status, parameters.find_changed(trial.spec, new))
        trial.set(overrides=dict(trial.spec.overrides))
        trial.touch(now)
        self._accept(trial, now)
        if changes:
            trial.log_decision(DecisionKind.CONFIGURE, "continues with spec.overrides", changes, now=now)
            self._processor.update_configuration(trial, now)
            self._search.update_configuration(trial)

    def check(self, trial: TrialMachine, now: float) -> None:
        """Says of a trial with a pod whether it can be given the values that its user asks for, before it is."""
        problem = ""
        if trial.spec.overrides != trial.status.overrides:
            try:
                self._apply_changes(trial)
            except FieldError as error:
                problem = clip(f"spec.{error}", _MAX_REFUSAL)
        if problem != trial.refusal:
            trial.refusal = problem
            trial.touch(now)

    def _apply_changes(self, trial: TrialMachine) -> dict[str, str]:
        """The configuration with the changed values; what is changed no longer is what was proposed."""
        spec = trial.context.spec
        if spec.search.repeats > 1:
            problem = f"can't be set with search.repeats {spec.search.repeats}: all repeats share a configuration"
            raise FieldError("overrides", f"{problem}; remove them")
        taken_back = trial.status.overrides.keys() - trial.spec.overrides.keys()
        proposed = {name: trial.spec.parameters[name] for name in taken_back if name in trial.spec.parameters}
        present = {**parameters.find_effective(trial.spec, trial.status), **proposed}
        return apply_overrides(spec.parameters, spec.constraints, present, trial.spec.overrides)

    def _accept(self, trial: TrialMachine, now: float) -> None:
        trial.refusal = ""
        if trial.status.reason == TrialReason.INVALID_OVERRIDES:
            trial.explain(TrialState.PENDING, TrialReason.QUEUED, "waiting for a free slot (maxConcurrentTrials)")
            trial.touch(now)

    def _refuse(self, trial: TrialMachine, problem: str, now: float) -> None:
        """A trial that would run has to wait; one that is paused says it in a condition alone."""
        trial.refusal = clip(problem, _MAX_REFUSAL)
        trial.touch(now)
        if trial.status.state in (None, TrialState.PENDING):
            trial.explain(TrialState.PENDING, TrialReason.INVALID_OVERRIDES, trial.refusal)


def _set_parameters(status: TrialStatus, new: dict[str, str]) -> TrialStatus:
    """The status with other parameters, which its checkpoints of now count as taken with."""
    before, after = parameters.compute_fingerprint(status.parameters), parameters.compute_fingerprint(new)

    def moved(checkpoint: Checkpoint) -> Checkpoint:
        is_of_now = checkpoint.configuration == before
        return checkpoint.model_copy(update={"configuration": after}) if is_of_now else checkpoint

    return status.model_copy(
        update={
            "parameters": new,
            "checkpoints": [moved(checkpoint) for checkpoint in status.checkpoints],
            "checkpoint": moved(status.checkpoint) if status.checkpoint is not None else None,
        }
    )
