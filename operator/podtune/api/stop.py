"""When a trial, or the whole experiment, has had enough."""

from __future__ import annotations

from pydantic import Field

from podtune.api.model import ApiModel, Duration
from podtune.api.objective import MetricName


class Stop(ApiModel):
    """When a trial, or the whole experiment, has had enough."""

    metrics: dict[MetricName, float] = Field(
        default_factory=dict,
        max_length=16,
        description=(
            "A trial is stopped when one of these metrics reaches its value: at least the value, or, for the "
            "objective's own metric with mode min, at most the value."
        ),
    )
    total_time: Duration | None = Field(
        default=None,
        description="The experiment ends after this time, such as 2h: running trials are stopped, no more are made.",
    )
