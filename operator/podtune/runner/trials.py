"""The trials of one experiment, and the parts that keep an index over them."""

from __future__ import annotations

from typing import Protocol

from podtune.runner.trial.machine import TrialMachine


class Trials(dict[str, TrialMachine]):
    """All trials of an experiment by name: the one collection that every part looks them up in.

    It stays the same object when its content is rebuilt, so parts that survive a rebuild may hold it.
    """

    def __init__(self, experiment: str) -> None:
        super().__init__()
        self._experiment = experiment

    def find_by_index(self, index: int) -> TrialMachine | None:
        """The trial with an index, if there is one."""
        return self.get(f"{self._experiment}-{index}")


class TrialIndex(Protocol):
    """Keeps what it needs of all trials up to date one trial at a time, so that nobody has to go through all."""

    def update(self, trial: TrialMachine, now: float) -> None:
        """Takes in what became of a trial."""
