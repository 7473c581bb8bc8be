"""What one operator attends to at once: the more there is, the rarer it writes down what can wait."""

from __future__ import annotations

LONGEST_WAIT = 30.0
"""Seconds that what can wait is kept at most, however large the crowd."""


class Crowd:
    """The experiments that go on, of all namespaces, and their trials that have a pod.

    One thread tells of them, while machines may ask in others.
    """

    def __init__(self) -> None:
        """Nothing goes on yet."""
        self._pods: dict[str, int] = {}
        self._trials = 0

    def settle(self, experiment: str, trials: int | None) -> None:
        """Takes in how an experiment is.

        Args:
            experiment: Its UID.
            trials: How many of its trials have a pod; None where it does not go on.
        """
        self._trials += (trials or 0) - self._pods.pop(experiment, 0)
        if trials is not None:
            self._pods[experiment] = trials

    def wait_among_trials(self, seconds: float, few: int) -> float:
        """How long a trial's news may wait, where it may wait so long among no more trials than a few."""
        return _wait(seconds, self._trials, few)

    def wait_among_experiments(self, seconds: float, few: int) -> float:
        """How long an experiment's news may wait, where it may wait so long among no more experiments than a few."""
        return _wait(seconds, len(self._pods), few)


def _wait(seconds: float, count: int, few: int) -> float:
    return max(seconds, min(seconds * count / few, LONGEST_WAIT))
