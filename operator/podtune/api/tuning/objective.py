"""What is optimised, and the names of metrics."""

from __future__ import annotations

import math
from typing import Annotated, Literal, Self

from pydantic import Field, model_validator

from podtune.api.base import ApiModel, FieldError, Form

MetricName = Annotated[
    str,
    Field(max_length=128),
    Form(r"[^\s=]+", "is not a valid metric name; use at least one character, and no spaces or ="),
]


class Criterion(ApiModel):
    """A metric, and whether to maximise or minimise it."""

    metric: MetricName = Field(description="Name of the metric in the results that trials report.")
    mode: Literal["max", "min"] = Field(description="Whether to maximise (max) or minimise (min) the metric.")

    def is_better(self, value: float, than: float | None) -> bool:
        """Whether `value` beats `than`: any finite number beats nothing; what is not finite beats nothing at all."""
        if not math.isfinite(value):
            return False
        if than is None or not math.isfinite(than):
            return True
        return value > than if self.mode == "max" else value < than

    def make_comparable(self, value: float) -> float:
        """The value as used to compare trials: NaN if no finite number could ever beat it.

        A program that divides by 0 or overflows reports an infinity. A bad infinity counts as the worst value. A good
        one would undeservedly make the trial the best of all.
        """
        unbeatable = math.inf if self.mode == "max" else -math.inf
        return math.nan if value == unbeatable else value


class Objective(Criterion):
    """What to optimise: a metric, or several that are traded off against each other."""

    others: list[Criterion] = Field(
        default_factory=list,
        max_length=7,
        description=(
            "More metrics to optimise at the same time. The status then shows a Pareto front instead of a single best "
            "trial; status.best is still the best trial by the first metric."
        ),
    )
    missing: Literal["strict", "lenient"] = Field(
        default="strict",
        description=(
            "How to handle a result that lacks a metric the scheduler needs, and a trial that ends without reporting a "
            "finite number for the objective. strict: the trial ends in ERROR, and its message lists the metrics that "
            "were seen. lenient: the result is skipped and counted, and the trial ends without an error."
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
                problem = f"{name!r} is already optimised; name another metric, or remove it"
                raise FieldError(f"others[{position}].metric", problem)
        return self
