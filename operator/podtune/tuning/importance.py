"""Which parameters matter: their importance by PED-ANOVA (Watanabe, Bansal and Hutter, 2023).

A parameter matters as much as the best trials' values of it are distributed otherwise than all trials' values. Both
densities are estimated on a grid of at most fifty cells, so the work hardly grows with the trials. A parameter that
some trials do without counts by how often the best trials have it (Conditional PED-ANOVA, 2026).
"""

from __future__ import annotations

import math
import random
import statistics
from bisect import bisect_left, bisect_right
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import accumulate, pairwise
from operator import mul

MOST_CELLS = 50
LEAST_TRIALS = 20
"""With fewer trials, the numbers would say more about chance than about parameters."""
LEAST_BEST = 5
"""So many trials are the best ones, however few there are."""
LEAST_ACTIVE = 3
"""So many of the best trials must have a parameter: one or two always look as if their values were no chance."""
BEST_SHARE = 0.1
RESAMPLES = 20
MOST_DRAWN = 2000
"""A resample has so many trials at most. Errors shrink with the root of their number, which makes up for it."""
MOST_RESAMPLED = 40
"""Of so many parameters, the most important ones, errors are computed; the others' are not worth the time."""
_INACTIVE = -1
_NOT_ZERO = 1e-12


@dataclass(frozen=True, slots=True)
class ParameterCells:
    """The values of one parameter, by the cells of a grid.

    Attributes:
        name: Its name.
        count: How many cells its range has.
        is_ordered: Whether a cell is close to the next one, as those of numbers are.
        cells: The cell of each trial; -1 where the trial does without the parameter.
    """

    name: str
    count: int
    is_ordered: bool
    cells: Sequence[int]


@dataclass(frozen=True, slots=True)
class Importance:
    """How much one parameter matters.

    Attributes:
        share: Its part of the importance of all parameters, from 0 to 1; None where too few of the best trials have it.
        error: Standard error of the share; None where it was not computed.
    """

    name: str
    share: float | None
    error: float | None


@dataclass(frozen=True, slots=True)
class ImportanceEstimate:
    """The importance of all parameters.

    Attributes:
        importances: The most important first.
        trials: From how many trials it was computed.
        best: How many of them were the best ones.
    """

    importances: Sequence[Importance]
    trials: int
    best: int


def count_cells(low: float, high: float, step: float | None, *, is_log: bool) -> int:
    """How many cells the range of a number has: one for each value where they are few.

    Args:
        low: The least value.
        high: The greatest value.
        step: The distance of values; None where they are continuous.
        is_log: Whether the scale is logarithmic.
    """
    if step is None or high <= low:
        return MOST_CELLS if high > low else 1
    if is_log:
        return min(math.ceil(math.log2(high - low + 1)) + 1, MOST_CELLS)
    return min(round((high - low) / step) + 1, MOST_CELLS)


def find_cell(value: float, low: float, high: float, count: int, *, is_log: bool) -> int:
    """In which cell of a range a number is; the nearest one for those beyond the range."""
    if count == 1:
        return 0
    if is_log:
        value, low, high = math.log(max(value, low)), math.log(low), math.log(high)
    return min(max(math.ceil((value - low) / ((high - low) / (count - 1)) - 0.5), 0), count - 1)


def estimate_importance(
    losses: Sequence[float], parameters: Sequence[ParameterCells], generator: random.Random | None
) -> ImportanceEstimate | None:
    """How much each parameter matters for being among the best trials.

    The order of the trials makes no difference, nor does what a loss is beyond its rank.

    Args:
        losses: One for each trial; the lowest is the best.
        parameters: What the trials were given.
        generator: Draws the trials anew for the errors, `RESAMPLES` times with replacement; without it, there are none.

    Returns:
        None where there are fewer than `LEAST_TRIALS` trials, or the best are not different from the others.
    """
    if len(losses) < LEAST_TRIALS:
        return None
    order = sorted(range(len(losses)), key=lambda trial: (losses[trial], *(each.cells[trial] for each in parameters)))
    ordered = [losses[trial] for trial in order]
    columns = [[each.cells[trial] for trial in order] for each in parameters]
    everyone = range(len(order))
    best = _count_best(ordered, everyone)
    sizes = [_measure(each, column, column[:best]) for each, column in zip(parameters, columns, strict=True)]
    total = math.fsum(size or 0.0 for size in sizes)
    if not total > 0:
        return None
    ranked = sorted((-size, parameters[place].name, place) for place, size in enumerate(sizes) if size is not None)
    known = [place for _, _, place in ranked]
    errors: dict[int, float] = {}
    if generator is not None:
        chosen = known[:MOST_RESAMPLED]
        errors = _estimate_errors(ordered, parameters, columns, sizes, chosen=chosen, generator=generator)
    importances = [
        Importance(parameters[place].name, (sizes[place] or 0.0) / total, errors.get(place)) for place in known
    ]
    unknown = [Importance(each.name, None, None) for each, size in zip(parameters, sizes, strict=True) if size is None]
    return ImportanceEstimate([*importances, *unknown], len(order), best)


def _estimate_errors(
    losses: Sequence[float],
    parameters: Sequence[ParameterCells],
    columns: Sequence[Sequence[int]],
    sizes: Sequence[float | None],
    *,
    chosen: Sequence[int],
    generator: random.Random,
) -> dict[int, float]:
    """Standard errors of the shares, by bootstrap over the trials, which come in the order of their losses.

    The deviation is taken and not the quantiles: a resample holds trials twice, so its divergences are too large.
    """
    shares: dict[int, list[float]] = {place: [] for place in chosen}
    rest = math.fsum(size or 0.0 for place, size in enumerate(sizes) if place not in shares)
    size = min(len(losses), MOST_DRAWN)
    for _ in range(RESAMPLES):
        drawn = sorted(generator.choices(range(len(losses)), k=size))
        best = drawn[: _count_best(losses, drawn)]
        again = {
            place: _measure(
                parameters[place], list(map(columns[place].__getitem__, drawn)), [columns[place][at] for at in best]
            )
            or 0.0
            for place in chosen
        }
        total = sum(again.values()) + rest
        for place in chosen:
            shares[place].append(again[place] / total if total > 0 else 0.0)
    scale = math.sqrt(size / len(losses))
    return {place: scale * statistics.pstdev(drawn) for place, drawn in shares.items()}


def _count_best(losses: Sequence[float], drawn: Sequence[int]) -> int:
    """How many of the trials are the best: those as good as the last of them count too."""
    last = losses[drawn[max(math.ceil(BEST_SHARE * len(drawn)), LEAST_BEST) - 1]]
    return bisect_right(drawn, last, key=losses.__getitem__)


def _measure(parameter: ParameterCells, cells: Sequence[int], best: Sequence[int]) -> float | None:
    """How far the best trials' distribution is from all trials', by Pearson's divergence; 0 for a constant.

    None where too few of the best trials have the parameter.
    """
    counts, best_counts = Counter(cells), Counter(best)
    active, best_active = len(cells) - counts.pop(_INACTIVE, 0), len(best) - best_counts.pop(_INACTIVE, 0)
    if best_active < LEAST_ACTIVE:
        return None
    if parameter.count < 2:
        return 0.0
    estimate = _estimate_ordered if parameter.is_ordered else _estimate_choices
    density, best_density = estimate(counts, parameter.count), estimate(best_counts, parameter.count)
    divergence = sum(
        (every + _NOT_ZERO) * ((top + _NOT_ZERO) / (every + _NOT_ZERO) - 1) ** 2
        for every, top in zip(density, best_density, strict=True)
    )
    return (best_active / len(best)) ** 2 / (active / len(cells)) * divergence


def _estimate_choices(counts: Counter[int], count: int) -> list[float]:
    """A density over choices: what was seen, and one trial more that is spread over all of them."""
    kernels, total = len(counts) + 1, sum(counts.values()) + 1
    prior = 1 / kernels
    away = prior / (prior * count + 1)
    spread = (total - 1) / total * away + 1 / total / count
    return [spread + counts[cell] / total / (prior * count + 1) for cell in range(count)]


def _estimate_ordered(counts: Counter[int], count: int) -> list[float]:
    """A density over numbers: a normal kernel for each cell that was seen, cut off at the ends, and a wide one."""
    seen = sorted(counts)
    weights = [counts[cell] for cell in seen]
    total = sum(weights) + 1
    middle = (count - 1) / 2
    width = _find_bandwidth(seen, weights)
    # All kernels have one width and stand on whole cells, so they share a table of the normal distribution.
    table = [_integrate_normal((place + 0.5) / width) for place in range(-count, count)]
    # From the right to the left, so that a slice has the masses that kernels on all cells have in one.
    masses = [after - before for before, after in pairwise(table)][::-1]
    share = [0.0] * count
    for cell, weight in zip(seen, weights, strict=True):
        share[cell] = weight / total / (table[2 * count - 1 - cell] - table[count - 1 - cell])
    wide = [_integrate_normal((place - 0.5 - middle) / count) for place in range(count + 1)]
    wide_whole = (wide[-1] - wide[0]) * total
    return [
        sum(map(mul, share, masses[count - 1 - cell : 2 * count - 1 - cell]))
        + (wide[cell + 1] - wide[cell]) / wide_whole
        for cell in range(count)
    ]


def _find_bandwidth(seen: Sequence[int], weights: Sequence[int]) -> float:
    """Scott's rule; at least so wide that nine tenths of a kernel are in its cell."""
    total = sum(weights)
    mean = sum(map(mul, seen, weights)) / total
    deviation = math.sqrt(
        sum((cell - mean) ** 2 * weight for cell, weight in zip(seen, weights, strict=True)) / max(1, total - 1)
    )
    below = list(accumulate(weights))
    first, last = bisect_left(below, total // 4), bisect_right(below, total * 3 // 4)
    between = seen[min(last, len(seen) - 1)] - seen[first]
    return max(1.059 * min(between / 1.34, deviation) * math.pow(total, -0.2), 0.5 / 1.64)


def _integrate_normal(to: float) -> float:
    return 0.5 * math.erfc(-to / math.sqrt(2))
