"""What each trial says on importance: its values, and its parameters by cells."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import chain
from typing import Any, NamedTuple

from podtune.dashboard.keeping import keep_by_block, keep_by_trial
from podtune.dashboard.search_axes import SearchAxis
from podtune.dashboard.trial_rows import ExperimentRows, ShownState, TrialRow
from podtune.tuning.importance import ParameterCells, count_cells, find_cell

ENDED_STATES = frozenset({ShownState.DONE, ShownState.STOPPED})


class TrialCase(NamedTuple):
    """What a trial says on importance.

    Attributes:
        values: The objectives' values; none where it has not ended well.
        positions: The values of its parameters, as axes have them.
        cells: The same by cells; -1 for a parameter that it does without.
    """

    values: tuple[float | None, ...]
    positions: tuple[float | None, ...]
    cells: tuple[int, ...]


def list_valued_trials(experiment: ExperimentRows, place: int) -> list[TrialRow]:
    """The trials that say something on importance: those that have ended well, with a value of the objective."""
    return [row for row in experiment.rows if row.progress in ENDED_STATES and row.values[place] is not None]


def find_all_cells(experiment: ExperimentRows, rows: Sequence[TrialRow]) -> list[ParameterCells]:
    """The values that trials have of all parameters, by cells."""
    axes, counts = experiment.axes, count_all_cells(experiment)
    return collect_cells([_read_case(row, axes, counts) for row in rows], axes, counts)


def count_all_cells(experiment: ExperimentRows) -> tuple[int, ...]:
    """How many cells each axis has: each choice has one, and numbers have at most fifty."""
    domains = {str(each.get("name")): each for each in experiment.view.spec.get("parameters") or ()}
    return tuple(
        len(axis.choices) or count_cells(axis.low, axis.high, find_step(domains.get(axis.name, {})), is_log=axis.is_log)
        for axis in experiment.axes
    )


@keep_by_trial
def _read_case(row: TrialRow, axes: tuple[SearchAxis, ...], counts: tuple[int, ...]) -> TrialCase:
    values = row.view.parameters
    positions = tuple(axis.find_position(values.get(axis.name)) for axis in axes)
    cells = (_find_cell(axis, count, at) for axis, count, at in zip(axes, counts, positions, strict=True))
    return TrialCase(row.values if row.progress in ENDED_STATES else (), positions, tuple(cells))


def _find_cell(axis: SearchAxis, count: int, position: float | None) -> int:
    if position is None:
        return -1
    return int(position) if axis.choices else find_cell(position, axis.low, axis.high, count, is_log=axis.is_log)


@keep_by_block(_read_case)
def list_cases(cases: Sequence[TrialCase]) -> Sequence[TrialCase]:
    """Those of trials that have ended well."""
    return [case for case in cases if case.values]


def list_losses(blocks: Sequence[Sequence[TrialCase]], place: int, sign: float) -> tuple[list[float], list[TrialCase]]:
    """The losses of the trials that have a value of an objective, less being better in both modes, and those trials."""
    cases = [case for case in chain.from_iterable(blocks) if case.values[place] is not None]
    return [-sign * (case.values[place] or 0.0) for case in cases], cases


def collect_cells(
    cases: Sequence[TrialCase], axes: Sequence[SearchAxis], counts: Sequence[int]
) -> list[ParameterCells]:
    """The cells by parameter; one that has the same value everywhere has one cell."""
    collected = []
    for at, (axis, count) in enumerate(zip(axes, counts, strict=True)):
        positions, cells = [case.positions[at] for case in cases], [case.cells[at] for case in cases]
        if len({*positions} - {None}) < 2:
            cells = [min(cell, 0) for cell in cells]
            collected.append(ParameterCells(axis.name, 1, is_ordered=True, cells=cells))
        else:
            collected.append(ParameterCells(axis.name, count, is_ordered=not axis.choices, cells=cells))
    return collected


def find_step(domain: Mapping[str, Any]) -> float | None:
    """The distance of a parameter's values, as the manifest has it; None where they are continuous or choices."""
    for kind, usual in (("int", 1.0), ("float", None)):
        bounds = domain.get(kind)
        if isinstance(bounds, Mapping):
            step = bounds.get("step")
            return float(step) if isinstance(step, int | float) and step > 0 else usual
    return None
