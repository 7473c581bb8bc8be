"""How population based training changes a configuration: resample, or perturb.

The draws are those of Ray Tune 2.60, number for number, from one generator: Ray takes some from Python's `random` and
some from NumPy's, which are the same Mersenne Twister. So are the oddities: values may leave their domain, unless they
are clipped; an integer is rounded after it was multiplied, so one of 1 or 2 never changes; a step is heeded only by
values that are drawn anew, and the outer ones of a stepped float are drawn half as often as the others.

Where Ray has no counterpart: normal domains are sampled through the inverse of their distribution function; parameters
that begin to exist because another one has changed are drawn; and a configuration that a constraint refuses is explored
anew, up to `MAX_TRIES` times.
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from decimal import Decimal
from random import Random

from typing_extensions import override

from podtune.api.tuning.configuration import ConfigurationRules, InvalidConfiguration
from podtune.api.tuning.population import PbtSettings
from podtune.api.tuning.search_space import (
    ChoiceDomain,
    Domain,
    FloatDomain,
    IntDomain,
    LogNormalDomain,
    NormalDomain,
    Parameter,
    Scalar,
    format_value,
)
from podtune.tuning.domains import normal
from podtune.tuning.domains.points import find_finite_points
from podtune.tuning.schedulers.base import Record
from podtune.tuning.searchers.base import Configuration

MAX_TRIES = 1000
"""So often a configuration is explored before a donor's is taken as it is."""
_WORD = 0xFFFFFFFF


@dataclass(frozen=True, slots=True)
class RankedPerformance:
    """How far a trial had come when it was ranked.

    Attributes:
        time: Its time attribute.
        score: Its objective, more is better.
        configuration: What it ran with.
    """

    time: float
    score: float
    configuration: Configuration


class Explorer(ABC):
    """Says what a trial goes on with that clones another one.

    It may learn from how trials fare, and then keeps what it knows of each in the trial's record.
    """

    @abstractmethod
    def explore(
        self, donor: int, configuration: Configuration, pending: Sequence[Configuration], random: Random
    ) -> Configuration:
        """The configuration that a trial goes on with.

        Args:
            donor: The trial that it clones.
            configuration: The donor's.
            pending: What other trials were given that have not been looked at since.
            random: Where all draws come from.
        """

    def observe(self, trial: int, observation: RankedPerformance) -> None:  # noqa: B027 - most don't learn
        """A trial was ranked."""

    def on_clone(self, trial: int, observation: RankedPerformance | None) -> None:  # noqa: B027 - most don't learn
        """A trial goes on with another configuration from a donor's state; None where nobody knows from what."""

    def forget(self, trial: int) -> None:  # noqa: B027 - most don't learn
        """A trial is no more."""

    def record(self, trial: int) -> Record:  # noqa: ARG002 - most don't learn
        """Sections of the trial's record."""
        return {}

    def restore(self, trial: int, record: Record) -> None:  # noqa: B027 - most don't learn
        """Takes in what `record` has written.

        Raises:
            ValueError: It can't have been written so.
        """


class Space:
    """What a configuration may become: conditions, computed values and constraints hold after a change, too."""

    def __init__(self, parameters: Sequence[Parameter], constraints: Sequence[str]) -> None:
        self._rules = ConfigurationRules(parameters, constraints)
        self._domains = {parameter.name: parameter.domain for parameter in parameters if parameter.is_sampled}

    def explore(
        self, configuration: Configuration, change: Callable[[], Mapping[str, Scalar]], random: Random
    ) -> Configuration:
        """A changed configuration that may be; the unchanged one where `MAX_TRIES` changes make none.

        Args:
            configuration: What is changed.
            change: Changes it, another way each time.
            random: Where values of parameters come from that did not exist before.
        """
        for _ in range(MAX_TRIES):
            changed = dict(change())
            for name, domain in self._domains.items():
                if name not in changed:
                    changed[name] = draw_value(domain, random)
            with suppress(InvalidConfiguration):
                return self._rules.build_configuration(changed)
        return configuration


class Perturbing(Explorer):
    """Explores as PBT does: every parameter is drawn anew, or else changed a little."""

    def __init__(self, space: Space, domains: Mapping[str, Domain], settings: PbtSettings) -> None:
        """Makes an explorer that changes what has a domain, in the order of these."""
        self._space = space
        self._domains = domains
        self._settings = settings

    @override
    def explore(
        self, donor: int, configuration: Configuration, pending: Sequence[Configuration], random: Random
    ) -> Configuration:
        """Changes the donor's configuration at random."""

        def change() -> dict[str, Scalar]:
            return dict(configuration) | {
                name: self._change(domain, configuration[name], random)
                for name, domain in self._domains.items()
                if name in configuration
            }

        return self._space.explore(configuration, change, random)

    def _change(self, domain: Domain, value: Scalar, random: Random) -> Scalar:
        probability = self._settings.resample_probability
        if isinstance(domain, ChoiceDomain):
            return move_choice(domain.values, value, probability, random)
        if random.random() < probability:
            return draw_value(domain, random)
        factors = self._settings.perturbation_factors
        changed = multiply(value, random.choice((factors.up, factors.down)))
        return clip_to_domain(domain, changed) if self._settings.clip else changed


def move_choice(values: Sequence[Scalar], value: Scalar, resample_probability: float, random: Random) -> Scalar:
    """One of a list of values: any, or else a neighbour of the present one; at an end it may stay where it is."""
    written = [format_value(choice) for choice in values]
    at_random = random.random() < resample_probability
    if at_random or format_value(value) not in written:
        return random.choice(values)
    position = written.index(format_value(value)) + random.choice((-1, 1))
    return values[min(max(position, 0), len(values) - 1)]


def multiply(value: Scalar, factor: float) -> Scalar:
    """A number times a factor, an integer rounded; unchanged where the product is too large for a float."""
    try:
        product = float(value) * factor
        if not math.isfinite(product):
            return value
    except OverflowError:
        return value
    return round(product) if isinstance(value, int) else product


def clip_to_domain(domain: Domain, value: Scalar) -> Scalar:
    """The value of a numeric domain that is nearest to a number; itself where it is one."""
    assert not isinstance(domain, ChoiceDomain)  # the caller has looked
    number = float(value)
    low = -math.inf if domain.min is None else domain.min
    high = math.inf if domain.max is None else domain.max
    within = min(max(number, low), high)
    match domain:
        case IntDomain(min=first, step=step):
            position = round((int(value) - first) / step)
        case FloatDomain(min=first, step=float(step)):
            position = round((within - first) / step)
        case NormalDomain(step=float(step)):
            return float(round(within / step) * Decimal(repr(step)))
        case _:
            return within
    points = find_finite_points(domain)
    assert points is not None  # it has a step
    return points.value(min(max(position, 0), points.count - 1))


def draw_value(domain: Domain, random: Random) -> Scalar:
    """A value of a domain, as Ray's samplers draw it."""
    match domain:
        case ChoiceDomain(values=values):
            return values[draw_below(len(values), random)]
        case IntDomain(min=low, max=high, scale="log"):
            return min(max(math.floor(_log_uniform(low, high + 1, random)), low), high)
        case IntDomain(min=low, max=high, step=step):
            return low + draw_below((high - low) // step + 1, random) * step
        case FloatDomain(min=low, max=high, scale="log"):
            return min(max(_log_uniform(low, high, random), low), high)
        case FloatDomain(step=float()):
            points = find_finite_points(domain)
            assert points is not None  # it has a step
            return points.value(round(random.random() * (points.count - 1)))
        case FloatDomain(min=low, max=high):
            share = random.random()
            return low + (high - low) * share if math.isfinite(high - low) else low * (1 - share) + high * share
        case NormalDomain() | LogNormalDomain():
            return normal.quantile(domain, random.random())


def draw_below(count: int, random: Random) -> int:
    """An integer from 0 to below `count`, as NumPy's `RandomState` draws it: by trial and error, word by word."""
    most = count - 1
    mask = (1 << most.bit_length()) - 1
    while most:
        word = random.getrandbits(32)
        if most > _WORD:
            word = word << 32 | random.getrandbits(32)
        if word & mask <= most:
            return word & mask
    return 0


def _log_uniform(low: float, high: float, random: Random) -> float:
    start, stop = math.log(low), math.log(high)
    return math.exp(start + (stop - start) * random.random())
