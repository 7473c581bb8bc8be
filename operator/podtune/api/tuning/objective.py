"""What is optimised, and the names of metrics."""

from __future__ import annotations

import math
from typing import Annotated, Literal, Self

from pydantic import Field, model_validator

from podtune.api.base import ApiModel, FieldError, Form

MetricName = Annotated[
    str, Field(max_length=128), Form(r"[^\s=]+", "can't name a metric; leave out spaces and =, and leave it not empty")
]


class Criterion(ApiModel):
    """A metric, and which of its values are better."""

    metric: MetricName = Field(description="Name of the metric in the results that trials report.")
    mode: Literal["max", "min"] = Field(description="Whether more of the metric is better (max) or less (min).")

    def is_better(self, value: float, than: float | None) -> bool:
        """Whether `value` beats `than`: any finite number beats nothing; what is not finite beats nothing at all."""
        if not math.isfinite(value):
            return False
        if than is None or not math.isfinite(than):
            return True
        return value > than if self.mode == "max" else value < than

    def comparable(self, value: float) -> float:
        """The value as those are told of it that compare trials: NaN where no finite number could ever beat it.

        A program that divides by 0 or overflows reports an infinity. The bad one is what it looks like, the worst
        value; the good one would make the trial the best of all, and is no merit.
        """
        unbeatable = math.inf if self.mode == "max" else -math.inf
        return math.nan if value == unbeatable else value


class Objective(Criterion):
    """What to optimise: a metric, or several that are traded off against each other."""

    others: list[Criterion] = Field(
        default_factory=list,
        max_length=7,
        description=(
            "Further metrics to optimise at the same time: there is no single best trial then, but a Pareto front, "
            "which the status shows. The first metric still names the best trial."
        ),
    )
    missing: Literal["strict", "lenient"] = Field(
        default="strict",
        description=(
            "What becomes of a result that lacks a metric which the scheduler needs, and of a trial that ends without "
            "ever having reported a finite number for the objective: strict ends the trial in ERROR, naming what was "
            "seen; lenient passes the result over and counts it, and takes such an end for a good one."
        ),
    )

    @property
    def criteria(self) -> tuple[Criterion, ...]:
        """All that is optimised, in the manifest's order."""
        return (self, *self.others)

    @model_validator(mode="after")
    def _check(self) -> Self:
        names = [criterion.metric for criterion in self.criteria]
        for position, name in enumerate(names[1:]):
            if name in names[: position + 1]:
                problem = f"{name!r} is optimised already; name another metric, or remove it"
                raise FieldError(f"others[{position}].metric", problem)
        return self
