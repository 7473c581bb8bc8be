"""Expected improvement: the acquisition function of Gaussian process search, and its maximum.

Needs SciPy, which only the operator's `gp` image has.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray
from scipy.optimize import minimize
from scipy.special import erfcx, log_ndtr

from podtune.tuning.searchers.models.gaussian_process import GaussianProcess
from podtune.tuning.searchers.spaces.model_space import Axis
from podtune.tuning.searchers.spaces.unit_cube import Matrix, Vector

_ROUNDS = 4
"""So often at most, free coordinates and stepwise ones take turns."""
_ASYMPTOTIC = -1e4
"""Below this many standard deviations the series is exact, and erfcx has no digits left."""


class ExpectedImprovement:
    """The logarithm of the expected improvement upon the best value (Ament et al., 2023, "LogEI")."""

    def __init__(self, process: GaussianProcess) -> None:
        """Takes the best value that was observed as the one to improve upon; more is better."""
        self._process = process
        self._best = float(process.values.max())

    def evaluate(self, points: Matrix) -> Vector:
        """Returns its values (n,) at points (n, d)."""
        mean, deviation = self._process.predict(points)
        values: Vector = np.log(deviation) + _log_h((mean - self._best) / deviation)
        return values

    def evaluate_with_gradient(self, point: Vector) -> tuple[float, Vector]:
        """Returns its value at a point (d,), and its gradient (d,) there."""
        posterior = self._process.posterior_and_gradient(point)
        z = (posterior.mean - self._best) / posterior.deviation
        log_h = float(_log_h(np.array([z]))[0])
        share = math.exp(min(float(log_ndtr(z)) - log_h, 700.0))  # the logarithm's slope by z
        by_deviation = (1 - z * share) / posterior.deviation
        slope = by_deviation * posterior.deviation_slope + share / posterior.deviation * posterior.mean_slope
        return math.log(posterior.deviation) + log_h, slope


def _log_h(z: NDArray[np.float64]) -> Vector:
    """Returns log(φ(z) + z·Φ(z)), (n,), for means that are z (n,) standard deviations above the best value."""
    log_density = -(z**2) / 2 - math.log(2 * math.pi) / 2
    low = np.clip(z, _ASYMPTOTIC, -1.0)
    tail = np.log1p(low * math.sqrt(math.pi / 2) * erfcx(-low / math.sqrt(2)))
    high = np.maximum(z, -1.0)
    body = np.exp(-(high**2) / 2) / math.sqrt(2 * math.pi) + high * np.exp(log_ndtr(high))
    far: Vector = np.where(z < _ASYMPTOTIC, -2 * np.log(np.abs(np.minimum(z, -1.0))), tail)
    return np.where(z > -1, np.log(body), log_density + far)


def maximize(improvement: ExpectedImprovement, start: Vector, axes: Sequence[Axis]) -> tuple[float, Vector]:
    """Climbs from a point to a local maximum: until no coordinate makes it better.

    Free coordinates are changed together, by L-BFGS-B, and the others one by one, to their best value.

    Args:
        improvement: What is maximised.
        start: Where to start, (d,).
        axes: The coordinates (d).

    Returns:
        The value that is reached, and the point (d,).
    """
    free = [index for index, axis in enumerate(axes) if axis.steps is None]
    stepwise = [index for index, axis in enumerate(axes) if axis.steps is not None]
    point, reached = start.copy(), -math.inf
    for _ in range(_ROUNDS):
        before = reached
        if free:
            point = _maximize_freely(improvement, point, free)
        reached = float(improvement.evaluate(point[None])[0])
        for index in stepwise:
            reached, point = _find_best_step(improvement, point, index, axes[index], reached)
        if not free or not stepwise or reached <= before + 1e-9:
            break
    return reached, point


def _maximize_freely(improvement: ExpectedImprovement, point: Vector, free: Sequence[int]) -> Vector:
    def cost(coordinates: Vector) -> tuple[float, Vector]:
        moved = point.copy()
        moved[free] = coordinates
        value, slope = improvement.evaluate_with_gradient(moved)
        return -value, -slope[free]

    bounds = [(0.0, 1.0)] * len(free)
    found = minimize(cost, point[free], jac=True, method="L-BFGS-B", bounds=bounds, options={"maxiter": 100})
    moved = point.copy()
    moved[free] = np.clip(found.x, 0, 1)
    return moved


def _find_best_step(
    improvement: ExpectedImprovement, point: Vector, index: int, axis: Axis, reached: float
) -> tuple[float, Vector]:
    assert axis.steps is not None
    steps = axis.steps(point[index])
    points = np.repeat(point[None], len(steps), axis=0)
    points[:, index] = steps
    values = improvement.evaluate(points)
    best = int(values.argmax())
    return (float(values[best]), points[best]) if values[best] > reached else (reached, point)
