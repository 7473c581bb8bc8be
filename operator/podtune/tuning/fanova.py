"""Which parameters matter, by fANOVA (Hutter, Hoos and Leyton-Brown, 2014): of the variance, how much is each one's.

A random forest learns the objective. Each of its trees cuts the space into boxes with one value each, so the mean over
all other parameters, and how that varies along one, are sums over boxes. Unlike PED-ANOVA, it goes by values and not by
ranks, and asks about the whole space and not about the best trials.

Needs scikit-learn; everything else here does without it.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn.ensemble import RandomForestRegressor

from podtune.tuning.importance import LEAST_TRIALS, Importance

TREES = 64
DEEPEST = 64
MOST_LEARNED = 1000
"""A forest learns from so many trials at most, an even sample: more take seconds and change little."""
Array = NDArray[np.float64]


@dataclass(frozen=True, slots=True)
class ParameterValues:
    """The values of one parameter.

    Attributes:
        name: Its name.
        low: The lower end of its range.
        high: The upper end.
        is_log: Whether the scale is logarithmic.
        values: One for each trial; None where the trial does without the parameter.
    """

    name: str
    low: float
    high: float
    is_log: bool
    values: Sequence[float | None]


@dataclass(frozen=True, slots=True)
class VarianceShares:
    """How the variance of the objective is shared out.

    Attributes:
        importances: The most important first; a share is a parameter's part of what parameters decide one by one.
            Parameters that some trials do without have none.
        trials: From how many trials.
        alone: What part of the variance the parameters decide one by one, from 0 to 1; the rest is of combinations.
        trees: Of how many trees the errors are the deviation.
    """

    importances: Sequence[Importance]
    trials: int
    alone: float
    trees: int = TREES


def estimate_variance_shares(
    losses: Sequence[float], parameters: Sequence[ParameterValues], seed: int
) -> VarianceShares | None:
    """How much of the variance each parameter decides alone; the error is the deviation over the trees.

    Args:
        losses: One for each trial.
        parameters: What the trials were given.
        seed: Of the forest.

    Returns:
        None where there are fewer than `LEAST_TRIALS` trials, or nothing that varies.
    """
    known = [each for each in parameters if each.high > each.low and None not in each.values]
    unknown = [each for each in parameters if None in each.values]
    constant = [each for each in parameters if each.high <= each.low and None not in each.values]
    chosen = range(0, len(losses), -(-len(losses) // MOST_LEARNED)) if losses else range(0)
    if len(losses) < LEAST_TRIALS or not known or min(losses) == max(losses):
        return None
    configurations = np.column_stack([_scale(each, [each.values[trial] for trial in chosen]) for each in known])
    bounds = np.column_stack([_scale(each, [each.low, each.high]) for each in known]).T
    forest = RandomForestRegressor(n_estimators=TREES, max_depth=DEEPEST, random_state=seed, n_jobs=1)
    forest.fit(configurations, np.array([losses[trial] for trial in chosen]))
    shares = [found for each in forest.estimators_ if (found := _split_variance(each.tree_, bounds)) is not None]
    if not shares:
        return None
    by_tree = np.array(shares)
    means, deviations, total = by_tree.mean(axis=0), by_tree.std(axis=0), float(by_tree.mean(axis=0).sum())
    if not total > 0:
        return None
    importances = [
        Importance(each.name, float(mean) / total, min(float(deviation) / total, 1.0))
        for each, mean, deviation in zip(known, means, deviations, strict=True)
    ]
    importances += [Importance(each.name, 0.0, 0.0) for each in constant]
    importances.sort(key=lambda each: (-(each.share or 0.0), each.name))
    return VarianceShares(
        [*importances, *(Importance(each.name, None, None) for each in unknown)], len(chosen), min(total, 1.0)
    )


def _scale(parameter: ParameterValues, values: Sequence[float | None]) -> Array:
    """Values on the scale that the search uses; those beyond the range are at its ends."""
    given = [min(max(value or 0.0, parameter.low), parameter.high) for value in values]
    return np.array([math.log(value) for value in given] if parameter.is_log else given, dtype=np.float64)


def _split_variance(tree: Any, bounds: Array) -> Array | None:
    """The part of a tree's variance that each parameter has alone; None where the tree has no variance."""
    boxes, values = _list_boxes(tree, bounds)
    widths = (boxes[:, :, 1] - boxes[:, :, 0]) / (bounds[:, 1] - bounds[:, 0])
    volumes = widths.prod(axis=1)
    mean = float(volumes @ values)
    variance = float(volumes @ (values - mean) ** 2)
    if not variance > 0:
        return None
    return (
        np.array([_measure_marginal(boxes[:, at], widths[:, at], volumes, values, mean) for at in range(len(bounds))])
        / variance
    )


def _list_boxes(tree: Any, bounds: Array) -> tuple[Array, Array]:
    """The boxes of a tree's leaves (leaf, parameter, end), and their values."""
    features, thresholds = tree.feature.tolist(), tree.threshold.tolist()
    left, right, values = tree.children_left.tolist(), tree.children_right.tolist(), tree.value[:, 0, 0]
    boxes: list[Array] = []
    leaves: list[int] = []
    waiting = [(0, bounds)]
    while waiting:
        node, box = waiting.pop()
        if features[node] < 0:
            boxes.append(box)
            leaves.append(node)
            continue
        for child, end in ((left[node], 1), (right[node], 0)):
            part = box.copy()
            part[features[node], end] = thresholds[node]
            waiting.append((child, part))
    return np.array(boxes), np.asarray(values[leaves], dtype=np.float64)


def _measure_marginal(ends: Array, widths: Array, volumes: Array, values: Array, mean: float) -> float:
    """The variance of the mean along one parameter.

    Between two cuts the mean is the same, so what a box adds to it begins at its lower end and stops at its upper one.
    """
    cuts = np.unique(ends)
    if len(cuts) < 3:
        return 0.0
    first, last = np.searchsorted(cuts, ends[:, 0]), np.searchsorted(cuts, ends[:, 1])
    added = volumes / np.where(widths > 0, widths, 1.0) * values
    changes = np.zeros(len(cuts))
    np.add.at(changes, first, added)
    np.subtract.at(changes, last, added)
    lengths = np.diff(cuts) / (cuts[-1] - cuts[0])
    return float(lengths @ (np.cumsum(changes)[:-1] - mean) ** 2)
