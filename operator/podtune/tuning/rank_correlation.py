"""How strongly one quantity goes with another, by ranks: no unit and no scale makes a difference."""

from __future__ import annotations

import math
from collections import Counter, defaultdict
from collections.abc import Hashable, Sequence
from operator import mul


def correlate_ranks(first: Sequence[float], second: Sequence[float]) -> float | None:
    """Spearman's correlation, from -1 to 1; None where one of both never changes."""
    return _correlate(_rank(first), _rank(second))


def measure_association(groups: Sequence[Hashable], values: Sequence[float]) -> float | None:
    """How much of a value's rank its group explains, from 0 to 1 (the correlation ratio); None if one never varies."""
    ranks = _rank(values)
    members: defaultdict[Hashable, list[float]] = defaultdict(list)
    for group, rank in zip(groups, ranks, strict=True):
        members[group].append(rank)
    means = {group: sum(own) / len(own) for group, own in members.items()}
    if len(means) < 2 or len(set(values)) < 2:
        return None
    return _correlate([means[group] for group in groups], ranks) or 0.0


def _rank(values: Sequence[float]) -> list[float]:
    """Places from 1 on; equal values share the mean of theirs."""
    ranks: dict[float, float] = {}
    before = 0
    for value, count in sorted(Counter(values).items()):
        ranks[value] = before + (count + 1) / 2
        before += count
    return [ranks[value] for value in values]


def _correlate(first: Sequence[float], second: Sequence[float]) -> float | None:
    if not first:
        return None
    first_mean, second_mean = math.fsum(first) / len(first), math.fsum(second) / len(second)
    first, second = [x - first_mean for x in first], [y - second_mean for y in second]
    product = math.fsum(map(mul, first, second))
    squares = math.fsum(map(mul, first, first)) * math.fsum(map(mul, second, second))
    return min(max(product / math.sqrt(squares), -1.0), 1.0) if squares > 0 else None
