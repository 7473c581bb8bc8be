"""Makes deferrable status writes rarer the more experiments and trials one operator serves."""

from __future__ import annotations

LONGEST_WAIT = 30.0
"""Seconds that a write is held back at most, however many there are."""


class StatusWriteThrottle:
    """Counts the running experiments of all namespaces, and their trials that have a pod.

    One thread updates the counts, while machines may ask in others.
    """

    def __init__(self) -> None:
        self._pods: dict[str, int] = {}
        self._trials = 0

    def update(self, experiment: str, trials: int | None) -> None:
        """Takes in how many trials of an experiment have a pod; None if it has ended."""
        self._trials += (trials or 0) - self._pods.pop(experiment, 0)
        if trials is not None:
            self._pods[experiment] = trials

    def stretch_trial_wait(self, seconds: float, throttle_above: int) -> float:
        """Seconds that a trial's write may wait: longer where more trials than `throttle_above` have pods."""
        return _compute_wait(seconds, self._trials, throttle_above)

    def stretch_experiment_wait(self, seconds: float, throttle_above: int) -> float:
        """Seconds that an experiment's write may wait: longer if more experiments than `throttle_above` are running."""
        return _compute_wait(seconds, len(self._pods), throttle_above)


def _compute_wait(seconds: float, count: int, throttle_above: int) -> float:
    return max(seconds, min(seconds * count / throttle_above, LONGEST_WAIT))
