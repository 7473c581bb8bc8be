"""Reads the brackets of HyperBand and BOHB, whose rungs wait for all their trials."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from podtune.api.tuning.scheduler import HyperbandSettings
from podtune.dashboard.charts.brackets.outcomes import (
    BracketOutcome,
    BracketRung,
    ShownBracket,
    count_outcomes,
    explain_absence,
)
from podtune.dashboard.charts.learning.frame import list_metrics
from podtune.dashboard.keeping import keep_by_trial
from podtune.dashboard.numbers import read_finite
from podtune.dashboard.trial_rows import ExperimentRows, ShownState, TrialRow

BracketKey = tuple[int, int]
"""Band and place in it, in the order in which brackets are filled."""
_Key = tuple[bool, float, int]


@dataclass(frozen=True, slots=True)
class BracketPlan:
    """A bracket as settings have it: its milestones, and how many trials there is room for at each."""

    milestones: tuple[float, ...]
    sizes: tuple[int | None, ...]


def plan_hyperband(settings: HyperbandSettings, halvings: int) -> BracketPlan:
    """A bracket of HyperBand, in the arithmetic of its scheduler."""
    factor, limit = settings.reduction_factor, settings.max_time
    size, milestone = (
        math.ceil(settings.sizes / (halvings + 1) * factor**halvings),
        settings.compute_first_milestone(halvings),
    )
    sizes, milestones = [size], [milestone]
    for _ in range(halvings):
        sizes.append(math.ceil(sizes[-1] / factor))
        milestones.append(min(milestones[-1] * factor, limit))
    return BracketPlan(tuple(map(float, milestones)), tuple(sizes))


@dataclass(frozen=True, slots=True)
class _Record:
    """What HyperBand remembers of a trial."""

    row: TrialRow
    halvings: int
    band: int
    round: int
    values: Mapping[float, float]
    lines: Mapping[float, _Key]

    @property
    def key(self) -> BracketKey:
        """Its bracket."""
        return self.band, self.halvings


def read_synchronous(experiment: ExperimentRows, settings: HyperbandSettings | None) -> list[ShownBracket]:
    """The brackets that have trials, in the order in which they are filled.

    Args:
        experiment: Whose brackets they are.
        settings: The scheduler's; None where a newer operator's can't be read.
    """
    _, sign = list_metrics(experiment)[0]
    known = _read_record.read_all(experiment, sign)
    records = {record.row.name: record for record in known if record is not None}
    order = _order_brackets(experiment, settings, {record.key for record in records.values()})
    plans = {
        key: plan_hyperband(settings, key[1])
        if settings is not None
        else _guess_plan([record for record in records.values() if record.key == key])
        for key in order
    }
    members = _assign(experiment, records, order, plans)
    return [_build_synchronous(key, plans[key], rows, records, sign) for key in order if (rows := members.get(key))]


@keep_by_trial
def _read_record(row: TrialRow, sign: float) -> _Record | None:
    remembered = row.view.status.scheduler
    bracket = remembered.get("bracket", {})
    halvings, band, round_ = (read_finite(bracket.get(name)) for name in ("s", "band", "round"))
    if halvings is None or band is None:
        return None
    return _Record(
        row=row,
        halvings=int(halvings),
        band=int(band),
        round=int(round_ or 0),
        values={
            milestone: float(text)
            for name, text in remembered.get("rungs", {}).items()
            if (milestone := read_finite(name)) is not None and _is_number(text)
        },
        lines={
            milestone: line
            for name, text in remembered.get("lines", {}).items()
            if (milestone := read_finite(name)) is not None and (line := _read_line(text, sign)) is not None
        },
    )


def _read_line(text: str, sign: float) -> _Key | None:
    """The last trial that was promoted, such as `0.7 by trial 3 of 9`."""
    value, _, rest = text.partition(" by trial ")
    trial = rest.partition(" ")[0]
    return _rank(float(value), int(trial), sign) if _is_number(value) and trial.isdecimal() else None


def _is_number(text: str) -> bool:
    try:
        float(text)
    except ValueError:
        return False
    return True


def _rank(value: float, trial: int, sign: float) -> _Key:
    """By which HyperBand compares trials: NaN is the worst, and of equal ones the later is the better."""
    return (False, 0.0, trial) if math.isnan(value) else (True, sign * value, trial)


def _order_brackets(
    experiment: ExperimentRows, settings: HyperbandSettings | None, known: set[BracketKey]
) -> list[BracketKey]:
    """Bands and halvings of brackets in the order in which they are filled, one band more than is known."""
    bands = 2 + max((band for band, _ in known), default=-1)
    sizes = settings.sizes if settings is not None else 1 + max((halvings for _, halvings in known), default=-1)
    possible = [
        halvings for halvings in range(sizes) if settings is None or settings.compute_first_milestone(halvings) > 0
    ]
    if experiment.scheduler == "bohb":
        possible.reverse()
    listed = [(band, halvings) for band in range(bands) for halvings in possible]
    return [*listed, *sorted(known - set(listed))]


def _guess_plan(records: Sequence[_Record]) -> BracketPlan:
    milestones = sorted({milestone for record in records for milestone in (*record.values, *record.lines)})
    return BracketPlan(tuple(milestones), (None,) * len(milestones))


def _assign(
    experiment: ExperimentRows,
    records: Mapping[str, _Record],
    order: Sequence[BracketKey],
    plans: Mapping[BracketKey, BracketPlan],
) -> dict[BracketKey, list[TrialRow]]:
    """The trials of each bracket; one without a record is where there was room when it was made."""
    members: dict[BracketKey, list[TrialRow]] = {}
    for row in experiment.rows:
        if (record := records.get(row.name)) is not None:
            members.setdefault(record.key, []).append(row)
    taken = {key: len(rows) for key, rows in members.items()}
    place = 0
    for row in experiment.rows:
        record = records.get(row.name)
        if record is not None:
            place = max(place, order.index(record.key))
            continue
        if row.view.has_ended:
            continue  # it made room for another one
        while (
            place < len(order)
            and plans[order[place]].sizes
            and taken.get(order[place], 0) >= (plans[order[place]].sizes[0] or math.inf)
        ):
            place += 1
        if place < len(order):
            members.setdefault(order[place], []).append(row)
            taken[order[place]] = taken.get(order[place], 0) + 1
    return members


def _build_synchronous(
    key: BracketKey, plan: BracketPlan, rows: Sequence[TrialRow], records: Mapping[str, _Record], sign: float
) -> ShownBracket:
    known = [records[row.name] for row in rows if row.name in records]
    round_ = max((record.round for record in known), default=0)
    lines = {milestone: line for record in known for milestone, line in record.lines.items()}
    entered: Sequence[TrialRow] = rows
    rungs = []
    for place, milestone in enumerate(plan.milestones):
        is_over, is_last = place < round_, place + 1 == len(plan.milestones)
        line = lines.get(milestone)
        outcomes = {
            row.name: _find_outcome(
                records.get(row.name), row, milestone, line, is_over=is_over, is_last=is_last, sign=sign
            )
            for row in entered
        }
        rungs.append(
            BracketRung(
                milestone=milestone,
                size=plan.sizes[place],
                counts=count_outcomes(outcomes),
                awaited=[row for row in entered if outcomes[row.name] is BracketOutcome.AWAITED],
                cutoff=sign * line[1] if line is not None and line[0] else None,
            )
        )
        entered = [row for row in entered if outcomes[row.name] is BracketOutcome.PROMOTED]
    presumed = any(row.name not in records for row in rows)
    return ShownBracket(key[1], key[0], rungs, len(rows), is_presumed=presumed)


def _find_outcome(
    record: _Record | None,
    row: TrialRow,
    milestone: float,
    line: _Key | None,
    *,
    is_over: bool,
    is_last: bool,
    sign: float,
) -> BracketOutcome:
    """What became of a trial at a rung that it was to run to."""
    values = record.values if record is not None else {}
    if milestone not in values:
        return explain_absence(row)
    if any(later > milestone for later in values):
        return BracketOutcome.PROMOTED
    if is_last:
        return BracketOutcome.FINISHED if is_over or row.view.has_ended else BracketOutcome.WAITING
    if is_over:
        is_promoted = line is not None and _rank(values[milestone], row.view.index, sign) >= line
        return BracketOutcome.PROMOTED if is_promoted else BracketOutcome.STOPPED
    if not row.view.has_ended:
        return BracketOutcome.WAITING
    return BracketOutcome.STOPPED if row.progress is ShownState.STOPPED else explain_absence(row)
