"""Schedulers with the names, arguments and defaults that they have in Ray Tune."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Protocol

from podtune.client.errors import InvalidArgument
from podtune.client.tune.space import ParameterDomain, choice


class TrialScheduler(Protocol):
    """Says which trials go on."""

    def describe(self) -> dict[str, Any]:
        """The field `scheduler` of the manifest."""


@dataclass(frozen=True, slots=True)
class FIFOScheduler:
    """Every trial runs to its own end."""

    def describe(self) -> dict[str, Any]:
        """The field `scheduler` of the manifest."""
        return {"fifo": {}}


@dataclass(frozen=True, slots=True)
class ASHAScheduler:
    """Asynchronous successive halving: of the trials at a rung, about one in `reduction_factor` goes on."""

    time_attr: str = "training_iteration"
    max_t: int = 100
    grace_period: int = 1
    reduction_factor: int = 4
    brackets: int = 1

    def describe(self) -> dict[str, Any]:
        """The field `scheduler` of the manifest."""
        settings = {
            "timeAttribute": self.time_attr,
            "maxTime": self.max_t,
            "gracePeriod": self.grace_period,
            "reductionFactor": self.reduction_factor,
            "brackets": self.brackets,
        }
        return {"asha": settings}


AsyncHyperBandScheduler = ASHAScheduler
"""The other name that Ray Tune has for it."""


@dataclass(frozen=True, slots=True)
class HyperBandScheduler:
    """HyperBand: the trials of a bracket wait for each other at each rung. It needs a store for checkpoints."""

    time_attr: str = "training_iteration"
    max_t: int = 81
    reduction_factor: int = 3

    def describe(self) -> dict[str, Any]:
        """The field `scheduler` of the manifest."""
        settings = {
            "timeAttribute": self.time_attr,
            "maxTime": self.max_t,
            "reductionFactor": self.reduction_factor,
        }
        return {"hyperband": settings}


@dataclass(frozen=True, slots=True)
class MedianStoppingRule:
    """Stops a trial whose best result is worse than the median of the others' means at the same time.

    Attributes:
        hard_stop: False pauses such a trial instead, which needs a store for checkpoints.
    """

    time_attr: str = "time_total_s"
    grace_period: int = 60
    min_samples_required: int = 3
    hard_stop: bool = True

    def describe(self) -> dict[str, Any]:
        """The field `scheduler` of the manifest."""
        settings = {
            "timeAttribute": self.time_attr,
            "gracePeriod": self.grace_period,
            "minSamples": self.min_samples_required,
            "softStop": not self.hard_stop,
        }
        return {"median": settings}


@dataclass(frozen=True, slots=True)
class PopulationBasedTraining:
    """The worst trials go on from the best ones' checkpoints, with changed parameters. It needs a store for them.

    Attributes:
        hyperparam_mutations: Parameters to change, each with a list of values or a domain.
        perturbation_factors: What numbers are multiplied by: one above 1, and one below.
    """

    time_attr: str = "time_total_s"
    perturbation_interval: int = 60
    burn_in_period: int = 0
    hyperparam_mutations: Mapping[str, Any] = field(default_factory=dict)
    quantile_fraction: float = 0.25
    resample_probability: float = 0.25
    perturbation_factors: tuple[float, float] = (1.2, 0.8)
    synch: bool = False

    def describe(self) -> dict[str, Any]:
        """The field `scheduler` of the manifest.

        Raises:
            InvalidArgument: A mutation is no list or domain, or the factors are not two numbers.
        """
        if not isinstance(self.hyperparam_mutations, Mapping):
            raise InvalidArgument(
                f"hyperparam_mutations: {self.hyperparam_mutations!r:.64} is no dict; give a list of values, or a "
                "domain, by the parameter's name"
            )
        match self.perturbation_factors:
            case (int() | float() as one, int() | float() as other):
                factors = {"up": max(one, other), "down": min(one, other)}
            case given:
                raise InvalidArgument(
                    f"perturbation_factors: {given!r:.64} are not two numbers; give one above 1 and one "
                    "below, such as (1.2, 0.8)"
                )
        settings: dict[str, Any] = {
            "timeAttribute": self.time_attr,
            "interval": self.perturbation_interval,
            "burnIn": self.burn_in_period,
            "mutations": [_describe_mutation(name, given) for name, given in self.hyperparam_mutations.items()],
            "quantile": self.quantile_fraction,
            "resampleProbability": self.resample_probability,
            "perturbationFactors": factors,
            "synchronous": self.synch,
        }
        return {"pbt": settings}


def _describe_mutation(name: str, given: Any) -> dict[str, Any]:
    domain = choice(given) if isinstance(given, list | tuple) else given
    if not isinstance(domain, ParameterDomain) or not {"float", "int", "choice"} & {*domain}:
        raise InvalidArgument(
            f"hyperparam_mutations[{name!r}]: {given!r:.64} can't bound a mutation; give a list of values, or a domain "
            "such as uniform(0.1, 1.0)"
        )
    return {"name": name, **domain}
