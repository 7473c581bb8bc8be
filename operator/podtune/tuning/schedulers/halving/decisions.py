"""Decisions that all schedulers with rungs share."""

from __future__ import annotations

from podtune.tuning.numbers import shorten
from podtune.tuning.schedulers.base import SchedulerAction, SchedulerDecision


def stop_at_max_time(time_attribute: str, time: float, limit: int) -> SchedulerDecision:
    """Stops a trial that has had its full time, the manifest's `maxTime`."""
    message = f"stopped at {time_attribute} {shorten(time)}: maxTime {limit} is reached"
    return SchedulerDecision(SchedulerAction.STOP, message, {"time": time, "maxTime": limit}, full=True)


def keep_paused(milestone: int) -> SchedulerDecision:
    """Pauses a trial that reports once more on its way to the pause at a rung."""
    return SchedulerDecision(SchedulerAction.PAUSE, f"is already paused at rung {milestone}", {"rung": milestone})
