"""What a part of the operator's benchmark has found: named figures, and what they were measured on."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from typing import Any

from rich.table import Table

from e2e.bench.figures import Figures, make_table
from e2e.bench.targets import TARGETS

MOST_MILLISECONDS = 10_000
"""From here on, people read seconds more easily."""


@dataclass(frozen=True)
class Figure:
    """One figure; by its name it is compared with the one committed last, and with its target."""

    name: str
    value: float
    unit: str = ""

    @property
    def text(self) -> str:
        """As people read it."""
        if self.unit == "ms" and self.value >= MOST_MILLISECONDS:
            return Figure(self.name, self.value / 1000, "s").text
        digits = 0 if abs(self.value) >= 100 else 2 if abs(self.value) >= 1 else 3
        return f"{self.value:,.{digits}f} {self.unit}".strip()

    @property
    def verdict(self) -> str:
        """Whether it meets its target; empty where it has none."""
        target = TARGETS.get(self.name)
        return "" if target is None else "held" if target.holds(self.value) else "not held"


@dataclass(frozen=True)
class Measurement:
    """What a part has found.

    Attributes:
        setting: What was run, in a sentence.
        broken: Promises that are broken other than by a figure that misses its target.
    """

    setting: str
    figures: Sequence[Figure]
    broken: Sequence[str] = field(default_factory=list)

    @property
    def problems(self) -> list[str]:
        """All promises that are broken."""
        missed = [f"{figure.name}: {figure.text}" for figure in self.figures if figure.verdict == "not held"]
        return [*missed, *self.broken]

    def table(self) -> Table:
        """The figures beside their targets."""
        table = make_table(self.setting, "", "figure", "target", "")
        for figure in self.figures:
            target = TARGETS.get(figure.name)
            table.add_row(figure.name, figure.text, target.text if target else "", figure.verdict)
        return table

    def to_json(self) -> dict[str, Any]:
        """As it is committed."""
        return {"setting": self.setting, "figures": [asdict(figure) for figure in self.figures]}


Part = Callable[[bool], Measurement]
"""Measures; in full, or so much that it fits into ten minutes with all others."""


def measured(figures: Figures, part: str) -> list[Figure]:
    """The committed figures of a part."""
    return [Figure(**figure) for figure in figures[part]["figures"]["figures"]] if part in figures else []


def headlines(figures: Figures) -> Mapping[str, float]:
    """All figures by name."""
    return {figure.name: figure.value for part in figures for figure in measured(figures, part)}


def percentile(values: Sequence[float], share: float) -> float:
    """The smallest value that so large a share of them is not above; NaN where there are none."""
    ordered = sorted(values)
    return ordered[max(0, math.ceil(share * len(ordered)) - 1)] if ordered else math.nan
