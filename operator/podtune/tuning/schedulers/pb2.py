"""Population based bandits (PB2): a model chooses the configuration that a clone continues with."""

from __future__ import annotations

import importlib
import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from random import Random
from typing import TYPE_CHECKING

from typing_extensions import override

from podtune.api.tuning.population import Pb2Settings, PerturbationFactors
from podtune.api.tuning.search_space import ChoiceDomain, Domain, Scalar
from podtune.tuning.domains.quantiles import compute_value_at, share_of
from podtune.tuning.schedulers.base import Record
from podtune.tuning.schedulers.population.explore import (
    Explorer,
    RankedPerformance,
    Space,
    clip_to_domain,
    move_choice,
    multiply,
)
from podtune.tuning.schedulers.population.gain_log import Gain, GainLog
from podtune.tuning.searchers.base import Configuration

if TYPE_CHECKING:
    from podtune.tuning.schedulers.population.gain_model import GainModel

LEARNT_FROM = 100
"""How many gains the model learns from, the latest of all: the cost grows with their cube."""
AT_RANDOM, NEARBY = 400, 100
"""How many configurations are evaluated: first anywhere, then in two rounds around the best one."""
PENDING = 50
"""How many configurations of other recent clones are considered, those nearest to the donor's."""
_FACTORS = PerturbationFactors()
UnitPoint = tuple[float, ...]


class ModelMissing(ValueError):
    """The packages that the model needs are not installed; the text says what to do."""


class Bandit(Explorer):
    """Lets a model choose numbers by how much configurations have gained so far.

    It is PBT with a model instead of random changes. A Gaussian process learns which configurations gained most in an
    interval, and a clone continues with the most promising one. So a smaller population is enough.

    Example:
        scheduler:
          pb2: {timeAttribute: epoch, interval: 5, quantile: 0.25, mutations: [{name: learning_rate}]}

    Settings:
        timeAttribute: The metric that measures a trial's progress, such as `epoch`. A clone continues from its donor's
            value.
        interval: How far the time attribute must advance before a trial is ranked again. If too short, scores are noise
            and pods restart often; if too long, there are few generations.
        burnIn: No trial is ranked before this.
        quantile: The worst trials, this share of the population, continue from the best. 0.5 replaces half each time.
        resampleProbability: Probability that a choice is resampled instead of perturbed.
        synchronous: All trials wait for each other at each interval; see `SynchronousPbt`.
        mutations: Parameters to change, and their bounds. Defaults to all sampled parameters.

    Parker-Holder et al., "Provably Efficient Online Hyperparameter Optimization with Population-Based Bandits", NeurIPS
    2020, https://arxiv.org/abs/2002.02518. When trials are looked at, and who clones whom, is as in `pbt`. What the
    clone goes on with maximises an upper confidence bound of the gain in the next interval, by a Gaussian process over
    time and configuration that forgets what is long past. Where that differs from Ray Tune 2.60's `PB2`:

    - The model is of time and configuration, as in the paper; Ray adds the score, and the best are beyond all it knows.
    - Numbers on a log scale are modelled on it, integers and steps by their positions, normal distributions by
      quantiles; Ray has a linear scale for all of them.
    - Time counts in intervals, as in the paper; Ray squeezes all of it into 0 … 1, and hardly forgets.
    - The bound is mean + √β · standard deviation, as in the paper; Ray takes the variance for it.
    - Choices are changed as PBT does it; so are numbers, within their bounds, while there are fewer than two gains.
    - Of each trial the last 16 gains are kept, and of all the latest 100 are learnt from, which takes a tenth of a
      second.

    It adds to the record of a trial what that one has gained, {"gains": {…}}, and where its present interval has begun,
    {"segment": {"time": "20", "score": "0.9"}}.
    """

    def __init__(self, space: Space, domains: Mapping[str, Domain], settings: Pb2Settings) -> None:
        """Makes an explorer that has learnt nothing.

        Args:
            space: What configurations may be.
            domains: What is changed, and within what, in the order in which it is changed.
            settings: The length of an interval, and how choices are changed.

        Raises:
            ModelMissing: scikit-learn is not installed.
        """
        self._space = space
        self._numbers = {name: domain for name, domain in domains.items() if not isinstance(domain, ChoiceDomain)}
        self._choices = {name: domain for name, domain in domains.items() if isinstance(domain, ChoiceDomain)}
        self._settings = settings
        self._logs: dict[int, GainLog] = {}
        self._model: GainModel | None = None
        self._make_model = _import_model()

    @override
    def observe(self, trial: int, observation: RankedPerformance) -> None:
        """Learns what the trial's configuration has gained."""
        log = self._logs.setdefault(trial, GainLog())
        log.reach(observation.time, observation.score, self._to_point(observation.configuration))
        self._model = None

    @override
    def on_clone(self, trial: int, observation: RankedPerformance | None) -> None:
        """The trial's next gain counts from where its donor was; where nobody knows from what it goes on, none does."""
        log = self._logs.setdefault(trial, GainLog())
        log.segment = None
        if observation is not None:
            log.reach(observation.time, observation.score, ())
        self._model = None

    @override
    def forget(self, trial: int) -> None:
        """Nothing that was learnt from the trial stays."""
        self._logs.pop(trial, None)
        self._model = None

    @override
    def record(self, trial: int) -> Record:
        return self._logs[trial].record() if trial in self._logs else {}

    @override
    def restore(self, trial: int, record: Record) -> None:
        self._logs[trial] = GainLog.parse(record, len(self._numbers))
        self._model = None

    @override
    def explore(
        self, donor: int, configuration: Configuration, pending: Sequence[Configuration], random: Random
    ) -> Configuration:
        """Takes the configuration from which most is to be gained, of many; the next one where it may not be."""
        points = self._list_best_first(donor, configuration, pending, random)

        def change() -> dict[str, Scalar]:
            point = next(points, None)
            numbers = self._to_values(point) if point is not None else self._perturb(configuration, random)
            return dict(configuration) | {
                name: value
                for name, value in (numbers | self._move_choices(configuration, random)).items()
                if name in configuration
            }

        return self._space.explore(configuration, change, random)

    def _list_best_first(
        self, donor: int, configuration: Configuration, pending: Sequence[Configuration], random: Random
    ) -> Iterator[UnitPoint]:
        """Points of the unit cube, the most promising one first; none while there is too little to learn from."""
        model, log = self._learn(), self._logs.get(donor)
        if model is None or log is None or log.segment is None:
            return iter(())
        present = self._to_point(configuration)
        others = sorted(map(self._to_point, pending), key=lambda other: math.dist(other, present))
        bound = model.upper_confidence_bound(others[:PENDING], log.segment.time)
        anywhere = [tuple(random.random() for _ in self._numbers) for _ in range(AT_RANDOM)]
        points = [present, *anywhere]
        found = list(zip(bound(points), points, strict=True))
        for width in (0.1, 0.02):
            points = _draw_around(max(found)[1], width, random)
            found += zip(bound(points), points, strict=True)
        return (point for _, point in sorted(found, reverse=True))

    def _learn(self) -> GainModel | None:
        """The model of what is known; it stays until more is known."""
        if self._model is None:
            gains = [gain for _, log in sorted(self._logs.items()) for gain in log.gains]
            gains = sorted(gains, key=lambda gain: gain.time)[-LEARNT_FROM:]
            if len(gains) > 1:
                self._model = self._make_model(gains, self._settings.interval)
        return self._model

    def _to_point(self, configuration: Configuration) -> UnitPoint:
        """Where the numbers of a configuration lie in their domains; those that it does not have, in the middle."""
        return tuple(
            share_of(domain, configuration[name]) if name in configuration else 0.5
            for name, domain in self._numbers.items()
        )

    def _to_values(self, point: UnitPoint) -> dict[str, Scalar]:
        pairs = zip(self._numbers.items(), point, strict=True)
        return {name: compute_value_at(domain, share) for (name, domain), share in pairs}

    def _perturb(self, configuration: Configuration, random: Random) -> dict[str, Scalar]:
        return {
            name: clip_to_domain(domain, multiply(configuration[name], random.choice((_FACTORS.up, _FACTORS.down))))
            for name, domain in self._numbers.items()
            if name in configuration
        }

    def _move_choices(self, configuration: Configuration, random: Random) -> dict[str, Scalar]:
        probability = self._settings.resample_probability
        return {
            name: move_choice(domain.values, configuration[name], probability, random)
            for name, domain in self._choices.items()
            if name in configuration
        }


def _draw_around(centre: UnitPoint, width: float, random: Random) -> list[UnitPoint]:
    return [tuple(min(max(random.gauss(at, width), 0.0), 1.0) for at in centre) for _ in range(NEARBY)]


def _import_model() -> Callable[[Sequence[Gain], float], GainModel]:
    """The model's class; it is imported only where it is asked for, since most operators do without its packages."""
    try:
        return importlib.import_module("podtune.tuning.schedulers.population.gain_model").GainModel  # type: ignore[no-any-return]
    except ImportError as error:
        raise ModelMissing(
            f"scheduler pb2 needs scikit-learn ({error}); use the operator's gp image (image.variant), or scheduler pbt"
        ) from error
