"""Which trials go on: the schedulers and their settings."""

from __future__ import annotations

from typing import Self

from pydantic import Field, model_validator

from podtune.api.model import ApiModel, FieldError
from podtune.api.objective import MetricName


class FifoSettings(ApiModel):
    """First in, first out: every trial runs to its own end."""


class AshaSettings(ApiModel):
    """Asynchronous successive halving, stopping variant (Li et al., 2020, https://arxiv.org/abs/1810.05934)."""

    time_attribute: MetricName = Field(
        default="training_iteration",
        description="The result that counts a trial's progress, such as epoch; it must never fall.",
    )
    max_time: int = Field(ge=1, description="A trial is stopped when its time attribute reaches this.")
    grace_period: int = Field(default=1, ge=1, description="No trial is stopped before this; the first rung.")
    reduction_factor: int = Field(
        default=4, ge=2, le=100, description="Of the trials at a rung, about one in this many goes on."
    )
    brackets: int = Field(default=1, ge=1, le=10, description="Number of brackets; bracket s starts at the s-th rung.")

    @model_validator(mode="after")
    def _check(self) -> Self:
        if self.max_time < self.grace_period:
            raise FieldError(
                "maxTime",
                f"maxTime {self.max_time} is below gracePeriod {self.grace_period}; raise maxTime or lower gracePeriod",
            )
        return self


class Scheduler(ApiModel):
    """Which trials go on: exactly one scheduler; fifo when none is given."""

    fifo: FifoSettings | None = Field(default=None, description="Every trial runs to its own end.")
    asha: AshaSettings | None = Field(default=None, description="Asynchronous successive halving, stopping variant.")

    @model_validator(mode="after")
    def _check(self) -> Self:
        given = [name for name, field in SCHEDULERS.items() if getattr(self, field) is not None]
        if len(given) > 1:
            raise ValueError(
                f"scheduler needs exactly one of {', '.join(SCHEDULERS)}; found {' and '.join(given)}; keep one of them"
            )
        return self


SCHEDULERS = {field.alias or name: name for name, field in Scheduler.model_fields.items()}
"""All schedulers, as a manifest spells them, and their fields in the model."""
