"""Resource limits that a trial gets from a rung on."""

from __future__ import annotations

from collections.abc import Mapping

from podtune.api.tuning.scheduler import SchedulerSpec


def compute_limits(settings: SchedulerSpec, rungs_passed: int) -> dict[str, str]:
    """The limits that replace the training container's own, by resource name; "0" removes a limit."""
    found: dict[str, str] = {}
    for entry in settings.resources:
        if entry.at_rung <= rungs_passed:
            found |= entry.limits
    return found


def show_limits(limits: Mapping[str, str]) -> str:
    """Such as `nvidia.com/gpu 4, memory 64Gi`; empty where there are none."""
    return ", ".join(f"{name} {amount}" for name, amount in limits.items() if amount != "0")
