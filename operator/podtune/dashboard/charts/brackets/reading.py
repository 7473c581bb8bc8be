"""Reads brackets from what schedulers remember in the Trials' statuses; those of ASHA, whose rungs wait for nobody."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from pydantic import ValidationError

from podtune.api.tuning.scheduler import AshaPromotionSettings, AshaSettings, HyperbandSettings, SchedulerSpec
from podtune.dashboard.charts.brackets.outcomes import (
    BracketOutcome,
    BracketRung,
    ShownBracket,
    count_outcomes,
    explain_absence,
)
from podtune.dashboard.charts.brackets.synchronous import read_synchronous
from podtune.dashboard.charts.learning.rungs import TrialAtRung, list_rung_results
from podtune.dashboard.keeping import keep_by_trial
from podtune.dashboard.numbers import read_finite
from podtune.dashboard.trial_rows import ExperimentRows, ShownState, TrialRow
from podtune.tuning.schedulers.halving.rungs import Bracket as AshaBracket

SYNCHRONOUS = ("hyperband", "bohb")
HALVING = ("asha", "ashaPromotion", *SYNCHRONOUS)


def read_brackets(experiment: ExperimentRows) -> list[ShownBracket]:
    """The brackets that have trials, in the order in which they are filled."""
    if experiment.scheduler not in HALVING:
        return []
    settings = _read_settings(experiment)
    if experiment.scheduler in SYNCHRONOUS:
        return read_synchronous(experiment, settings if isinstance(settings, HyperbandSettings) else None)
    return _read_asynchronous(experiment, settings)


def _read_settings(experiment: ExperimentRows) -> object:
    """The scheduler's settings; None where a newer operator's can't be read."""
    try:
        return SchedulerSpec.model_validate(experiment.view.spec.get("scheduler") or {}).settings
    except ValidationError:
        return None


def _read_asynchronous(experiment: ExperimentRows, settings: object) -> list[ShownBracket]:
    rungs = _plan_asynchronous(experiment, settings)
    members: dict[int, list[TrialRow]] = {}
    for row in experiment.rows:
        number = read_finite(row.view.status.scheduler.get("bracket", {}).get("index"))
        if number is None and len(rungs) > 1:
            continue  # it is drawn into a bracket, and no record says into which yet
        members.setdefault(int(number or 0), []).append(row)
    results = dict(zip((row.name for row in experiment.rows), _read_rungs.read_all(experiment), strict=True))
    return [
        _build_asynchronous(number, rungs.get(number, ()), rows, results) for number, rows in sorted(members.items())
    ]


@keep_by_trial
def _read_rungs(row: TrialRow) -> Mapping[float, TrialAtRung]:
    """What was decided on a trial, by rung."""
    return {result.rung: result for result in list_rung_results(row)}


def _plan_asynchronous(experiment: ExperimentRows, settings: object) -> dict[int, tuple[float, ...]]:
    """The milestones of each bracket."""
    if isinstance(settings, AshaSettings):
        grace, limit, factor = settings.grace_period, settings.max_time, settings.reduction_factor
        return {
            number: tuple(float(rung.milestone) for rung in reversed(AshaBracket(grace, limit, factor, number).rungs))
            for number in range(settings.brackets)
        }
    if isinstance(settings, AshaPromotionSettings):
        count = min(settings.brackets, len(settings.levels))
        return {number: tuple(map(float, settings.levels[number:])) for number in range(count)}
    seen = {
        milestone
        for row in experiment.rows
        for name in row.view.status.scheduler.get("rungs", {})
        if (milestone := read_finite(name)) is not None
    }
    return {0: tuple(sorted(seen))}


def _build_asynchronous(
    number: int,
    milestones: Sequence[float],
    rows: Sequence[TrialRow],
    results: Mapping[str, Mapping[float, TrialAtRung]],
) -> ShownBracket:
    entered: Sequence[TrialRow] = rows
    rungs = []
    for milestone in milestones:
        is_last = milestone == milestones[-1]
        outcomes = {
            row.name: _find_asynchronous_outcome(row, milestone, results[row.name], is_last=is_last) for row in entered
        }
        cutoffs = [
            (result.entry.time, result.cutoff)
            for row in entered
            if (result := results[row.name].get(milestone)) is not None
            and result.entry is not None
            and result.cutoff is not None
        ]
        rungs.append(
            BracketRung(
                milestone=milestone,
                size=None,
                counts=count_outcomes(outcomes),
                awaited=[row for row in entered if outcomes[row.name] is BracketOutcome.AWAITED],
                cutoff=max(cutoffs)[1] if cutoffs else None,
            )
        )
        entered = [row for row in entered if outcomes[row.name] is BracketOutcome.PROMOTED]
    return ShownBracket(number, 0, rungs, len(rows), is_presumed=False)


def _find_asynchronous_outcome(
    row: TrialRow, milestone: float, results: Mapping[float, TrialAtRung], *, is_last: bool
) -> BracketOutcome:
    """What became of a trial at a rung. One that skipped it went on, and so did one that ended beyond it."""
    if any(rung > milestone for rung in results):
        return BracketOutcome.PROMOTED
    if row.progress is ShownState.DONE and (read_finite(row.view.status.progress) or 0.0) >= milestone:
        return BracketOutcome.FINISHED if is_last else BracketOutcome.PROMOTED
    if milestone not in results:
        return explain_absence(row)
    remembered = row.view.status.scheduler
    promoted = read_finite(remembered.get("promoted", {}).get("from"))
    if promoted is not None and promoted >= milestone:
        return BracketOutcome.PROMOTED
    if row.progress is ShownState.STOPPED:
        return BracketOutcome.STOPPED
    if "arrivals" in remembered:
        return explain_absence(row) if row.view.has_ended else BracketOutcome.WAITING
    return BracketOutcome.PROMOTED
