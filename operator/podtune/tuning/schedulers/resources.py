"""What a trial's pod asks for after so many rungs."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from podtune.api.scheduler import RungResources


def limits_after(rungs_passed: int, resources: Iterable[RungResources]) -> Mapping[str, str]:
    """The limits that take the place of the trial container's own.

    Args:
        rungs_passed: How many rungs the trial has passed, as its scheduler counts them.
        resources: The manifest's `scheduler.resources`, in the order of their rungs.

    Returns:
        Quantities by resource name; a higher rung's take the place of a lower one's. A quantity of 0 means that the
        resource is not asked for, also where the template does. Kubernetes wants extended resources, such as GPUs, to
        be requested as they are limited: whoever applies these changes both.
    """
    limits: dict[str, str] = {}
    for entry in resources:
        if entry.at_rung <= rungs_passed:
            limits |= entry.limits
    return limits
