"""What is optimised, and the names of metrics."""

from __future__ import annotations

import math
from typing import Annotated, Literal

from pydantic import Field

from podtune.api.model import ApiModel, Form

MetricName = Annotated[
    str, Field(max_length=128), Form(r"[^\s=]+", "can't name a metric; leave out spaces and =, and leave it not empty")
]


class Objective(ApiModel):
    """What to optimise."""

    metric: MetricName = Field(description="Name of the metric in the results that trials report.")
    mode: Literal["max", "min"] = Field(description="Whether more of the metric is better (max) or less (min).")
    missing: Literal["strict", "lenient"] = Field(
        default="strict",
        description=(
            "What becomes of a result that lacks a metric which the scheduler needs: strict ends the trial in ERROR and "
            "names the metrics that were seen; lenient passes the result over and counts it."
        ),
    )

    def is_better(self, value: float, than: float | None) -> bool:
        """Whether `value` beats `than`; anything beats nothing, and NaN beats nothing else."""
        if math.isnan(value):
            return False
        if than is None or math.isnan(than):
            return True
        return value > than if self.mode == "max" else value < than
