"""How many trials stand at which rung of a scheduler."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from podtune.api.names import TrialState
from podtune.cli.client.resources import TrialView
from podtune.cli.views.numbers import format_measure, read_finite

BEFORE_FIRST = 0.0
"""Stands for the place before the first rung."""


@dataclass(frozen=True, slots=True)
class RungStand:
    """The trials that came to a rung and to none above it.

    Attributes:
        rung: Where they stand; 0 for those that came to none.
        running: How many of them train.
        waiting: How many are paused or wait for a pod.
        ended: How many got no further.
    """

    rung: float
    running: int
    waiting: int
    ended: int

    @property
    def title(self) -> str:
        """The rung in a word."""
        return format_measure(self.rung).replace(",", "") if self.rung > BEFORE_FIRST else "start"


def count_stands(trials: Iterable[TrialView]) -> list[RungStand]:
    """Where trials stand, the lowest rung first; empty where no scheduler has put one at a rung."""
    counts: dict[float, Counter[str]] = {}
    for trial in trials:
        rungs = trial.status.scheduler.get("rungs", {})
        place = max((value for name in rungs if (value := read_finite(name)) is not None), default=BEFORE_FIRST)
        counts.setdefault(place, Counter())[_describe_state(trial)] += 1
    if not any(counts.keys() - {BEFORE_FIRST}):
        return []
    return [
        RungStand(place, counts[place]["running"], counts[place]["waiting"], counts[place]["ended"])
        for place in sorted(counts)
    ]


def _describe_state(trial: TrialView) -> str:
    return "ended" if trial.has_ended else "running" if trial.state == TrialState.RUNNING else "waiting"


def list_rung_rows(stands: Sequence[RungStand], unit: str, width: int) -> list[list[str]]:
    """A small table: the rungs side by side, and below each how many trials stand there.

    Where there is no room for all, the lowest rungs are left out, and the first cell says so.
    """
    rows = [
        ("running", [stand.running for stand in stands]),
        ("waiting", [stand.waiting for stand in stands]),
        ("ended", [stand.ended for stand in stands]),
    ]
    shown = [(name, list(map(str, counts))) for name, counts in rows if any(counts)]
    columns = [[stand.title, *(cells[place] for _, cells in shown)] for place, stand in enumerate(stands)]
    title = f"rungs ({unit})" if unit else "rungs"
    left = [title, *(f"  {name}" for name, _ in shown)]
    while len(columns) > 1 and _measure(left, columns) > width:
        del columns[0]
        left[0] = f"{title} …"
    return [[cell, *(column[place] for column in columns)] for place, cell in enumerate(left)]


def _measure(left: Sequence[str], columns: Sequence[Sequence[str]]) -> int:
    return max(map(len, left)) + sum(2 + max(map(len, column)) for column in columns)
