"""Tells which results the scalars make that a program has logged to files.

Each value of the objective is a result. It belongs to a step, and has the latest values of all other tags. A program
logs its tags one after the other: so a result waits for those that follow it at the same step, as far as they are there
already.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from podtune.agent.results.program_metrics import choose_metrics
from podtune.trial.layout import READ_FROM_KEY

STEP = "step"
_MAX_NAMES = 1000
"""Metrics whose latest values are kept."""
_FILE, _POSITION = "file", "position"


@dataclass(frozen=True, slots=True)
class ReadPosition:
    """How far a file was read.

    Attributes:
        file: Tells the file from others.
        position: Where in it the record ends.
    """

    file: str
    position: int

    def describe(self) -> dict[str, Any]:
        """As it stands in the results file."""
        return {_FILE: self.file, _POSITION: self.position}


@dataclass(frozen=True, slots=True)
class _Objective:
    """A value of the objective that waits for others of its step."""

    step: int
    value: float
    read_from: ReadPosition


class LoggedResults:
    """Takes one scalar after the other, in the order in which they were logged; not thread-safe."""

    def __init__(self, objective: str) -> None:
        """Takes none yet; `objective` is the name of the objective's metric."""
        self._objective = objective
        self._latest: dict[str, float] = {}
        self._last_step = 0
        self._pending: _Objective | None = None
        self._taken: dict[str, int] = {}
        """The place of the last value of the objective that was taken, by file: one that is read again is no news."""
        self._has_result = False

    def learn(self, line: Mapping[str, Any]) -> None:
        """Takes a line of the results file that an earlier process of this agent may have written."""
        place = line.get(READ_FROM_KEY)
        if not isinstance(place, dict):
            return
        file, position = place.get(_FILE), place.get(_POSITION)
        if isinstance(file, str) and isinstance(position, int):
            self._taken[file] = max(position, self._taken.get(file, 0))
            self._has_result = True

    def take(self, name: str, value: float, step: int, read_from: ReadPosition) -> Mapping[str, Any] | None:
        """Takes a scalar.

        Args:
            name: The metric's name.
            value: Its value.
            step: The step that it belongs to.
            read_from: Where it was read.

        Returns:
            The result that is complete now, for the scalar belongs to another; None where there is none.
        """
        is_objective = name == self._objective
        complete = None
        if self._pending is not None and (is_objective or step != self._pending.step):
            complete = self.complete()
        if is_objective and read_from.position > self._taken.get(read_from.file, 0):
            self._pending = _Objective(step, value, read_from)
            self._taken[read_from.file] = read_from.position
        elif name != STEP and (name in self._latest or len(self._latest) < _MAX_NAMES):
            self._latest[name] = value
        self._last_step = max(self._last_step, step)
        return complete

    def complete(self) -> Mapping[str, Any] | None:
        """The result that waits; None where there is none."""
        pending, self._pending = self._pending, None
        if pending is None:
            return None
        self._has_result = True
        self._latest[self._objective] = pending.value
        return self._build(pending.step, pending.read_from)

    def build_rest(self) -> Mapping[str, Any] | None:
        """What people are to see at the end of a program that never logged the objective; None where there is none."""
        if self._has_result or not self._latest:
            return None
        self._has_result = True
        return self._build(self._last_step, ReadPosition("", 0))

    def _build(self, step: int, read_from: ReadPosition) -> dict[str, Any]:
        chosen = choose_metrics({STEP: step, **self._latest}, (self._objective, STEP))
        return {**chosen, READ_FROM_KEY: read_from.describe()}
