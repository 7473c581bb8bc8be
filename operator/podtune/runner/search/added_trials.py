"""Trials that people create themselves: each is checked, and made the experiment's, before it is a trial like others.

A person gives a configuration and perhaps a checkpoint to start from. The rest is the operator's: it makes the
Experiment the Trial's owner and labels it (`AdoptTrial`). A Trial that can't run is given a status that says why, and
nothing else looks at it: it takes no slot, counts nowhere, and stops nothing.

What is checked never changes, so a Trial is judged the same whenever, and by whatever operator, it is looked at.
"""

from __future__ import annotations

from dataclasses import replace

from podtune.api.base import FieldError
from podtune.api.conditions import set_condition
from podtune.api.names import ConditionType, TrialReason, TrialState
from podtune.api.pods.parameter_text import format_display_name
from podtune.api.resources.experiment import ExperimentSpec
from podtune.api.resources.trial import UNNUMBERED, TrialSpec, TrialStatus
from podtune.api.resources.trial_numbers import FIRST_ADDED, is_added
from podtune.api.tuning.overrides import apply_overrides
from podtune.runner import transitions
from podtune.runner.action_queue import ActionQueue
from podtune.runner.actions import AdoptTrial, WriteTrialStatus
from podtune.runner.records import Experiment, Trial
from podtune.runner.timestamps import format_rfc3339
from podtune.tuning.randomness import derive_trial_seed

FORBIDDEN = ("seed", "display_name", "proposal", "former")
"""What only the operator says of a trial."""


class AddedTrials:
    """Those that people have added and that are no trials yet, or never will be."""

    def __init__(
        self,
        experiment: Experiment,
        spec: ExperimentSpec,
        actions: ActionQueue,
        *,
        records_transitions: bool = False,
    ) -> None:
        self._records_transitions = records_transitions
        self._experiment = experiment.name
        self._spec = spec
        self._actions = actions
        self._due: dict[str, Trial] = {}
        """Those that wait for a request to the API server."""
        self._accepted: dict[tuple[str, int], TrialSpec] = {}
        """By UID and generation: the whole specs of those that were accepted."""

    def admit(self, trial: Trial) -> Trial | None:
        """The Trial with all that a trial has; None where it is not to run, or not yet."""
        if trial.owned and not is_added(trial.spec.index):
            return trial
        problem = self._find_problem(trial)
        if not problem and trial.owned:
            self._due.pop(trial.name, None)
            return self._complete(trial)
        if problem and trial.status.state is not None and (trial.owned or not is_added(trial.spec.index)):
            self._due.pop(trial.name, None)
        else:
            self._due[trial.name] = trial
        return None

    def forget(self, name: str) -> None:
        """A Trial was deleted."""
        self._due.pop(name, None)

    def decide(self, now: float) -> None:
        """Asks for what those need that wait."""
        for trial in self._due.values():
            problem = self._find_problem(trial)
            if not trial.owned and is_added(trial.spec.index):
                parameters = {} if problem else read_configuration(trial.spec, self._spec)
                self._actions.enqueue(AdoptTrial(trial.name, trial.version, parameters), now)
            else:
                refused = _build_refusal(trial, problem, now)
                if self._records_transitions:
                    refused = transitions.record_of_trial(refused, trial.status, format_rfc3339(now))
                self._actions.enqueue(WriteTrialStatus(trial.name, trial.uid, trial.version, refused), now)

    def _complete(self, trial: Trial) -> Trial:
        known = self._accepted.get((trial.uid, trial.generation))
        if known is None:
            known = self._accepted[trial.uid, trial.generation] = complete_spec(trial.spec, self._spec)
        return replace(trial, spec=known)

    def _find_problem(self, trial: Trial) -> str:
        """Why a Trial that a person has made can't run; empty where it can."""
        spec = trial.spec
        if not is_added(spec.index):
            return (
                f"spec.index: {spec.index} is a proposal's; leave index out, and name the Trial "
                f"{self._experiment}-<number> with a number from {FIRST_ADDED} on"
            )
        if trial.name != f"{self._experiment}-{spec.index}" or spec.experiment != self._experiment:
            return f"spec.experiment: {spec.experiment} is not the experiment that the Trial is named after; correct it"
        for field in FORBIDDEN:
            if getattr(spec, field):
                name = TrialSpec.model_fields[field].alias or field
                return f"spec.{name}: is for the operator to set; make the Trial again without it"
        source = spec.restore_from
        if source is not None and source.experiment not in ("", self._experiment):
            return (
                f"spec.restoreFrom.experiment: {source.experiment} is another experiment; name a trial of "
                f"{self._experiment}"
            )
        try:
            read_configuration(spec, self._spec)
        except FieldError as error:
            return f"spec.{error}"
        return ""


def read_configuration(spec: TrialSpec, experiment: ExperimentSpec) -> dict[str, str]:
    """The whole configuration of a trial that a person has added, with fixed and computed values.

    Raises:
        FieldError: The given values make none; the path starts at the Trial's spec.
    """
    return apply_overrides(experiment.parameters, experiment.constraints, {}, spec.parameters, "parameters")


def complete_spec(spec: TrialSpec, experiment: ExperimentSpec) -> TrialSpec:
    """The spec that such a trial runs by, given what the person has written.

    Raises:
        FieldError: As for `read_configuration`.
    """
    parameters = read_configuration(spec, experiment)
    return spec.model_copy(
        update={
            "parameters": parameters,
            "seed": derive_trial_seed(experiment.search.seed, 0),
            "display_name": format_display_name(experiment.trial_template.display_name, parameters),
        }
    )


def strip_spec(spec: TrialSpec, experiment: ExperimentSpec) -> TrialSpec:
    """What a person may write of a spec that `complete_spec` has made: the API server accepts no more."""
    given = {parameter.name for parameter in experiment.parameters if parameter.is_sampled}
    return spec.model_copy(
        update={
            "index": UNNUMBERED,
            "parameters": {name: value for name, value in spec.parameters.items() if name in given},
            "seed": None,
            "display_name": "",
        }
    )


def _build_refusal(trial: Trial, problem: str, now: float) -> TrialStatus:
    """What the status of a Trial says that can't run."""
    time = format_rfc3339(now)
    conditions = set_condition(
        trial.status.conditions,
        ConditionType.ACCEPTED,
        False,
        str(TrialReason.REFUSED),
        problem,
        now=time,
        generation=trial.generation,
    )
    return TrialStatus(
        observed_generation=trial.generation,
        state=TrialState.ERROR,
        reason=TrialReason.REFUSED,
        message=problem,
        completion_time=time,
        conditions=list(conditions),
        transitions=trial.status.transitions,
    )
