"""What one operator attends to at once: the more there is, the rarer it writes down what can wait."""

from __future__ import annotations

import threading

LONGEST_WAIT = 10.0
"""In a crowd, what can wait is written at most so many times later."""


class Crowd:
    """The experiments and trials that run, of all namespaces. Machines decide in threads, too, and tell of it there."""

    def __init__(self) -> None:
        """Nothing runs yet."""
        self._running: dict[str, int] = {}
        self._trials = 0
        self._lock = threading.Lock()

    def settle(self, experiment: str, running: int) -> None:
        """Takes in how many trials of an experiment run.

        Args:
            experiment: Its UID.
            running: How many.
        """
        with self._lock:
            self._trials += running - self._running.pop(experiment, 0)
            if running:
                self._running[experiment] = running

    def wait_among_trials(self, seconds: float, few: int) -> float:
        """How long a trial's news may wait, where it may wait so long among no more trials than a few."""
        return seconds * _times(self._trials, few)

    def wait_among_experiments(self, seconds: float, few: int) -> float:
        """How long an experiment's news may wait, where it may wait so long among no more experiments than a few."""
        return seconds * _times(len(self._running), few)


def _times(count: int, few: int) -> float:
    return min(max(1.0, count / few), LONGEST_WAIT)
