"""The record as drawings: curves over the time of day, and the configurations in the order in which they came.

Both are revealed from their beginning on. So a browser that has them whole shows any moment at once, and the server
draws the same up to a moment.
"""

from __future__ import annotations

import json
from bisect import bisect_right
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache

from podtune.dashboard.charts.contour import FINEST, ContourAxis, divide_axis, place_dot
from podtune.dashboard.charts.learning.curves import DENSE_CURVES
from podtune.dashboard.charts.learning.frame import Frame
from podtune.dashboard.charts.plots import SIZE
from podtune.dashboard.charts.replay.moment import Moment
from podtune.dashboard.charts.replay.record import NewBest, ProposalOrigin, Track, find_source
from podtune.dashboard.charts.replay.tape import Tape
from podtune.dashboard.charts.scales import Scale, fit_to_most
from podtune.dashboard.search_axes import SearchAxis
from podtune.dashboard.trial_rows import TrialRow

NUMBER = "number of the trial"
"""An axis that every experiment has."""
MOST_DRAWN_RESULTS = 12_000
"""So many results are drawn: of very many trials an even sample, and those that were the best."""
BUNDLE = 40
_KEPT = 3
_UNITS = ((7200.0, 3600.0, "hours"), (120.0, 60.0, "minutes"), (0.0, 1.0, "seconds"))


@dataclass(frozen=True, slots=True)
class CurveDrawing:
    """Curves up to a moment.

    Attributes:
        paths: Those of trials, faint.
        running: Those of trials that run.
        best: The best value that was known.
        now: Where the moment is, from 0 to 1.
        drawn: How many trials have a curve in the drawing, at the end.
        total: How many have one.
    """

    frame: Frame
    paths: Sequence[str]
    running: str
    best: str
    now: float
    drawn: int
    total: int

    @property
    def is_dense(self) -> bool:
        """Whether its curves would hide each other."""
        return self.drawn > DENSE_CURVES


@dataclass(frozen=True, slots=True)
class MapMark:
    """A trial in the map, in per cent of the box."""

    row: TrialRow
    x: float
    y: float

    @property
    def source(self) -> ProposalOrigin:
        """Where its configuration comes from."""
        return find_source(self.row.view)


@dataclass(frozen=True, slots=True)
class MapDrawing:
    """Where the search had looked.

    Attributes:
        dots: Path of all configurations.
        newest: The latest ones that have a place, the newest first.
        running: Path of trials that ran.
        best: What was the best; None where it has no place.
    """

    x: ContourAxis
    y: ContourAxis
    dots: str
    newest: Sequence[MapMark]
    running: str
    best: MapMark | None


def draw_moment(moment: Moment, *, has_past: bool = True) -> CurveDrawing | None:
    """Curves up to a moment; None where the whole record has no value.

    Args:
        moment: The moment.
        has_past: Whether all curves are drawn, and not only those of running trials.
    """
    tape = moment.tape
    if not tape.gains:
        return None
    frame, shown = fit_record(tape), _select(tape)
    running = [then.track for then in moment.running if then.track is not None]
    return CurveDrawing(
        frame=frame,
        paths=_bundle(draw_track(track, frame, tape, moment.time) for track in shown) if has_past else (),
        running="".join(draw_track(track, frame, tape, moment.time) for track in running),
        best=draw_gains(tape, moment.gains, moment.time) if has_past else "",
        now=moment.share,
        drawn=len(shown),
        total=len(tape.tracks),
    )


@lru_cache(maxsize=_KEPT)
def fit_record(tape: Tape) -> Frame:
    """The scales of the whole record: they stay as they are while it is played."""
    unit, word = next((unit, word) for least, unit, word in _UNITS if tape.length >= least)
    metric, sign = tape.experiment.metrics[0], tape.experiment.signs[0]
    y = fit_to_most([value for track in tape.tracks for _, _, value in track.results] or [0.0], sign)
    return Frame(Scale(0.0, tape.length / unit), y, f"{word} since the start", metric, unit)


def draw_track(track: Track, frame: Frame, tape: Tape, until: float) -> str:
    """A trial's curve in steps: a value stands until the next one is known. Empty where none was known yet."""
    known = track.results[: bisect_right(track.results, until, key=lambda each: each[0])]
    last = min(track.row.ended if track.row.ended is not None else tape.end, until)
    points = [(time, value) for time, step, value in known if step is not None] or [(at, to) for at, _, to in known]
    return _draw_steps(points, last, frame, tape.begin)


def draw_gains(tape: Tape, gains: Sequence[NewBest], until: float) -> str:
    """The best value known over time."""
    return _draw_steps([(gain.time, gain.value) for gain in gains], min(until, tape.end), fit_record(tape), tape.begin)


def _draw_steps(points: Sequence[tuple[float, float]], last: float, frame: Frame, begin: float) -> str:
    if not points:
        return ""
    parts: list[str] = []
    at: tuple[int, int] | None = None
    for time, value in points:
        x, y = frame.place(((time - begin) / frame.unit, value))
        if at is None:
            parts.append(f"M{x} {y}h0")
        else:
            parts.append((f"H{x}" if x != at[0] else "") + (f"V{y}" if y != at[1] else ""))
        at = x, y
    end = frame.place(((last - begin) / frame.unit, points[-1][1]))[0]
    if at is not None and end > at[0]:
        parts.append(f"H{end}")
    return "".join(parts)


@lru_cache(maxsize=_KEPT)
def _select(tape: Tape) -> Sequence[Track]:
    total = sum(len(track.results) for track in tape.tracks)
    if total <= MOST_DRAWN_RESULTS:
        return tape.tracks
    first = {gain.row.name for gain in tape.gains}
    share = MOST_DRAWN_RESULTS / total
    return [
        track
        for place, track in enumerate(tape.tracks)
        if track.row.name in first or int((place + 1) * share) > int(place * share)
    ]


def _bundle(paths: Iterable[str]) -> list[str]:
    lines = [path for path in paths if path]
    return ["".join(lines[first : first + BUNDLE]) for first in range(0, len(lines), BUNDLE)]


def list_axis_names(tape: Tape) -> list[str]:
    """What a map can have along its axes."""
    return [*(axis.name for axis in tape.experiment.axes), NUMBER]


def choose_axes(tape: Tape) -> tuple[str, str]:
    """What it has unless somebody asks for more: the first two parameters, if possible numbers that all trials have."""
    axes = sorted(tape.experiment.axes, key=lambda axis: (axis.is_conditional, bool(axis.choices)))
    names = [*(axis.name for axis in axes), NUMBER, NUMBER]
    return names[0], names[1]


def draw_map(moment: Moment, x_name: str, y_name: str, *, has_past: bool = True) -> MapDrawing:
    """The configurations that had been proposed: as they were proposed, for exploits change them later.

    Args:
        moment: The moment.
        x_name: What lies along the x axis.
        y_name: What lies along the y axis.
        has_past: Whether all are drawn, and not only the newest and those that run.
    """
    x, y, places = place_trials(moment.tape, x_name, y_name)
    best = next((_mark(gain.row, places) for gain in reversed(moment.gains[-1:])), None)
    return MapDrawing(
        x=x,
        y=y,
        dots=_draw_dots(places.get(row.name) for _, row in moment.tape.made[: moment.made]) if has_past else "",
        newest=[mark for row in moment.newest if (mark := _mark(row, places)) is not None],
        running=_draw_dots(places.get(then.row.name) for then in moment.running),
        best=best,
    )


@lru_cache(maxsize=_KEPT)
def place_trials(
    tape: Tape, x_name: str, y_name: str
) -> tuple[ContourAxis, ContourAxis, Mapping[str, tuple[int, int]]]:
    """Both axes, and where trials are in the box; those without one of both parameters are not."""
    x, y = _make_axis(tape, x_name), _make_axis(tape, y_name)
    places = {}
    for _, row in tape.made:
        at, to = _find_position(x, row), _find_position(y, row)
        if at is not None and to is not None:
            across, up = place_dot(x, at, row.view.index), place_dot(y, to, row.view.index * 7)
            places[row.name] = round(across * SIZE), round((1 - up) * SIZE)
    return x, y, places


@lru_cache(maxsize=_KEPT)
def write_tape(tape: Tape, x_name: str, y_name: str) -> str:
    """The drawings whole, as JSON: `made` has the second at which each dot of the map appears."""
    frame = fit_record(tape) if tape.gains else None
    _, _, places = place_trials(tape, x_name, y_name)
    made = [(time, places[row.name]) for time, row in tape.made if row.name in places]
    return json.dumps(
        {
            "length": tape.length,
            "curves": _bundle(draw_track(track, frame, tape, tape.end) for track in _select(tape)) if frame else [],
            "best": draw_gains(tape, tape.gains, tape.end) if frame else "",
            "stops": tape.stops,
            "made": [round(time - tape.begin, 3) for time, _ in made],
            "dots": [_draw_dots([place]) for _, place in made],
        },
        separators=(",", ":"),
    )


def _draw_dots(places: Iterable[tuple[int, int] | None]) -> str:
    return "".join(f"M{place[0]} {place[1]}h0" for place in dict.fromkeys(places) if place is not None)


def _mark(row: TrialRow, places: Mapping[str, tuple[int, int]]) -> MapMark | None:
    place = places.get(row.name)
    return None if place is None else MapMark(row, round(100 * place[0] / SIZE, 2), round(100 * place[1] / SIZE, 2))


def _make_axis(tape: Tape, name: str) -> ContourAxis:
    axis = next((axis for axis in tape.experiment.axes if axis.name == name), None)
    if axis is not None:
        return divide_axis(tape.experiment, axis, FINEST)
    high = float(max(row.view.index for _, row in tape.made))
    axis = SearchAxis(NUMBER, "", (), 0.0, max(high, 1.0), is_log=False, is_conditional=False)
    scale = Scale(axis.low, axis.high)
    ticks = [tick for tick in scale.list_ticks(5) if "." not in tick.label]
    return ContourAxis(NUMBER, scale, ticks, (), axis)


def _find_position(axis: ContourAxis, row: TrialRow) -> float | None:
    if axis.name == NUMBER:
        return float(row.view.index)
    return axis.axis.find_position(row.view.proposed.get(axis.name))
