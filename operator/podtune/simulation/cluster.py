"""The model of a cluster: GPUs, and how long things take."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from podtune.api.pods.pod_template import find_trial_container
from podtune.simulation.clock import NOTHING_DUE, Clock

_ROUNDING = 1e-9
"""Sevenths don't add up to 1 exactly."""


@dataclass(frozen=True, slots=True)
class ClusterModel:
    """What a simulated cluster is like; times in seconds.

    Attributes:
        gpus: How many GPUs it has; None for as many as are asked for. A pod waits until there are enough, first come,
            first served.
        pod_start: From the moment a pod has its GPUs until training starts: image, container, imports.
        pod_stop: From a pod's deletion until its program has ended; its agent may have to store checkpoints then.
        restore: How much longer the start takes where there is a checkpoint to restore.
        checkpoint: How long storing a checkpoint takes, one after the other; training goes on meanwhile.
        checkpoint_every: The program takes a checkpoint every so many iterations, where there is a store; 0 for only
            when one is asked for, as before a pause.
        crashes_per_hour: How often the program fails, per hour of training; such a failure spends one of maxFailures.
        evaluation: How long the program of an evaluation runs.
        disruptions_per_hour: How often a pod is taken away, per hour of training; half of the times, its agent has no
            time to store what the program has reported.
    """

    gpus: float | None = None
    pod_start: float = 20.0
    pod_stop: float = 5.0
    restore: float = 5.0
    checkpoint: float = 5.0
    checkpoint_every: int = 1
    evaluation: float = 60.0
    crashes_per_hour: float = 0.0
    disruptions_per_hour: float = 0.0


def set_limits(pod_spec: Mapping[str, Any], limits: Mapping[str, str]) -> Mapping[str, Any]:
    """A pod's spec whose training container has these limits besides those of its own that are not among them."""
    if not limits:
        return pod_spec
    training = find_trial_container(pod_spec)
    containers = [
        _set_limits(container, limits) if container.get("name", "") == training else container
        for container in pod_spec["containers"]
    ]
    return {**pod_spec, "containers": containers}


def _set_limits(container: Mapping[str, Any], limits: Mapping[str, str]) -> Mapping[str, Any]:
    resources = container.get("resources") or {}
    return {**container, "resources": {**resources, "limits": {**(resources.get("limits") or {}), **limits}}}


class GpuPool:
    """The GPUs of the cluster, and who waits for some."""

    def __init__(self, clock: Clock, total: float | None) -> None:
        """Makes a cluster whose GPUs are all free; `total` None for as many as are asked for."""
        self._clock = clock
        self._free = NOTHING_DUE if total is None else total
        self._queue: deque[tuple[float, str, Callable[[], None]]] = deque()
        self._used = 0.0
        self._seconds = 0.0
        self._since = clock.now

    @property
    def hours(self) -> float:
        """How long GPUs have been taken so far, all of them together, in hours."""
        return (self._seconds + self._used * (self._clock.now - self._since)) / 3600

    def take(self, count: float, pod: str, taken: Callable[[], None]) -> None:
        """Calls `taken` as soon as there are so many free, at once if there are, after those who wait already."""
        self._queue.append((count, pod, taken))
        self._serve()

    def give_back(self, count: float) -> None:
        """Frees so many."""
        self._use(-count)
        self._serve()

    def leave(self, pod: str) -> None:
        """The pod no longer waits."""
        self._queue = deque(entry for entry in self._queue if entry[1] != pod)
        self._serve()

    def _serve(self) -> None:
        while self._queue and self._queue[0][0] <= self._free + _ROUNDING:
            count, _, taken = self._queue.popleft()
            self._use(count)
            taken()

    def _use(self, count: float) -> None:
        self._seconds += self._used * (self._clock.now - self._since)
        self._since = self._clock.now
        self._used += count
        self._free -= count
