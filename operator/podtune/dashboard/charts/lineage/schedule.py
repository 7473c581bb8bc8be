"""Which values the parameters had along a lineage: the schedule that its checkpoints were trained with."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from podtune.dashboard.charts.lineage.exploits import shorten_value
from podtune.dashboard.charts.lineage.stretches import Ancestor, Lineage
from podtune.dashboard.charts.scales import Scale, Tick, fit_scale
from podtune.dashboard.search_axes import SearchAxis
from podtune.dashboard.trial_rows import ExperimentRows

WIDTH, HEIGHT = 1000, 1000
_MOST_LABELS = 6


@dataclass(frozen=True, slots=True)
class SchedulePanel:
    """One parameter over the iterations.

    Attributes:
        line: Path of its values, in steps; it is broken where they are not on record.
        turns: Path of dots where another trial took over.
        last: The value at the end.
    """

    name: str
    y_ticks: Sequence[Tick]
    line: str
    turns: str
    last: str


@dataclass(frozen=True, slots=True)
class Schedule:
    """All parameters that changed.

    Attributes:
        panels: One for each of them.
        names: Their names.
        ancestors: The lineage.
        gaps: In how many of its stretches the parameters are not on record.
    """

    lineage: Lineage
    x_ticks: Sequence[Tick]
    panels: Sequence[SchedulePanel]
    names: Sequence[str]
    gaps: int

    @property
    def ancestors(self) -> Sequence[Ancestor]:
        """The stretches, the oldest first."""
        return self.lineage.ancestors


def draw_schedule(experiment: ExperimentRows, lineage: Lineage) -> Schedule | None:
    """The parameters that changed along a lineage; None where none did, as far as is known."""
    ancestors = lineage.ancestors
    changed = [axis for axis in experiment.axes if len(_list_values(ancestors, axis.name)) > 1]
    if not changed:
        return None
    x = Scale(0.0, max(ancestors[-1].end, 1.0))
    return Schedule(
        lineage=lineage,
        x_ticks=x.list_ticks(5),
        panels=[_draw_panel(axis, ancestors, x) for axis in changed],
        names=[axis.name for axis in changed],
        gaps=sum(each.configuration is None for each in ancestors),
    )


def _list_values(ancestors: Sequence[Ancestor], name: str) -> set[str]:
    """Its different values; numbers that are the same in six digits are the same."""
    known = [each.configuration for each in ancestors if each.configuration is not None]
    return {shorten_value(configuration.get(name, "")) for configuration in known}


def _draw_panel(axis: SearchAxis, ancestors: Sequence[Ancestor], x: Scale) -> SchedulePanel:
    known = [
        (each, position)
        for each in ancestors
        if each.configuration is not None
        and (position := axis.find_position(each.configuration.get(axis.name))) is not None
    ]
    y = Scale(-0.5, axis.high + 0.5) if axis.choices else fit_scale((at for _, at in known), is_log=axis.is_log)
    positions = {id(each): round(HEIGHT * (1 - y.place(at))) for each, at in known}
    parts: list[str] = []
    dots: list[str] = []
    at: tuple[float, int] | None = None
    for each in ancestors:
        height = positions.get(id(each))
        if height is None:
            at = None
            continue
        start, end = (round(WIDTH * x.place(step)) for step in (each.stretch.start, each.end))
        parts.append(
            f"V{height}H{end}" if at is not None and at[0] == each.stretch.start else f"M{start} {height}H{end}"
        )
        if each.stretch.exploit is not None:
            dots.append(f"M{start} {height}h0")
        at = each.end, height
    last = ancestors[-1].configuration or {}
    return SchedulePanel(
        name=axis.name,
        y_ticks=_list_ticks(axis, y),
        line="".join(parts),
        turns="".join(dots),
        last=last.get(axis.name, ""),
    )


def _list_ticks(axis: SearchAxis, y: Scale) -> list[Tick]:
    if not axis.choices:
        return y.list_ticks(4)
    step = -(-len(axis.choices) // _MOST_LABELS)
    return [Tick(y.place(float(at)), label) for at, label in list(enumerate(axis.choices))[::step]]
