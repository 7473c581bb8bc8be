"""Settings of the search algorithms."""

from __future__ import annotations

from typing import Literal

from pydantic import Field

from podtune.api.base import ApiModel


class BruteForceSettings(ApiModel):
    """Settings of the brute force."""

    order: Literal["random", "systematic"] = Field(
        default="random",
        description=(
            "Random: shuffled by the seed. Systematic: in grid order, with the last parameter changing fastest."
        ),
    )


class QmcSettings(ApiModel):
    """Settings of the quasi-Monte Carlo search."""

    sequence: Literal["sobol", "halton"] = Field(
        default="sobol",
        description="The sequence of points. Sobol is most even after a power of two trials, Halton after any number.",
    )
    scramble: bool = Field(
        default=True,
        description="Whether to randomise the sequence by the seed. If false, it begins in a corner of the space.",
    )


WITH_SETTINGS = ("grid", "qmc", "bruteForce", "tpe", "cmaes", "nsga2", "nsga3", "bohb", "gp", "plugin")
"""Algorithms that have settings, in a field of their own name."""


class CmaEsSettings(ApiModel):
    """Settings of the covariance matrix adaptation evolution strategy (CMA-ES)."""

    population_size: int | None = Field(
        default=None,
        ge=4,
        le=1000,
        description=(
            "How many trials each update of the search distribution uses. Defaults to 4 + ⌊3 ln n⌋ for n numeric "
            "parameters. Set it to at least the number of concurrent trials."
        ),
    )


class GeneticSettings(ApiModel):
    """Settings that the genetic algorithms share."""

    population_size: int = Field(
        default=50,
        ge=2,
        le=128,
        description="How many trials a generation has. The first generation is drawn at random.",
    )
    crossover_probability: float = Field(
        default=0.9, ge=0, le=1, description="Probability that a trial has two parents; otherwise it is a copy of one."
    )
    swapping_probability: float = Field(
        default=0.5, ge=0, le=1, description="Probability that a parameter comes from the second of two parents."
    )
    mutation_probability: float | None = Field(
        default=None,
        ge=0,
        le=1,
        description="Probability that a parameter is resampled. Defaults to 1/n for n parameters.",
    )


class Nsga2Settings(GeneticSettings):
    """Settings of NSGA-II, the nondominated sorting genetic algorithm."""


class Nsga3Settings(GeneticSettings):
    """Settings of NSGA-III, which keeps apart from each other the trials of three and more objectives."""

    divisions: int = Field(
        default=3,
        ge=1,
        le=12,
        description=(
            "How many parts the reference points divide each edge between two objectives into. Trials are kept close "
            "to these points; with n objectives there are (n + divisions - 1 over divisions) of them."
        ),
    )


class BohbSearchSettings(ApiModel):
    """Settings of BOHB, the search that learns from the rungs of the scheduler of the same name."""

    random_fraction: float = Field(
        default=1 / 3, ge=0, le=1, description="Share of the configurations that are still drawn at random."
    )
    min_points: int | None = Field(
        default=None,
        ge=1,
        le=1000,
        description=(
            "A rung is modelled once this many trials plus two have reached it. Defaults to n + 1 for n parameters."
        ),
    )


class GpSettings(ApiModel):
    """Settings of the search by a Gaussian process."""

    startup_trials: int = Field(
        default=10, ge=1, le=10000, description="How many finished trials to sample at random first."
    )
    max_points: int = Field(
        default=200,
        ge=10,
        le=1000,
        description=(
            "Maximum number of finished trials to model: the best half, and the latest of the others. The cost of a "
            "proposal grows with its cube."
        ),
    )
