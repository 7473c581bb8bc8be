"""What configurations gain in an interval, as a Gaussian process: the model of PB2.

Needs scikit-learn and SciPy, which only the operator's `gp` image has; what is said without them, `pb2` knows.
"""

from __future__ import annotations

import math
import warnings
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn.exceptions import ConvergenceWarning
from sklearn.gaussian_process import GaussianProcessRegressor
from sklearn.gaussian_process.kernels import Hyperparameter, Kernel, WhiteKernel

from podtune.tuning.schedulers.population.gain_log import Gain

FloatArray = NDArray[np.float64]
_CLIPPED = 2.0
"""Gains are standardised, and clipped at so many standard deviations: one collapse must not hide the rest."""


class TimeVarying(Kernel):  # type: ignore[misc] # scikit-learn has no types
    """A squared exponential kernel that forgets: k = v · exp(-d²/l) · (1 - e)^(|t - t'|/2).

    Bogunovic et al., "Time-Varying Gaussian Process Bandit Optimization", AISTATS 2016,
    https://proceedings.mlr.press/v51/bogunovic16.html. The first column is the time, in intervals; d is the distance in
    the others.
    """

    def __init__(self, variance: float = 1.0, length: float = 0.5, forgetting: float = 0.1) -> None:
        """Makes the kernel with v, l and e."""
        self.variance = variance
        self.length = length
        self.forgetting = forgetting

    @property
    def hyperparameter_forgetting(self) -> Hyperparameter:
        """The bounds of e."""
        return Hyperparameter("forgetting", "numeric", (1e-3, 0.5))

    @property
    def hyperparameter_length(self) -> Hyperparameter:
        """The bounds of l."""
        return Hyperparameter("length", "numeric", (1e-2, 1e2))

    @property
    def hyperparameter_variance(self) -> Hyperparameter:
        """The bounds of v."""
        return Hyperparameter("variance", "numeric", (1e-2, 1e2))

    def __call__(self, X: FloatArray, Y: FloatArray | None = None, eval_gradient: bool = False) -> Any:
        """Returns the covariances (n, m) of rows X (n, 1 + d) with rows Y (m, 1 + d); of X with itself without Y.

        With `eval_gradient`, also their gradient (n, n, 3) by the logarithms of e, l and v.
        """
        other = X if Y is None else Y
        apart = np.abs(X[:, :1] - other[:, :1].T)
        squared = ((X[:, None, 1:] - other[None, :, 1:]) ** 2).sum(axis=2)
        covariance = self.variance * np.exp(-squared / self.length) * (1 - self.forgetting) ** (apart / 2)
        if not eval_gradient:
            return covariance
        by_forgetting = covariance * (apart / 2) * (-self.forgetting / (1 - self.forgetting))
        by_length = covariance * squared / self.length
        return covariance, np.dstack([by_forgetting, by_length, covariance])

    def diag(self, X: FloatArray) -> FloatArray:
        """Returns the variances (n,) of rows X (n, 1 + d)."""
        return np.full(len(X), self.variance)

    def is_stationary(self) -> bool:
        """Whether only distances count."""
        return True


class GainModel:
    """Predicts the gain of configurations from here on; it learns once, and is asked many times."""

    def __init__(self, gains: Sequence[Gain], interval: float) -> None:
        """Learns from at least two gains; the interval is the unit in which the kernel counts time."""
        self._interval = interval
        self._rows = np.array([self._build_row(gain.time, gain.point) for gain in gains])
        rates = np.array([gain.rate for gain in gains])
        spread = float(rates.std())
        self._targets = (
            np.clip((rates - rates.mean()) / spread, -_CLIPPED, _CLIPPED) if spread else np.zeros(len(rates))
        )
        self._mean = _fit(TimeVarying() + WhiteKernel(0.1, (1e-3, 1.0)), self._rows, self._targets)

    def upper_confidence_bound(
        self, pending: Sequence[Sequence[float]], time: float
    ) -> Callable[[Sequence[Sequence[float]]], list[float]]:
        """Returns the upper confidence bound of the gain, standardised, as a function of points (n, d).

        Desautels et al., JMLR 2014, https://jmlr.org/papers/v15/desautels14a.html: where others are tried at the same
        time there is less to learn, so they count for the variance, whatever will come of them.

        Args:
            pending: What others try: points (m, d).
            time: Where the trial goes on from.
        """
        beta = 0.2 + max(0.0, math.log(0.4 * len(self._rows)))
        spread = self._mean
        if pending:
            tried = np.vstack([self._rows, [self._build_row(time, point) for point in pending]])
            targets = np.concatenate([self._targets, np.zeros(len(pending))])
            spread = GaussianProcessRegressor(self._mean.kernel_, optimizer=None).fit(tried, targets)

        def evaluate(points: Sequence[Sequence[float]]) -> list[float]:
            rows = np.array([self._build_row(time, point) for point in points])
            deviation = spread.predict(rows, return_std=True)[1]
            return [float(bound) for bound in self._mean.predict(rows) + math.sqrt(beta) * deviation]

        return evaluate

    def _build_row(self, time: float, point: Sequence[float]) -> list[float]:
        return [time / self._interval, *point]


def _fit(kernel: Kernel, rows: FloatArray, targets: FloatArray) -> GaussianProcessRegressor:
    """Fits a process to rows (n, 1 + d) and targets (n,); L-BFGS finds the kernel's most likely parameters."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)  # of a parameter at its bound, say
        return GaussianProcessRegressor(kernel).fit(rows, targets)
