"""The GPUs and CPUs of this machine, dealt out to pods in the order in which they ask."""

from __future__ import annotations

import math
import os
import subprocess
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from podtune.api.pods.gpus import count_requested_gpus
from podtune.api.pods.pod_template import find_trial_container
from podtune.api.pods.quantities import parse_quantity

VISIBLE_GPUS = "CUDA_VISIBLE_DEVICES"
_NVIDIA_SECONDS = 20.0


@dataclass(frozen=True, slots=True)
class DeviceRequest:
    """What a pod needs."""

    gpus: int = 0
    cpus: float = 0.0


def read_request(pod_spec: Mapping[str, Any]) -> DeviceRequest:
    """What the spec of a pod asks for: parts of a GPU count as a whole one, the agent's CPU not at all."""
    training = find_trial_container(pod_spec)
    cpus = 0.0
    for container in pod_spec["containers"]:
        if container.get("name", "") == training:
            requests = (container.get("resources") or {}).get("requests") or {}
            cpus = float(parse_quantity(requests.get("cpu") or 0) or 0)
    return DeviceRequest(math.ceil(count_requested_gpus(pod_spec)), cpus)


def find_gpus(environ: Mapping[str, str], run: Callable[..., Any] = subprocess.run) -> tuple[str, ...]:
    """The GPUs of this machine, as CUDA_VISIBLE_DEVICES names them: those that it names already, or all."""
    if VISIBLE_GPUS in environ:
        return tuple(name.strip() for name in environ[VISIBLE_GPUS].split(",") if name.strip())
    try:
        listed = run(
            ["nvidia-smi", "--list-gpus"], capture_output=True, text=True, timeout=_NVIDIA_SECONDS, check=True
        ).stdout
    except (OSError, subprocess.SubprocessError):
        return ()
    count = sum(line.startswith("GPU ") for line in listed.splitlines())
    return tuple(map(str, range(count)))


def count_cpus() -> float:
    """How many CPUs this process may use."""
    affinity = getattr(os, "sched_getaffinity", None)
    return float(len(affinity(0)) if affinity is not None else os.cpu_count() or 1)


class DevicePool:
    """What is free, and who waits.

    Attributes:
        gpus: Those that are free; None on a machine that has none, where a request for some is passed over.
        cpus: How many are free; a pod that asks for more than there are gets all.
        total_gpus: How many GPUs the machine has.
    """

    def __init__(self, gpus: list[str] | None, cpus: float) -> None:
        """Takes a machine of which nothing is taken."""
        self.gpus = gpus
        self.cpus = cpus
        self.total_gpus = len(gpus or ())
        self._total_cpus = cpus
        self._queue: list[tuple[str, DeviceRequest, Callable[[Sequence[str]], None]]] = []
        self._held: dict[str, tuple[tuple[str, ...], float]] = {}

    def has(self, request: DeviceRequest) -> bool:
        """Whether the machine has as much, taken or not."""
        return self.gpus is None or request.gpus <= self.total_gpus

    def enter(self, pod: str, request: DeviceRequest, start: Callable[[Sequence[str]], None]) -> None:
        """Has a pod started with its GPUs as soon as it gets what it needs: at once, or when others have ended."""
        self._queue.append((pod, request, start))
        self._deal()

    def is_waiting(self, pod: str) -> bool:
        """Whether a pod has not got what it needs."""
        return any(waiting == pod for waiting, _, _ in self._queue)

    def leave(self, pod: str) -> None:
        """A pod waits no more, or has ended."""
        self._queue = [waiting for waiting in self._queue if waiting[0] != pod]
        gpus, cpus = self._held.pop(pod, ((), 0.0))
        if self.gpus is not None:
            self.gpus = sorted([*self.gpus, *gpus], key=_sort_key)
        self.cpus += cpus
        self._deal()

    def _deal(self) -> None:
        while self._queue:
            pod, request, start = self._queue[0]
            gpus = 0 if self.gpus is None else request.gpus
            cpus = min(request.cpus, self._total_cpus)
            if gpus > len(self.gpus or ()) or cpus > self.cpus + 1e-9:
                return
            del self._queue[0]
            taken = tuple((self.gpus or [])[:gpus])
            if self.gpus is not None:
                self.gpus = self.gpus[gpus:]
            self.cpus -= cpus
            self._held[pod] = (taken, cpus)
            start(taken)


def _sort_key(gpu: str) -> tuple[int, str]:
    return (int(gpu), "") if gpu.isdecimal() else (1 << 30, gpu)
