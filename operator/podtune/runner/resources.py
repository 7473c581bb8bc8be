"""Resource limits of a trial's training container, and what of them only this trial has.

They are composed here and nowhere else: those of `trialTemplate.limits`, of the rungs that the trial has passed. Later
ones come before earlier ones.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, field

from podtune.api.base import FieldError
from podtune.api.expressions.expression import Expression, ExpressionError, ExpressionValue, UnknownName
from podtune.api.pods.container_resources import check_amounts, is_device
from podtune.api.resources.experiment import ExperimentSpec
from podtune.api.tuning.scheduler import SchedulerSpec
from podtune.api.tuning.search_space import format_value
from podtune.tuning.searchers.base import Configuration


@dataclass(frozen=True, slots=True)
class TrialLimits:
    """The limits of a trial.

    Attributes:
        limits: What replaces the container's own limits, by resource name; "0" removes one.
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


def compose_limits(spec: ExperimentSpec, configuration: Configuration, rungs_passed: int) -> TrialLimits:
    """Composes the limits of a trial.

    Args:
        spec: The experiment's.
        configuration: What the trial runs with.
        rungs_passed: How many rungs it has passed.
    """
    template = spec.trial_template
    of_rungs = compute_limits(spec.scheduler, rungs_passed)
    try:
        computed = {
            name: amount
            for name, expression in template.computed_limits.items()
            if (amount := _compute(name, expression, configuration))
        }
    except FieldError as error:
        return TrialLimits(problem=str(error))
    return TrialLimits(
        limits={**template.fixed_limits, **computed, **of_rungs},
        shared={**template.fixed_limits, **of_rungs},
        shown={**computed, **of_rungs},
    )


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


def _compute(name: str, expression: Expression, configuration: Configuration) -> str:
    """Computes a limit; empty where it needs a parameter that the trial does not have.

    Raises:
        FieldError: It comes to nothing that a pod can ask for.
    """
    path = f"trialTemplate.limits.{name}"
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
