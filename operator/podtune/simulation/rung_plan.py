"""Plans the rungs and brackets of a scheduler, as they follow from its settings alone."""

from __future__ import annotations

import math
from dataclasses import dataclass

from podtune.api.resources.experiment import ExperimentSpec
from podtune.api.tuning.population import PopulationSettings
from podtune.api.tuning.scheduler import (
    AshaPromotionSettings,
    AshaSettings,
    HyperbandSettings,
    MedianSettings,
)
from podtune.tuning.schedulers.halving import rungs


@dataclass(frozen=True, slots=True)
class PlannedBracket:
    """A bracket of rungs.

    Attributes:
        number: Its number, as the scheduler counts.
        milestones: Its rungs, lowest first, in units of the time attribute.
        trials: How many trials are in it at its first rung, where that is fixed; None where trials are drawn into it.
        share: Which share of all trials is in brackets like this one.
    """

    number: int
    milestones: tuple[int, ...]
    trials: int | None
    share: float


def plan_brackets(spec: ExperimentSpec) -> tuple[PlannedBracket, ...]:
    """The brackets of an experiment's scheduler; none where it compares trials at no rungs."""
    match spec.scheduler.settings:
        case AshaSettings() as settings:
            return _plan_asha(settings)
        case AshaPromotionSettings() as settings:
            return _plan_promotion(settings)
        case HyperbandSettings() as settings:
            return _plan_hyperband(settings)
        case _:
            return ()


def plan_milestones(spec: ExperimentSpec, length: int) -> tuple[int, ...]:
    """Where a trial may be stopped, paused or changed, lowest first, up to `length`, which is where training ends."""
    settings = spec.scheduler.settings
    found = {rung for bracket in plan_brackets(spec) for rung in bracket.milestones}
    if isinstance(settings, MedianSettings):
        found = {settings.grace_period}
    elif isinstance(settings, PopulationSettings):
        found = set(range(settings.interval, length, settings.interval))
    return (*sorted(rung for rung in found if 0 < rung < length), length)


def _plan_asha(settings: AshaSettings) -> tuple[PlannedBracket, ...]:
    grace, limit, factor = settings.grace_period, settings.max_time, settings.reduction_factor
    found = [rungs.Bracket(grace, limit, factor, skipped).rungs for skipped in range(settings.brackets)]
    weights = [math.exp(len(bracket)) for bracket in found]
    return tuple(
        PlannedBracket(number, tuple(rung.milestone for rung in reversed(bracket)), None, weight / math.fsum(weights))
        for number, (bracket, weight) in enumerate(zip(found, weights, strict=True))
    )


def _plan_promotion(settings: AshaPromotionSettings) -> tuple[PlannedBracket, ...]:
    levels = settings.levels
    count = min(settings.brackets, len(levels))
    weights = [math.exp(len(levels) - skipped) for skipped in range(count)]
    return tuple(
        PlannedBracket(skipped, levels[skipped:], None, weights[skipped] / math.fsum(weights))
        for skipped in range(count)
    )


def _plan_hyperband(settings: HyperbandSettings) -> tuple[PlannedBracket, ...]:
    factor, sizes = settings.reduction_factor, settings.sizes
    found = [
        (count, math.ceil(sizes * factor**count / (count + 1)), settings.compute_first_milestone(count))
        for count in range(sizes)
        if settings.compute_first_milestone(count) > 0
    ]
    total = sum(trials for _, trials, _ in found)
    return tuple(
        PlannedBracket(count, tuple(first * factor**k for k in range(count)), trials, trials / total)
        for count, trials, first in found
    )
