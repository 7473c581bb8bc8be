"""Which trials continue: the schedulers and their settings."""

from __future__ import annotations

import math
from typing import Self

from pydantic import Field, field_validator, model_validator

from podtune.api.base import ApiModel, FieldError, key_by
from podtune.api.pods.container_resources import check_amounts
from podtune.api.pods.gpus import count_gpus_among
from podtune.api.pods.limit_names import LimitName, split_limit
from podtune.api.pods.quantities import Quantity
from podtune.api.tuning.objective import MetricName
from podtune.api.tuning.plugin import Plugin
from podtune.api.tuning.population import Pb2Settings, PbtSettings, PopulationSettings

_TIME_ATTRIBUTE = "The result that measures a trial's progress, such as epoch or time_total_s. It must never decrease."
_TIME_OF_RUNGS = f"{_TIME_ATTRIBUTE} A trial that skips a rung is compared there by the next value that it reports."


class FifoSettings(ApiModel):
    """First in, first out: every trial runs to its own end."""


class AshaSettings(ApiModel):
    """Asynchronous successive halving, stopping variant (Li et al., 2020, https://arxiv.org/abs/1810.05934)."""

    time_attribute: MetricName = Field(default="training_iteration", description=_TIME_ATTRIBUTE)
    max_time: int = Field(ge=1, description="A trial is stopped when its time attribute reaches this value.")
    grace_period: int = Field(
        default=1, ge=1, description="The first rung. No trial is stopped before its time attribute reaches it."
    )
    reduction_factor: int = Field(
        default=4, ge=2, le=100, description="About one in this many of the trials at a rung continues."
    )
    brackets: int = Field(default=1, ge=1, le=10, description="Number of brackets. Bracket s starts at the s-th rung.")

    @model_validator(mode="after")
    def _check(self) -> Self:
        if self.max_time < self.grace_period:
            raise FieldError(
                "maxTime",
                f"maxTime {self.max_time} is below gracePeriod {self.grace_period}; raise maxTime or lower gracePeriod",
            )
        return self


class AshaPromotionSettings(ApiModel):
    """Asynchronous successive halving, promotion variant (Li et al., 2020, https://arxiv.org/abs/1810.05934).

    Every trial is paused at every rung and gives its GPU back; the best of a rung are resumed as there are free slots.
    """

    time_attribute: MetricName = Field(default="training_iteration", description=_TIME_OF_RUNGS)
    max_time: int = Field(ge=2, description="A trial is stopped when its time attribute reaches this value.")
    grace_period: int = Field(default=1, ge=1, description="The first rung: every trial runs at least to here.")
    reduction_factor: int = Field(
        default=4, ge=2, le=100, description="Each rung is this many times as high as the one below it."
    )
    brackets: int = Field(
        default=1,
        ge=1,
        le=10,
        description="Number of brackets. A trial of bracket s is first paused at the s-th rung after the lowest one.",
    )

    @model_validator(mode="after")
    def _check(self) -> Self:
        if self.max_time <= self.grace_period:
            raise FieldError(
                "maxTime",
                f"maxTime {self.max_time} is not above gracePeriod {self.grace_period}, so there is no rung; raise "
                "maxTime or lower gracePeriod",
            )
        return self

    @property
    def levels(self) -> tuple[int, ...]:
        """The rungs, lowest first: gracePeriod times powers of reductionFactor, below maxTime."""
        levels = [self.grace_period]
        while levels[-1] * self.reduction_factor < self.max_time:
            levels.append(levels[-1] * self.reduction_factor)
        return tuple(levels)

    @property
    def most_rungs(self) -> int:
        """How many rungs a trial can pass."""
        return len(self.levels)


class HyperbandSettings(ApiModel):
    """HyperBand: synchronous successive halving in brackets (Li et al., 2018, https://arxiv.org/abs/1603.06560).

    A bracket's trials are paused at a rung until all of them have come in; then the best of them go on together.
    """

    time_attribute: MetricName = Field(default="training_iteration", description=_TIME_OF_RUNGS)
    max_time: int = Field(ge=2, description="No trial runs beyond this value of its time attribute.")
    reduction_factor: int = Field(
        default=3, ge=2, le=100, description="One in this many of the trials at a rung continues."
    )

    @model_validator(mode="after")
    def _check(self) -> Self:
        if self.max_time < self.reduction_factor:
            raise FieldError(
                "maxTime",
                f"maxTime {self.max_time} is below reductionFactor {self.reduction_factor}, so no trial would ever be "
                "stopped early; raise maxTime or lower reductionFactor",
            )
        return self

    @property
    def sizes(self) -> int:
        """S, the number of different brackets: number s of them passes s rungs."""
        return round(math.log(self.max_time) / math.log(self.reduction_factor)) + 1

    def compute_first_milestone(self, rungs: int) -> int:
        """r0, the first rung of a bracket of so many rungs; with 0, there is no such bracket."""
        return int(self.max_time * self.reduction_factor**-rungs)

    @property
    def most_rungs(self) -> int:
        """How many rungs a trial can pass."""
        return max(rungs for rungs in range(self.sizes) if self.compute_first_milestone(rungs) > 0)


class BohbSettings(HyperbandSettings):
    """HyperBand for BOHB (Falkner et al., 2018, https://arxiv.org/abs/1807.01774): the largest brackets come first.

    It goes with a search that learns from the values that trials reach at rungs.
    """


class MedianSettings(ApiModel):
    """The median stopping rule (Golovin et al., 2017, https://research.google/pubs/pub46180/)."""

    time_attribute: MetricName = Field(default="training_iteration", description=_TIME_ATTRIBUTE)
    grace_period: int = Field(
        default=1,
        ge=0,
        description="No trial is stopped before its time attribute reaches this. Means are taken from here on.",
    )
    min_samples: int = Field(
        default=3, ge=1, le=10_000, description="How many other trials must have come this far for a median to count."
    )
    min_time: int | None = Field(
        default=None,
        ge=0,
        description=(
            "With fewer samples than minSamples, a trial that has run longer than this is paused if others wait, so "
            "that they can catch up. In units of the time attribute. Without it, no trial is paused for others."
        ),
    )
    soft_stop: bool = Field(
        default=False,
        description=(
            "Whether to pause a trial below the median instead of stopping it. It resumes when no new trial waits, and "
            "is no longer compared."
        ),
    )

    @property
    def pauses(self) -> bool:
        """Whether it may pause trials, which go on from their checkpoints."""
        return self.soft_stop or self.min_time is not None


class RungResources(ApiModel):
    """Resource limits that a trial gets from a rung on."""

    at_rung: int = Field(
        ge=1, le=64, description="How many rungs a trial has passed when it is resumed with these limits."
    )
    limits: dict[LimitName, Quantity] = Field(
        min_length=1,
        max_length=16,
        description=(
            "Limits by resource name, such as nvidia.com/gpu or nvidia.com/mig-3g.20gb; in a gang with roles after the "
            "role, such as worker:nvidia.com/gpu. They replace the trial container's own limits and those of lower "
            "rungs; 0 removes a limit."
        ),
    )

    @field_validator("limits")
    @classmethod
    def _check(cls, limits: dict[str, str]) -> dict[str, str]:
        for name, amount in limits.items():
            check_amounts({split_limit(name)[1]: amount}, "")
        return limits

    @property
    def counts_gpus(self) -> bool:
        """Whether it gives GPUs to a pod."""
        return any(count_gpus_among({split_limit(name)[1]: amount}) for name, amount in self.limits.items())


class SchedulerSpec(ApiModel):
    """Which trials go on: exactly one scheduler; fifo when none is given."""

    fifo: FifoSettings | None = Field(default=None, description="Every trial runs to its own end.")
    asha: AshaSettings | None = Field(default=None, description="Asynchronous successive halving, stopping variant.")
    asha_promotion: AshaPromotionSettings | None = Field(
        default=None,
        description="Asynchronous successive halving, promotion variant: trials are paused at rungs, the best resumed.",
    )
    hyperband: HyperbandSettings | None = Field(
        default=None,
        description="HyperBand: trials are paused at a rung until all trials of their bracket have reached it.",
    )
    bohb: BohbSettings | None = Field(
        default=None, description="BOHB's HyperBand, largest brackets first, for a search that learns from rungs."
    )
    median: MedianSettings | None = Field(default=None, description="The median stopping rule.")
    pbt: PbtSettings | None = Field(
        default=None,
        description=(
            "Population based training: the worst trials continue from the checkpoints of the best, with perturbed "
            "parameters."
        ),
    )
    pb2: Pb2Settings | None = Field(
        default=None,
        description=(
            "Population based bandits: like pbt, but a model chooses the new parameters. Requires the operator's gp "
            "image (image.variant gp)."
        ),
    )
    plugin: Plugin | None = Field(
        default=None, description="A custom scheduler that is installed in the operator's image."
    )
    resources: list[RungResources] = Field(
        default_factory=list,
        max_length=16,
        description=(
            "Limits for trials that are resumed at a rung, lowest rung first, for example to give the best trials more "
            "GPUs."
        ),
        json_schema_extra=key_by("atRung"),
    )

    @model_validator(mode="after")
    def _check(self) -> Self:
        given = self.given
        if len(given) > 1:
            raise ValueError(
                f"scheduler needs exactly one of {', '.join(SCHEDULERS)}; found {' and '.join(given)}; keep one of them"
            )
        if self.resources:
            self._check_resources()
        return self

    @property
    def given(self) -> tuple[str, ...]:
        """The schedulers that are given, as a manifest spells them; at most one, or none for fifo."""
        return tuple(alias for alias, name in SCHEDULERS.items() if getattr(self, name) is not None)

    @property
    def name(self) -> str:
        """The scheduler that is given, as a manifest spells it; fifo where none is."""
        return next(iter(self.given), "fifo")

    @property
    def settings(self) -> ApiModel | None:
        """Its settings; None where it is fifo without being given."""
        settings: ApiModel | None = getattr(self, SCHEDULERS[self.name])
        return settings

    @property
    def pausing(self) -> AshaPromotionSettings | HyperbandSettings | None:
        """The settings of a scheduler that pauses trials at rungs and resumes some of them."""
        return self.asha_promotion or self.hyperband or self.bohb

    @property
    def needs_store(self) -> str | None:
        """The scheduler that is given, if it resumes trials from checkpoints, which have to be stored somewhere."""
        if self.median is not None and self.median.pauses:
            return "median, with softStop or minTime,"
        return next((name for name in self.given if name in (*RESUMING, *CLONING)), None)

    @property
    def population(self) -> tuple[str, PopulationSettings] | None:
        """The scheduler that changes configurations on the way, as a manifest spells it, and its settings."""
        if self.pbt is not None:
            return "pbt", self.pbt
        return None if self.pb2 is None else ("pb2", self.pb2)

    def _check_resources(self) -> None:
        if self.pausing is None:
            raise FieldError(
                "resources",
                f"{self.name} resumes no trial at a rung; use one of {', '.join(RESUMING)}, or remove resources",
            )
        rungs = [entry.at_rung for entry in self.resources]
        if doubled := {rung for rung in rungs if rungs.count(rung) > 1}:
            raise FieldError("resources", f"atRung {min(doubled)} is listed twice; give each rung one entry")
        if rungs != sorted(rungs):
            shown = ", ".join(map(str, rungs))
            raise FieldError("resources", f"atRung goes {shown}; put the entries in order, lowest rung first")
        if rungs[-1] > self.pausing.most_rungs:
            raise FieldError(
                f"resources[{len(rungs) - 1}].atRung",
                f"atRung {rungs[-1]} is never reached: with these settings of {self.name} a trial passes at most "
                f"{self.pausing.most_rungs} rungs; lower it or remove the entry",
            )


SCHEDULERS = {
    field.alias or name: name for name, field in SchedulerSpec.model_fields.items() if name not in {"resources"}
}
"""All schedulers, as a manifest spells them, and their fields in the model."""
RESUMING = ("ashaPromotion", "hyperband", "bohb")
"""Those that pause trials at rungs and resume some of them, with other resources if need be."""
CLONING = ("pbt", "pb2")
"""Those that have a trial go on from another one's checkpoint."""
