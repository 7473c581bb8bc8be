"""Figures as they are committed: what was measured, on what machine and when; and what has changed since."""

from __future__ import annotations

import datetime
import json
import os
import platform
import time
import traceback
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

from rich.console import Console
from rich.table import Table

DIRECTORY = Path(__file__).with_name("figures")
BUSY = 0.3
"""Share of the processors that others may use before a run without its figures being called those of a busy machine."""
LOOK_SECONDS = 3.0

Figures = Mapping[str, Any]
"""By part of a benchmark: the machine, what was found on it, and which promises it breaks."""
Found = tuple[Any, list[str]]
"""What a part has found, and which promises it breaks."""


@dataclass(frozen=True)
class Change:
    """One figure, then and now."""

    name: str
    before: float
    now: float

    @property
    def ratio(self) -> float | None:
        """Now to then; None where it was 0."""
        return self.now / self.before if self.before else None


def run_parts(
    parts: Mapping[str, Callable[[], Found]],
    console: Console,
    *,
    committed: Path,
    headlines: Callable[[Figures], Mapping[str, float]],
    file: Path | None,
) -> int:
    """Runs parts of a benchmark one after the other, and compares what they find with what was committed last.

    A part that can't be measured does not keep the others from it.

    Args:
        parts: By name; each prints what it finds.
        console: Where to print.
        committed: The file of figures that were committed last.
        headlines: Picks the figures by which one benchmark is compared with another.
        file: Where to write; parts that were not run stay there as they are.

    Returns:
        The exit code: 1 where a promise is not held, or a part could not be measured.
    """
    machine()  # before it is busy with what is measured
    before = read(committed)  # which may be the file that is written
    figures: dict[str, Any] = {}
    problems: list[str] = []
    for name, measure in parts.items():
        try:
            found, broken = measure()
        except Exception as error:  # noqa: BLE001 - said below, and the exit code tells
            traceback.print_exc()
            problems.append(f"not measured: {name}: {error}")
            continue
        figures[name] = {"machine": machine(), "figures": found, "broken": broken}
        problems += [f"not held: {promise}" for promise in broken]
        if file is not None:  # at once: an hour of figures is not to be lost with the last of them
            file.write_text(json.dumps({**read(file), name: figures[name]}, indent=1) + "\n", encoding="utf-8")
    console.print(_comparison(compare(headlines(before), headlines(figures)), before))
    for problem in problems:
        console.print(f"[red]{problem}[/red]")
    return 1 if problems else 0


@cache
def machine() -> dict[str, str]:
    """What the figures were measured with, and when; not where."""
    busy = ", busy with other work at the same time" if _busy_share() > BUSY else ""
    return {
        "date": datetime.datetime.now(datetime.UTC).date().isoformat(),
        "processors": f"{os.cpu_count()} processors{busy}",
        "python": platform.python_version(),
    }


def read(file: Path) -> dict[str, Any]:
    """The figures of a file; none where there is no such file."""
    if not file.exists():
        return {}
    figures: dict[str, Any] = json.loads(file.read_text(encoding="utf-8"))
    return figures


def compare(before: Mapping[str, float], now: Mapping[str, float]) -> Sequence[Change]:
    """The figures that are there on both sides."""
    return [Change(name, before[name], figure) for name, figure in now.items() if name in before]


def make_table(title: str, *columns: str) -> Table:
    """A table of names and, to their right, figures."""
    table = Table(title=title, title_justify="left")
    for place, column in enumerate(columns):
        table.add_column(column, justify="right" if place else "left", no_wrap=True)
    return table


def _comparison(changes: Sequence[Change], before: Figures) -> Table:
    """What was found beside what was committed last."""
    machines = {part["machine"]["date"]: part["machine"] for part in before.values()}
    measured = "; ".join(f"{date}, {words['processors']}, Python {words['python']}" for date, words in machines.items())
    title = f"Beside the committed figures ({measured or 'none'})"
    table = make_table(title, "", "committed", "now", "now / committed")
    for change in changes:
        ratio = "-" if change.ratio is None else f"{change.ratio:.2f}"
        table.add_row(change.name, f"{change.before:.4g}", f"{change.now:.4g}", ratio)
    return table


def _busy_share() -> float:
    """The share of all processors that is used at present."""
    before = _processor_ticks()
    time.sleep(LOOK_SECONDS)
    busy, idle = (after - ticks for after, ticks in zip(_processor_ticks(), before, strict=True))
    return busy / max(busy + idle, 1)


def _processor_ticks() -> tuple[int, int]:
    """How long the processors have worked and have been idle so far."""
    ticks = [int(word) for word in Path("/proc/stat").read_text(encoding="ascii").split("\n", 1)[0].split()[1:9]]
    idle = ticks[3] + ticks[4]
    return sum(ticks) - idle, idle
