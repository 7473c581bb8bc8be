"""What trials use: time of programs, pods and GPUs, computed from when pods started and ended.

A trial's status holds what its attempts have used, in whole seconds. The current attempt is counted by its pod while
that is there, so no write is needed for it; its part in the status, as of the last write, is what counts when a pod is
gone and nobody saw it end.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from podtune.api.resources.trial import Consumption, TrialStatus, Usage
from podtune.runner.records import Pod

_NOTHING = Consumption(training_seconds=0, pod_seconds=0, gpu_seconds=0)


def measure_attempt(status: TrialStatus, pods: Sequence[Pod], now: float) -> Consumption:
    """What the current attempt has used so far; its pods are given by rank."""
    used = _measure_seen(pods, now)
    recorded = status.usage.attempt if status.usage is not None else None
    if recorded is None or not any(pod.gone and pod.started == 0.0 for pod in pods):
        return used
    return Consumption(
        training_seconds=max(used.training_seconds, recorded.training_seconds),
        pod_seconds=max(used.pod_seconds, recorded.pod_seconds),
        gpu_seconds=max(used.gpu_seconds, recorded.gpu_seconds),
    )


def sum_ended_attempts(status: TrialStatus) -> Consumption:
    """What all attempts but the current one have used."""
    usage = status.usage
    if usage is None:
        return _NOTHING
    part = usage.attempt or _NOTHING
    return Consumption(
        training_seconds=usage.training_seconds - part.training_seconds,
        pod_seconds=usage.pod_seconds - part.pod_seconds,
        gpu_seconds=usage.gpu_seconds - part.gpu_seconds,
    )


def sum_up(status: TrialStatus, pods: Sequence[Pod], now: float) -> Usage | None:
    """The usage to write while an attempt is running; None if there is none."""
    part = measure_attempt(status, pods, now)
    return _add(sum_ended_attempts(status), part, part if part != _NOTHING else None)


def conclude(status: TrialStatus, pods: Sequence[Pod], now: float) -> Usage | None:
    """What a status is to say when the current attempt has ended."""
    return _add(sum_ended_attempts(status), measure_attempt(status, pods, now), None)


def measure_training(status: TrialStatus, pod: Pod | None, now: float) -> float:
    """How long a trial's program has run, in seconds, over all attempts of both stages."""
    before = sum_ended_attempts(status).training_seconds
    return before + (_measure_training(pod, now) if pod is not None else 0.0)


@dataclass(frozen=True, slots=True)
class Total:
    """What an experiment has used.

    Attributes:
        pod_seconds: How long pods have been on nodes, added up.
        gpu_seconds: The same for each GPU that they held.
        pods: How many are on a node now.
        gpus: How many GPUs these hold.
    """

    pod_seconds: float
    gpu_seconds: float
    pods: int
    gpus: float


@dataclass(frozen=True, slots=True)
class _Part:
    """A trial's part: seconds that are over, and each pod that runs: since when, with how many GPUs."""

    pod_seconds: float
    gpu_seconds: float
    running: tuple[tuple[float, float], ...] = ()


class Totals:
    """Adds up what trials use; each is looked at when something happened to it, however many there are."""

    def __init__(self) -> None:
        self._parts: dict[str, _Part] = {}
        self._pod_seconds = 0.0
        self._gpu_seconds = 0.0
        self._running = 0
        self._gpus = 0.0
        self._origin = 0.0
        self._starts = 0.0
        self._gpu_starts = 0.0

    def update(self, trial: str, status: TrialStatus, pods: Sequence[Pod], now: float) -> None:
        """Takes in what became of a trial."""
        part = _measure_part(status, pods, now)
        before = self._parts.get(trial)
        if part == before:
            return
        if before is not None:
            self._add(before, -1)
        self._parts[trial] = part
        self._add(part, 1)

    def compute_total(self, now: float) -> Total:
        """The usage at that time, if whatever runs keeps running."""
        since_origin = now - self._origin if self._running else 0.0
        return Total(
            pod_seconds=self._pod_seconds + self._running * since_origin - self._starts,
            gpu_seconds=self._gpu_seconds + self._gpus * since_origin - self._gpu_starts,
            pods=self._running,
            gpus=self._gpus if self._running else 0.0,
        )

    def _add(self, part: _Part, sign: int) -> None:
        self._pod_seconds += sign * part.pod_seconds
        self._gpu_seconds += sign * part.gpu_seconds
        for since, gpus in part.running:
            if not self._running:
                self._origin, self._starts, self._gpu_starts, self._gpus = since, 0.0, 0.0, 0.0
            self._running += sign
            start = since - self._origin  # a small number, so that sums of many are exact to the microsecond
            self._starts += sign * start
            self._gpu_starts += sign * start * gpus
            self._gpus = round(self._gpus + sign * gpus, 9)


def _measure_part(status: TrialStatus, pods: Sequence[Pod], now: float) -> _Part:
    ended = sum_ended_attempts(status)
    running = tuple((pod.started, pod.gpus) for pod in pods if pod.started and not pod.is_over)
    used = _measure_seen([pod for pod in pods if pod.is_over], now) if running else measure_attempt(status, pods, now)
    return _Part(ended.pod_seconds + used.pod_seconds, ended.gpu_seconds + used.gpu_seconds, running)


def _measure_seen(pods: Sequence[Pod], now: float) -> Consumption:
    """What pods have used by when they began and ended; the program's time is that of rank 0."""
    on_nodes = [(max(0.0, (pod.ended or now) - pod.started), pod.gpus) for pod in pods if pod.started]
    return Consumption(
        training_seconds=round(sum(_measure_training(pod, now) for pod in pods if pod.rank == 0)),
        pod_seconds=round(sum(seconds for seconds, _ in on_nodes)),
        gpu_seconds=round(sum(seconds * gpus for seconds, gpus in on_nodes)),
    )


def _measure_training(pod: Pod, now: float) -> float:
    if pod.training_since == 0.0:
        return 0.0
    return max(0.0, (pod.training_until or pod.ended or now) - pod.training_since)


def _add(before: Consumption, attempt: Consumption, shown: Consumption | None) -> Usage | None:
    usage = Usage(
        training_seconds=before.training_seconds + attempt.training_seconds,
        pod_seconds=before.pod_seconds + attempt.pod_seconds,
        gpu_seconds=before.gpu_seconds + attempt.gpu_seconds,
        attempt=shown,
    )
    return usage if usage.pod_seconds or usage.training_seconds else None
