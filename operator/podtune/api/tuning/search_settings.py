"""Settings of the search algorithms."""

from __future__ import annotations

from typing import Literal

from pydantic import Field

from podtune.api.base import ApiModel


class BruteForceSettings(ApiModel):
    """Settings of the brute force."""

    order: Literal["random", "systematic"] = Field(
        default="random",
        description="Random: shuffled by the seed. Systematic: as a grid, the last parameter changes fastest.",
    )


class QmcSettings(ApiModel):
    """Settings of the quasi-Monte Carlo search."""

    sequence: Literal["sobol", "halton"] = Field(
        default="sobol",
        description="The sequence of points: Sobol's is most even after a power of two of trials, Halton's any time.",
    )
    scramble: bool = Field(
        default=True,
        description="Whether the sequence is randomised by the seed; if not, it begins in a corner of the space.",
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
            "How many trials the search distribution is moved by at a time; 4 + ⌊3 ln n⌋ for n numeric parameters "
            "when it is left out. With many concurrent trials, at least as many."
        ),
    )


class GeneticSettings(ApiModel):
    """Settings that the genetic algorithms share."""

    population_size: int = Field(
        default=50,
        ge=2,
        le=128,
        description="How many trials a generation has; the first one is drawn at random.",
    )
    crossover_probability: float = Field(
        default=0.9, ge=0, le=1, description="How often a trial has two parents; else it is a copy of one."
    )
    swapping_probability: float = Field(
        default=0.5, ge=0, le=1, description="How likely a parameter is to come from the second of two parents."
    )
    mutation_probability: float | None = Field(
        default=None,
        ge=0,
        le=1,
        description="How likely a parameter is to be drawn anew; 1/n for n parameters when it is left out.",
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
            "Into how many parts each edge between two objectives is divided by the reference points that trials are "
            "kept close to; n objectives have (n + divisions - 1 over divisions) of them."
        ),
    )


class BohbSearchSettings(ApiModel):
    """Settings of BOHB, the search that learns from the rungs of the scheduler of the same name."""

    random_fraction: float = Field(
        default=1 / 3, ge=0, le=1, description="How many of the configurations are drawn at random all the same."
    )
    min_points: int | None = Field(
        default=None,
        ge=1,
        le=1000,
        description=(
            "A rung is modelled once two more than this many trials have reached it; n + 1 for n parameters when it "
            "is left out."
        ),
    )


class GpSettings(ApiModel):
    """Settings of the search by a Gaussian process."""

    startup_trials: int = Field(
        default=10, ge=1, le=10000, description="How many finished trials are sampled at random first."
    )
    max_points: int = Field(
        default=200,
        ge=10,
        le=1000,
        description=(
            "How many finished trials are modelled at most: the best half, and the latest of the others. What a "
            "proposal costs grows with the cube."
        ),
    )
