"""Curves that are computed: a function says where training ends up, and a power law how it gets there."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence

from typing_extensions import override

from podtune.api.tuning.objective import Criterion, Objective
from podtune.api.tuning.search_space import Parameter
from podtune.simulation.curves.base import CurveError, Curves, LearningCurve
from podtune.simulation.curves.functions import ObjectiveFunction
from podtune.simulation.curves.position import compute_position
from podtune.tuning.randomness import build_generator
from podtune.tuning.searchers.base import Configuration

NOISE = 0.1
"""Standard deviation of what is still to be learnt, as a share of it: there is none left at the end."""
_PROBES = 256


class SyntheticCurves(Curves):
    """Learning curves over a function.

    After the last iteration a trial is at the function's value for its configuration. Before it, what is left to
    learn shrinks by a power law, as learning curves do (Domhan et al., IJCAI 2015), each configuration at a speed of
    its own: curves cross, so an early look may mislead. With a single iteration the function itself is left.
    """

    def __init__(
        self,
        function: ObjectiveFunction,
        parameters: Sequence[Parameter],
        objective: Objective,
        *,
        iterations: int,
        seconds: float,
        seed: int,
        noise: float = NOISE,
    ) -> None:
        """Makes the curves of a search space.

        Args:
            function: Where training ends up. Its dimensions are the first parameters that are searched, each
                stretched from end to end; the objective is the function, or with mode max its negative. Further
                objectives are the function moved, so that they can't all be at their best together.
            parameters: The search space.
            objective: The metrics that are reported.
            iterations: How many iterations a whole training has.
            seconds: How long one takes.
            seed: Seeds the noise.
            noise: See `NOISE`.

        Raises:
            CurveError: The space has too few parameters for the function.
        """
        sampled = tuple(parameter for parameter in parameters if parameter.is_sampled)
        if len(sampled) < function.least:
            raise CurveError(
                f"{function.name} needs {function.least} parameters, the experiment has {len(sampled)} to search; "
                "choose another function"
            )
        self._function = function
        self._parameters = sampled
        self._objective = objective
        self.iterations = iterations
        self._seconds = seconds
        self._seed = seed
        self._noise = noise
        self._least = function.compute_minimum(len(sampled))
        self._start = self._estimate_mean() * 2 - self._least

    @property
    @override
    def optimum(self) -> float:
        """The function's least value."""
        return _sign(self._objective) * self._least + 0.0  # no negative zero

    @override
    def build_curve(self, configuration: Configuration, trial: int) -> LearningCurve:
        """The curve of a trial; two trials of the same configuration differ in their noise alone."""
        shares = [compute_position(parameter, configuration.get(parameter.name)) for parameter in self._parameters]
        criteria = self._objective.criteria
        ends = [self._function.evaluate(_move(shares, index / len(criteria))) for index in range(len(criteria))]
        return _SyntheticCurve(self, ends, _compute_speed(shares), trial)

    def compute_values(self, ends: Sequence[float], speed: float, trial: int, iteration: int) -> dict[str, float]:
        """The objectives after an iteration of a training that ends at `ends`."""
        left = _compute_left(iteration, self.iterations, speed)
        if left and self._noise:
            deviation = build_generator(self._seed, "noise", trial, iteration).gauss(0.0, self._noise)
            left *= 1 + min(max(deviation, -0.9), 0.9)
        return {
            criterion.metric: _sign(criterion) * (end + (self._start - end) * left)
            for criterion, end in zip(self._objective.criteria, ends, strict=True)
        }

    @property
    def seconds(self) -> float:
        """How long an iteration takes."""
        return self._seconds

    def _estimate_mean(self) -> float:
        """About what a configuration drawn at random ends up with."""
        random = build_generator(0, "probes")
        values = [self._function.evaluate([random.random() for _ in self._parameters]) for _ in range(_PROBES)]
        return math.fsum(values) / len(values)


class _SyntheticCurve(LearningCurve):
    __slots__ = ("_curves", "_ends", "_speed", "_trial")

    def __init__(self, curves: SyntheticCurves, ends: Sequence[float], speed: float, trial: int) -> None:
        self._curves = curves
        self._ends = ends
        self._speed = speed
        self._trial = trial

    @property
    @override
    def length(self) -> int:
        return self._curves.iterations

    @override
    def compute_metrics(self, iteration: int) -> Mapping[str, float]:
        return self._curves.compute_values(self._ends, self._speed, self._trial, iteration)

    @override
    def compute_seconds(self, iteration: int) -> float:
        return self._curves.seconds


def _sign(criterion: Criterion) -> float:
    return -1.0 if criterion.mode == "max" else 1.0


def _move(shares: Sequence[float], by: float) -> Sequence[float]:
    """A point moved along the diagonal of the space, round its edges."""
    return [(share + by) % 1.0 for share in shares] if by else shares


def _compute_speed(shares: Sequence[float]) -> float:
    """The power at which a configuration learns, 0.5 to 2: smooth in the space, and no friend of its optimum."""
    phase = sum(share * (index + 1) for index, share in enumerate(shares))
    return 1.25 + 0.75 * math.cos(2 * math.pi * phase)


def _compute_left(iteration: int, iterations: int, speed: float) -> float:
    """The share that is left to learn: 1 before the first iteration, 0 after the last."""
    last = math.pow(iterations + 1, -speed)
    return (math.pow(iteration + 1, -speed) - last) / (1 - last)
