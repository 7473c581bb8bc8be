"""A population as a family tree: a lane for each trial, and an arc for each checkpoint that another one took."""

from __future__ import annotations

import json
from bisect import bisect_right
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from podtune.dashboard.charts.learning.compared import shorten_name
from podtune.dashboard.charts.learning.frame import list_metrics
from podtune.dashboard.charts.lineage.exploits import RecordedExploit
from podtune.dashboard.charts.lineage.stretches import Lineage, Population, Stretch, read_population, trace_lineage
from podtune.dashboard.charts.scales import Scale, Tick
from podtune.dashboard.keeping import keep_chart
from podtune.dashboard.numbers import NONE, format_apart, format_measure
from podtune.dashboard.trial_rows import ExperimentRows, ShownState, TrialRow

WIDTH, HEIGHT = 2000, 1000
MOST_LANES = 120
"""So many trials are drawn: the chosen one's ancestors, then the best."""
MOST_ARCS = 1500
"""So many exploits are drawn, the latest."""
COLOURS = 6
"""Colours of the objective, from bad to good."""
UNVALUED = COLOURS
_LANE_HEIGHTS = ((8, 40), (24, 26), (48, 17))
_LEAST_HEIGHT = 12
"""Pixels of a lane where there are more of them."""
_BULGES = (18.0, 64.0)
"""How far arcs swing out to the left, the shortest and the longest."""
_SAMPLES = 12
MOST_PARAMETERS = 12
"""So many parameters are named under the pointer; the table has all."""


@dataclass(frozen=True, slots=True)
class LineageLane:
    """A trial's row.

    Attributes:
        y: The middle of it, in per cent.
        label: As much of the trial's name as tells it from the others.
        end: Where a failed trial ends, in per cent of the width.
    """

    row: TrialRow
    y: float
    label: str
    is_chosen: bool
    is_ancestor: bool
    end: float | None


@dataclass(frozen=True, slots=True)
class Arc:
    """An exploit in the chart.

    Attributes:
        level: Colour of the donor's score.
        is_ancestral: Whether the chosen trial's weights went along it.
    """

    exploit: RecordedExploit
    path: str
    level: int
    is_ancestral: bool
    points: Sequence[tuple[int, int]]


@dataclass(frozen=True, slots=True)
class ColourScale:
    """Colours that equally many values have each: trials of a population soon differ in the third digit alone.

    Attributes:
        bounds: Goodness from which the next colour holds, ascending.
        worst: The worst value.
        best: The best value.
        sign: 1 where high values are good, otherwise -1.
    """

    bounds: Sequence[float]
    worst: float
    best: float
    sign: float

    def find_level(self, value: float | None) -> int:
        """The colour of a value, 0 for the worst."""
        return UNVALUED if value is None else bisect_right(self.bounds, self.sign * value)


def fit_colours(values: Sequence[float], sign: float) -> ColourScale:
    """Divides values into as many colours as there are."""
    ordered = sorted(sign * value for value in values)
    if not ordered:
        return ColourScale((), 0.0, 0.0, sign)
    bounds = [ordered[len(ordered) * level // COLOURS] for level in range(1, COLOURS)]
    return ColourScale(bounds, sign * ordered[0], sign * ordered[-1], sign)


@dataclass(frozen=True, slots=True)
class FamilyTree:
    """The chart.

    Attributes:
        lineage: The ancestry that is marked.
        kept: Paths of what trials trained that was not given up, by level.
        given_up: Paths of what they gave up when they took another one's checkpoint, by level.
        ancestry: Path of the ancestry.
        unexplained: Where exploits begin that are in curves alone.
        arcs: Those drawn.
        exploits: All on record, the oldest first.
        lost: How many exploits are seen in curves alone.
    """

    experiment: ExperimentRows
    metric: str
    lanes: Sequence[LineageLane]
    height: int
    x_ticks: Sequence[Tick]
    colours: ColourScale
    kept: Mapping[int, str]
    given_up: Mapping[int, str]
    ancestry: str
    unexplained: str
    arcs: Sequence[Arc]
    exploits: Sequence[RecordedExploit]
    lineage: Lineage | None
    lost: int

    @property
    def title(self) -> str:
        """What it shows."""
        return "Family tree: who continued from whose checkpoint"

    @property
    def density(self) -> str:
        """How thick lanes are."""
        return "wide" if self.height / max(len(self.lanes), 1) > 30 else "dense" if len(self.lanes) > 48 else "normal"


@keep_chart
def draw_family_tree(experiment: ExperimentRows, name: str) -> FamilyTree | None:
    """The family tree with a trial's ancestry; None where no trial has come to anything."""
    population = read_population(experiment)
    longest = max((stretch.end for found in population.stretches.values() for stretch in found), default=0.0)
    if not longest:
        return None
    metric, sign = list_metrics(experiment)[0]
    lineage = trace_lineage(population, name)
    rows = _select_rows(experiment, lineage)
    drawing = _draw_trials(rows, population, Scale(0.0, longest * 1.01), sign)
    return FamilyTree(
        experiment=experiment,
        metric=metric,
        lanes=_list_lanes(rows, population, lineage, name, drawing),
        height=len(rows) * next((height for most, height in _LANE_HEIGHTS if len(rows) <= most), _LEAST_HEIGHT),
        x_ticks=drawing.x.list_ticks(8),
        colours=drawing.colours,
        kept={level: "".join(parts) for level, parts in sorted(drawing.kept.items())},
        given_up={level: "".join(parts) for level, parts in sorted(drawing.given_up.items())},
        ancestry=drawing.draw_lineage(lineage) if lineage else "",
        unexplained="".join(drawing.unexplained),
        arcs=_draw_arcs(population, lineage, drawing),
        exploits=population.exploits,
        lineage=lineage,
        lost=population.unexplained,
    )


@keep_chart
def write_arc_points(experiment: ExperimentRows, name: str) -> str:
    """The arcs as JSON, to name them under the pointer; see `podtune.dashboard.charts.learning.curves.write_items`."""
    tree = draw_family_tree(experiment, name)
    arcs = sorted(tree.arcs, key=lambda arc: (arc.exploit.entry.time, arc.exploit.row.view.index)) if tree else ()
    changed = dict.fromkeys(change.name for arc in arcs for change in arc.exploit.changes)
    names = list(changed)[:MOST_PARAMETERS]
    items = []
    for arc in arcs:
        exploit = arc.exploit
        changes = {change.name: change.sentence for change in exploit.changes}
        facts = [
            format_measure(exploit.left),
            describe_scores(exploit) or NONE,
            *(changes.get(name, NONE) for name in names),
        ]
        word = f"continued from iteration {format_measure(exploit.checkpoint)} of {exploit.donor}"
        xs, ys = zip(*arc.points, strict=True)
        items.append([exploit.row.name, word, xs, ys, *([fact] * len(xs) for fact in facts)])
    labels = ["gave up at iteration", "scores", *names]
    return json.dumps({"labels": labels, "items": items}, ensure_ascii=False, separators=(",", ":"))


def describe_scores(exploit: RecordedExploit) -> str:
    """Both trials' scores: 0.9209 < 0.9373; empty where they are not on record."""
    own, other = exploit.value, exploit.donor_value
    if own is None or other is None:
        return ""
    sign = "<" if own < other else ">" if own > other else "="
    return f"{format_apart(own, other)} {sign} {format_apart(other, own)}"


def describe_changes(exploit: RecordedExploit) -> str:
    """The changed parameters in one line."""
    return "; ".join(f"{change.name} {change.sentence}" for change in exploit.changes)


def _select_rows(experiment: ExperimentRows, lineage: Lineage | None) -> list[TrialRow]:
    """Those that are drawn, by index, so that each stays in its place while others come."""
    if len(experiment.rows) <= MOST_LANES:
        return list(experiment.rows)
    first = [each.stretch.row for each in lineage.ancestors] if lineage else []
    chosen = {row.name: row for row in [*first, *experiment.ranked, *experiment.rows]}
    return sorted(list(chosen.values())[:MOST_LANES], key=lambda row: row.view.index)


def _draw_trials(rows: Sequence[TrialRow], population: Population, x: Scale, sign: float) -> _Drawing:
    """What the trials have trained, coloured by their values, each in the middle of its lane."""
    stretches = [population.stretches[row.name] for row in rows]
    values = [value for found in stretches for stretch in found for _, value in stretch.points if value is not None]
    places = {row.name: (place + 0.5) / len(rows) for place, row in enumerate(rows)}
    drawing = _Drawing(x, fit_colours(values, sign), places)
    for found in stretches:
        drawing.add_trial(found)
    return drawing


def _list_lanes(
    rows: Sequence[TrialRow], population: Population, lineage: Lineage | None, name: str, drawing: _Drawing
) -> list[LineageLane]:
    ancestors = {each.stretch.row.name for each in lineage.ancestors} if lineage else set()
    return [
        LineageLane(
            row=row,
            y=round(100 * drawing.places[row.name], 3),
            label=shorten_name(row.name, population.experiment.view.name),
            is_chosen=row.name == name,
            is_ancestor=row.name in ancestors,
            end=_find_failure(row, population, drawing.x),
        )
        for row in rows
    ]


def _draw_arcs(population: Population, lineage: Lineage | None, drawing: _Drawing) -> list[Arc]:
    """The latest exploits between trials that are drawn; those of the marked ancestry lie above the others."""
    ancestral = {id(exploit) for exploit in lineage.exploits} if lineage else set()
    drawn = [
        exploit
        for exploit in population.exploits
        if exploit.row.name in drawing.places and exploit.donor in drawing.places and not exploit.is_undone
    ]
    arcs = [drawing.make_arc(exploit, is_ancestral=id(exploit) in ancestral) for exploit in drawn[-MOST_ARCS:]]
    return sorted(arcs, key=lambda arc: arc.is_ancestral)


def _find_failure(row: TrialRow, population: Population, x: Scale) -> float | None:
    if row.progress is not ShownState.FAILED:
        return None
    return round(100 * x.place(population.stretches[row.name][-1].end), 2)


class _Drawing:
    """Paths by colour, in a box that is stretched."""

    def __init__(self, x: Scale, colours: ColourScale, places: Mapping[str, float]) -> None:
        self.x = x
        self.colours = colours
        self.places = places
        self.kept: dict[int, list[str]] = {}
        self.given_up: dict[int, list[str]] = {}
        self.unexplained: list[str] = []

    def add_trial(self, stretches: Sequence[Stretch]) -> None:
        """Draws a trial's stretches; what it gave up for another one's checkpoint lies above the rest."""
        lane = HEIGHT / len(self.places)
        for place, stretch in enumerate(stretches):
            y = HEIGHT * self.places[stretch.row.name]
            limit = min((later.start for later in stretches[place + 1 :]), default=stretch.end)
            limit = max(min(limit, stretch.end), stretch.start)
            for start, end, level in self._list_parts(stretch):
                if start < limit:
                    self._draw(self.kept, level, start, min(end, limit), y)
                if end > limit:
                    self._draw(self.given_up, level, max(start, limit), end, y - 0.3 * lane)
            if stretch.is_unexplained and place:
                self.unexplained.append(f"M{self._x(stretch.start)} {y:.1f}h0")

    def draw_lineage(self, lineage: Lineage) -> str:
        """Where a trial's weights have been."""
        return "".join(
            f"M{self._x(each.stretch.start)} {y:.1f}H{self._x(each.end)}"
            for each in lineage.ancestors
            if (place := self.places.get(each.stretch.row.name)) is not None
            for y in [HEIGHT * place]
        )

    def make_arc(self, exploit: RecordedExploit, *, is_ancestral: bool) -> Arc:
        """An arc from a donor's lane to its clone's, at the iteration of the checkpoint."""
        x = self._x(exploit.checkpoint)
        top, bottom = (HEIGHT * self.places[name] for name in (exploit.donor, exploit.row.name))
        bulge = _BULGES[0] + (_BULGES[1] - _BULGES[0]) * abs(bottom - top) / HEIGHT
        turn = x - bulge
        value = exploit.donor_value if exploit.donor_value is not None else exploit.value
        points = []
        for step in range(_SAMPLES + 1):
            at = step / _SAMPLES
            outside = 3 * at * (1 - at)
            away = (1 - at) ** 3 + at**3
            height = top * ((1 - at) ** 3 + 3 * at * (1 - at) ** 2) + bottom * (at**3 + 3 * at**2 * (1 - at))
            points.append((round(x * away + turn * outside), round(height)))
        path = f"M{x} {top:.1f}C{turn:.0f} {top:.1f} {turn:.0f} {bottom:.1f} {x} {bottom:.1f}"
        return Arc(exploit, path, self.colours.find_level(value), is_ancestral, points)

    def _list_parts(self, stretch: Stretch) -> list[tuple[float, float, int]]:
        """The stretch in parts of one colour each."""
        parts: list[tuple[float, float, int]] = []
        at = stretch.start
        for step, value in stretch.points:
            level = self.colours.find_level(value)
            if parts and parts[-1][2] == level:
                parts[-1] = (parts[-1][0], step, level)
            elif step > at:
                parts.append((at, step, level))
            at = max(at, step)
        if at < stretch.end:
            parts.append((at, stretch.end, parts[-1][2] if parts else UNVALUED))
        return parts

    def _draw(self, paths: dict[int, list[str]], level: int, start: float, end: float, y: float) -> None:
        paths.setdefault(level, []).append(f"M{self._x(start)} {y:.1f}H{self._x(end)}")

    def _x(self, step: float) -> int:
        return round(self.x.place(step) * WIDTH)
