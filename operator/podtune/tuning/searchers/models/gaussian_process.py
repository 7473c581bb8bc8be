"""A Gaussian process over configurations: the posterior of their values.

Needs scikit-learn and SciPy, which only the operator's `gp` image has.
"""

from __future__ import annotations

from contextlib import AbstractContextManager
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.linalg import cho_solve, solve_triangular
from scipy.optimize import minimize
from sklearn.gaussian_process import GaussianProcessRegressor
from sklearn.gaussian_process.kernels import Hyperparameter, Kernel, WhiteKernel
from threadpoolctl import ThreadpoolController
from typing_extensions import override

from podtune.tuning.searchers.spaces.unit_cube import Matrix, Tensor, Vector

_LEAST_VARIANCE = 1e-12
_NOISE = (1e-6, 1.0)
_WEIGHTS, _VARIANCE = (1e-4, 1e4), (1e-3, 1e3)
_STARTS = (1.0, 10.0)
"""Weights of the distances that the optimisation of the posterior starts from."""
_LIBRARIES = ThreadpoolController()


def limit_to_one_thread() -> AbstractContextManager[Any]:
    """Lets linear algebra have one thread.

    Matrices are small here: several threads take seven times as long, and their sums depend on how many there are.
    """
    limit: AbstractContextManager[Any] = _LIBRARIES.limit(limits=1, user_api="blas")
    return limit


class Matern(Kernel):  # type: ignore[misc] # scikit-learn has no types
    """The Matérn kernel 5/2, each coordinate with a weight of its own; choices are 1 apart, or the same.

    k = v · (1 + √(5s) + 5s/3) · exp(-√(5s)), where v is the variance, and s the weighted squared distance.
    """

    def __init__(self, weights: Vector, variance: float, choices: NDArray[np.bool_]) -> None:
        """Makes the kernel.

        Args:
            weights: What the squared distance along each coordinate is multiplied by (d,).
            variance: Of the function.
            choices: Which coordinates are choices (d,).
        """
        self.weights = weights
        self.variance = variance
        self.choices = choices

    @property
    def hyperparameter_weights(self) -> Hyperparameter:
        """The bounds of the weights."""
        return Hyperparameter("weights", "numeric", _WEIGHTS, len(self.choices))

    @property
    def hyperparameter_variance(self) -> Hyperparameter:
        """The bounds of the variance."""
        return Hyperparameter("variance", "numeric", _VARIANCE)

    @override
    def __call__(self, X: Matrix, Y: Matrix | None = None, eval_gradient: bool = False) -> Any:
        """Returns the covariances of all pairs.

        Args:
            X: Points (n, d).
            Y: Other points (m, d); the same ones, unless given.
            eval_gradient: Whether to return the gradient, too; only without Y.

        Returns:
            Covariances (n, m), and, if asked for, their gradient (n, n, 1 + d) by the logarithms of variance and
            weights.
        """
        if not eval_gradient:
            return self._matern(self._compute_distances(X, X if Y is None else Y))[0]
        squares = self._compute_squares(X[:, None] - X[None])
        covariance, by_square = self._matern(squares.sum(axis=2))
        return covariance, np.concatenate([covariance[..., None], by_square[..., None] * squares], axis=2)

    def covariance_and_gradient(self, point: Vector, others: Matrix) -> tuple[Vector, Matrix]:
        """Returns the covariances (n,) of a point (d,) with others (n, d), and their gradients (n, d) by the point.

        The gradients along choices are 0.
        """
        apart = point - others
        covariance, by_square = self._matern(self._compute_squares(apart).sum(axis=1))
        return covariance, by_square[:, None] * np.where(self.choices, 0, 2 * self._each * apart)

    @override
    def diag(self, X: Matrix) -> Vector:
        """Returns the variances (n,) at points (n, d)."""
        return np.full(len(X), self.variance)

    @override
    def is_stationary(self) -> bool:
        return True

    def _matern(self, squares: Matrix) -> tuple[Matrix, Matrix]:
        """Returns the covariances at weighted squared distances, and their slopes by these; all in one shape."""
        root = np.sqrt(5 * squares)
        decay = self.variance * np.exp(-root)
        return decay * (1 + root + root**2 / 3), -5 / 6 * decay * (1 + root)

    def _compute_squares(self, apart: Tensor) -> Tensor:
        """Returns the weighted squares of differences along each coordinate, (n, m, d) or (n, d) as given."""
        squares: Tensor = self._each * np.where(self.choices, apart != 0, apart**2)
        return squares

    def _compute_distances(self, one: Matrix, other: Matrix) -> Matrix:
        """Returns the weighted squared distances (n, m) of points (n, d) to others (m, d); makes no (n, m, d)."""
        scale = np.sqrt(np.where(self.choices, 0, self._each))
        scaled, other_scaled = one * scale, other * scale
        products = 2 * scaled @ other_scaled.T
        squares: Matrix = (scaled**2).sum(axis=1)[:, None] + (other_scaled**2).sum(axis=1) - products
        for axis in np.flatnonzero(self.choices):
            squares += self._each[axis] * (one[:, axis, None] != other[:, axis])
        return squares.clip(min=0)

    @property
    def _each(self) -> Vector:
        """The weights (d,); scikit-learn makes a scalar of a single one."""
        return np.atleast_1d(self.weights)


@dataclass(frozen=True, slots=True)
class Posterior:
    """The posterior distribution of the value at a point (d,), in the unit of the values.

    Attributes:
        mean: The mean.
        deviation: The standard deviation, never 0.
        mean_slope: The mean's gradient (d,).
        deviation_slope: The deviation's gradient (d,).
    """

    mean: float
    deviation: float
    mean_slope: Vector
    deviation_slope: Vector


class GaussianProcess:
    """A Gaussian process, conditioned on values that were observed."""

    def __init__(self, kernel: Kernel, points: Matrix, values: Vector) -> None:
        """Conditions a process on values.

        Args:
            kernel: A `Matern` and a `WhiteKernel`, added.
            points: Where the values are (n, d).
            values: The values (n,).
        """
        self.points, self.values = points, values
        self._kernel = kernel
        fitted = GaussianProcessRegressor(kernel, optimizer=None).fit(points, values)
        self._weights, self._cholesky = fitted.alpha_, fitted.L_

    def predict(self, points: Matrix) -> tuple[Vector, Vector]:
        """Returns posterior means (n,) and standard deviations (n,) at points (n, d)."""
        covariances = self._kernel.k1(points, self.points)
        explained = solve_triangular(self._cholesky, covariances.T, lower=True)
        variances = self._kernel.k1.variance - (explained**2).sum(axis=0)
        mean: Vector = covariances @ self._weights
        return mean, np.sqrt(np.maximum(variances, _LEAST_VARIANCE))

    def posterior_and_gradient(self, point: Vector) -> Posterior:
        """Returns the posterior at a point (d,), with its gradients by the coordinates."""
        covariances, slopes = self._kernel.k1.covariance_and_gradient(point, self.points)
        explained = cho_solve((self._cholesky, True), covariances)
        variance = self._kernel.k1.variance - covariances @ explained
        deviation = float(np.sqrt(max(variance, _LEAST_VARIANCE)))
        return Posterior(
            mean=float(covariances @ self._weights),
            deviation=deviation,
            mean_slope=slopes.T @ self._weights,
            deviation_slope=-(slopes.T @ explained) / deviation,
        )

    def fantasize(self, points: Matrix) -> GaussianProcess:
        """Returns the process conditioned on its own posterior means at points (n, d), as if it had observed them."""
        if not len(points):
            return self
        expected, _ = self.predict(points)
        return GaussianProcess(self._kernel, np.vstack([self.points, points]), np.concatenate([self.values, expected]))


def fit_map(points: Matrix, values: Vector, choices: NDArray[np.bool_]) -> GaussianProcess:
    """Fits weights, variance and noise by their maximum a posteriori (MAP) estimate.

    The prior is that of Optuna's `GPSampler`. L-BFGS-B looks for the maximum of the posterior, from two starts.

    Args:
        points: Where the values are (n, d).
        values: The values (n,), with mean 0 and standard deviation 1.
        choices: Which coordinates are choices (d,).
    """
    candidates = []
    for start in _STARTS:
        kernel = Matern(np.full(points.shape[1], start), 1.0, choices) + WhiteKernel(1e-2, _NOISE)
        regressor = GaussianProcessRegressor(kernel, optimizer=None).fit(points, values)

        def cost(theta: Vector, regressor: GaussianProcessRegressor = regressor) -> tuple[float, Vector]:
            likelihood, slope = regressor.log_marginal_likelihood(theta, eval_gradient=True, clone_kernel=False)
            prior, prior_slope = _log_prior(theta)
            return -(likelihood + prior), -(slope + prior_slope)

        found = minimize(cost, kernel.theta, jac=True, method="L-BFGS-B", bounds=kernel.bounds, options={"gtol": 1e-2})
        candidates.append((float(found.fun), kernel.clone_with_theta(found.x)))
    _, kernel = min(candidates, key=lambda candidate: candidate[0])
    return GaussianProcess(kernel, points, values)


def _log_prior(theta: Vector) -> tuple[float, Vector]:
    """Returns the logarithm of the prior density, and its gradient (d + 2,).

    Args:
        theta: The logarithms of variance, weights and noise (d + 2,).
    """
    parameters = np.exp(theta)
    variance, weights, noise = parameters[0], parameters[1:-1], parameters[-1]
    density = theta[0] - variance - (0.1 / weights + 0.1 * weights).sum() + 0.1 * theta[-1] - 30 * noise
    slope = np.concatenate([[1 - variance], 0.1 / weights - 0.1 * weights, [0.1 - 30 * noise]])
    return float(density), slope
