"""Resource limits of a trial's training containers, and what of them only this trial has.

They are composed here and nowhere else: those of `trialTemplate.limits`, of the rungs that the trial has passed, and
those that the trial has for itself: memory raised after an out-of-memory failure, and what a user has set. Later ones
come before earlier ones.
"""

from __future__ import annotations

import json
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from fractions import Fraction

from podtune.api.base import FieldError
from podtune.api.expressions.expression import Expression, ExpressionError, ExpressionValue, UnknownName
from podtune.api.pods.container_resources import check_amounts, find_memory_limit, is_device
from podtune.api.pods.limit_names import check_limit_roles, qualify_limit, split_limit
from podtune.api.pods.pod_template import find_trial_container
from podtune.api.pods.quantities import parse_quantity
from podtune.api.resources.experiment import ExperimentSpec
from podtune.api.resources.trial import TrialSpec, TrialStatus
from podtune.api.tuning.scheduler import SchedulerSpec
from podtune.api.tuning.search_space import format_value
from podtune.tuning.searchers.base import Configuration


@dataclass(frozen=True, slots=True)
class TrialLimits:
    """The limits of a trial.

    Attributes:
        limits: What replaces the container's own limits, by name (see `limit_names`); "0" removes one.
        shared: What they are without those that only this trial has.
        shown: Those that people are told of: the others are the same for all trials.
        problem: Why there are none that a pod can have; empty where there are.
    """

    limits: Mapping[str, str] = field(default_factory=dict)
    shared: Mapping[str, str] = field(default_factory=dict)
    shown: Mapping[str, str] = field(default_factory=dict)
    problem: str = ""

    @property
    def are_own(self) -> bool:
        """Whether other trials have other ones, so that a refusal says nothing about them."""
        return self.limits != self.shared


CONTAINER_LIMITS = TrialLimits()
"""The container's own limits hold."""
MEMORY = "memory"
_NONE: Mapping[str, str] = {}


def compose_limits(
    spec: ExperimentSpec, configuration: Configuration, rungs_passed: int, own: Mapping[str, str] = _NONE
) -> TrialLimits:
    """Composes the limits of a trial.

    Args:
        spec: The experiment's.
        configuration: What the trial runs with.
        rungs_passed: How many rungs it has passed.
        own: Those that are on record for this trial alone.
    """
    fixed, of_rungs = list_fixed_limits(spec), compute_limits(spec.scheduler, rungs_passed)
    try:
        computed = {
            name: amount
            for role in spec.trial_template.ranked_roles
            for resource, expression in role.template.computed_limits.items()
            if (name := qualify_limit(role.name, resource)) not in own
            and (amount := _compute(resource, f"{role.path}.limits.{resource}", expression, configuration))
        }
    except FieldError as error:
        return TrialLimits(problem=str(error))
    return TrialLimits(
        limits={**fixed, **computed, **of_rungs, **own},
        shared={**fixed, **of_rungs},
        shown={**computed, **of_rungs, **own},
    )


def list_fixed_limits(spec: ExperimentSpec) -> dict[str, str]:
    """The limits of the template that are the same for all trials."""
    return {
        qualify_limit(role.name, resource): amount
        for role in spec.trial_template.ranked_roles
        for resource, amount in role.template.fixed_limits.items()
    }


def choose_own_limits(
    spec: ExperimentSpec, without: Mapping[str, str], trial: TrialSpec, status: TrialStatus
) -> dict[str, str]:
    """Chooses the limits that a trial's next attempt has for itself.

    Args:
        spec: The experiment's.
        without: The limits that it would have without these.
        trial: What its user asks for.
        status: Whether its memory was raised; it is never lowered by that.
    """
    own, raised = dict(trial.limits), status.raised_memory
    if raised is None:
        return own
    for role in spec.trial_template.ranked_roles:
        name, limit = qualify_limit(role.name, MEMORY), raised.find_limit(role.name)
        pod_spec = role.template.spec
        given = without.get(name) or find_memory_limit(pod_spec, find_trial_container(pod_spec))
        if limit and name not in own and _measure(given) < _measure(limit):
            own[name] = limit
    return own


def find_limits_problem(limits: Mapping[str, str], roles: Sequence[str]) -> str:
    """What is wrong with the limits that a user has set for a trial; empty where nothing is.

    Args:
        limits: The limits, by name.
        roles: Names of the roles of its pods, if they have some.
    """
    try:
        check_limit_roles(limits, roles, "spec.limits")
        for name, amount in limits.items():
            check_amounts({split_limit(name)[1]: amount}, "spec.limits")
    except FieldError as error:
        return str(error)
    return ""


def write_own_limits(limits: Mapping[str, str]) -> str:
    """The limits that a trial has for itself as its pods name them; empty where there are none."""
    return json.dumps(dict(limits), sort_keys=True, separators=(",", ":")) if limits else ""


def _measure(amount: str) -> Fraction:
    """Bytes of a memory limit; 0 where there is none."""
    return parse_quantity(amount) or Fraction()


def compute_limits(settings: SchedulerSpec, rungs_passed: int) -> dict[str, str]:
    """The limits that a trial gets from a rung on, by resource name."""
    found: dict[str, str] = {}
    for entry in settings.resources:
        if entry.at_rung <= rungs_passed:
            found |= entry.limits
    return found


def show_limits(limits: Mapping[str, str]) -> str:
    """Such as `nvidia.com/gpu 4, memory 64Gi`; empty where there are none."""
    return ", ".join(f"{name} {amount}" for name, amount in limits.items() if amount != "0")


def _compute(name: str, path: str, expression: Expression, configuration: Configuration) -> str:
    """Computes a limit of a resource; empty where it needs a parameter that the trial does not have.

    Raises:
        FieldError: It comes to nothing that a pod can ask for.
    """
    try:
        amount = _format_amount(name, expression.evaluate(configuration))
        check_amounts({name: amount}, "")
    except UnknownName:
        return ""
    except ExpressionError as error:
        raise FieldError(path, f"the expression {expression.text!r} has no value ({error}); correct it") from error
    except FieldError as error:
        what = error.problem.partition(";")[0]
        raise FieldError(path, f"{what}: the expression {expression.text!r} comes to that; correct it") from error
    return amount


def _format_amount(name: str, value: ExpressionValue) -> str:
    """Writes what an expression comes to; a part of a byte or of a thousandth of a CPU is rounded up."""
    if not isinstance(value, float) or not math.isfinite(value):
        return format_value(value)
    if value.is_integer():
        return str(int(value))
    if name == "cpu":
        return f"{math.ceil(round(value * 1000, 3))}m"
    return format_value(value) if is_device(name) else str(math.ceil(value))
