"""How configurations are proposed."""

from __future__ import annotations

from typing import Annotated, Literal, Self

from pydantic import Field, model_validator

from podtune.api.base import ApiModel, FieldError, IntegerOrWord
from podtune.api.tuning.plugin import Plugin
from podtune.api.tuning.prior_knowledge import MAX_INITIAL, InitialConfiguration, WarmStart
from podtune.api.tuning.search_settings import (
    WITH_SETTINGS,
    BohbSearchSettings,
    BruteForceSettings,
    CmaEsSettings,
    GpSettings,
    Nsga2Settings,
    Nsga3Settings,
    QmcSettings,
)
from podtune.api.tuning.search_space import ParameterName

Algorithm = Literal["random", "grid", "qmc", "bruteForce", "tpe", "gp", "cmaes", "bohb", "nsga2", "nsga3", "plugin"]
MAX_TRIALS = 100_000
"""The most trials that an Experiment can have, whatever its manifest says."""
UNLIMITED = "unlimited"
_DEAF = frozenset({"random", "grid", "qmc", "bruteForce"})
"""Algorithms that learn nothing from results."""


class GridSettings(ApiModel):
    """Settings of the grid search."""

    points: int = Field(
        default=5,
        ge=2,
        le=1000,
        description="How many evenly spaced points represent a float parameter without a step.",
    )
    parameters: list[ParameterName] = Field(
        default_factory=list,
        max_length=64,
        description=(
            "Which parameters make the grid. All others are drawn at random for each trial, and after its last "
            "combination the grid begins again with new draws, up to maxTrials. Defaults to all parameters, each "
            "combination once."
        ),
    )


class TpeSettings(ApiModel):
    """Settings of the tree-structured Parzen estimator."""

    startup_trials: int = Field(
        default=10, ge=0, le=10000, description="How many finished trials to sample at random first."
    )
    multivariate: bool | None = Field(
        default=None,
        description=(
            "Whether to model parameters jointly. Defaults to true with one objective and to false with several."
        ),
    )
    group: bool | None = Field(
        default=None,
        description=(
            "Whether to model conditional parameters jointly with the parameters they appear with. If false, each is "
            "modelled alone. Defaults to true if parameters are modelled jointly."
        ),
    )
    constant_liar: bool = Field(
        default=True,
        description="Whether to treat unfinished trials as bad ones, so that concurrent proposals spread out.",
    )

    @model_validator(mode="after")
    def _check(self) -> Self:
        if self.group and self.multivariate is False:
            raise FieldError("group", "group true needs multivariate true; change one of the two")
        return self


class SearchSpec(ApiModel):
    """How configurations are proposed."""

    algorithm: Algorithm = Field(default="tpe", description="The search algorithm.")
    max_trials: Annotated[int | Literal["unlimited"], IntegerOrWord(1, MAX_TRIALS, UNLIMITED)] = Field(
        description=(
            "Maximum number of trials: 1 to 100000, a multiple of repeats; or unlimited, if stop holds a budget or a "
            "target that ends the experiment."
        )
    )
    repeats: int = Field(
        default=1,
        ge=1,
        le=100,
        description=(
            "How many trials to run per configuration, with different seeds (PODTUNE_SEED). The searcher observes "
            "their mean. Requires scheduler fifo, asha or median."
        ),
    )
    seed: int = Field(
        default=0, ge=0, le=2**32 - 1, description="Seed of all random draws. The same seed gives the same proposals."
    )
    initial: list[InitialConfiguration] = Field(
        default_factory=list,
        max_length=MAX_INITIAL,
        description=(
            "Configurations to start with. Those without results become the first trials, in this order. More of them "
            "can be appended while the experiment runs: they become the next trials."
        ),
    )
    warm_start: WarmStart | None = Field(default=None, description="An earlier experiment to learn from.")
    grid: GridSettings | None = Field(default=None, description="Only with algorithm grid.")
    qmc: QmcSettings | None = Field(default=None, description="Only with algorithm qmc.")
    brute_force: BruteForceSettings | None = Field(default=None, description="Only with algorithm bruteForce.")
    tpe: TpeSettings | None = Field(default=None, description="Only with algorithm tpe.")
    cmaes: CmaEsSettings | None = Field(
        default=None, description="Only with algorithm cmaes, which models only numbers and draws choices at random."
    )
    nsga2: Nsga2Settings | None = Field(default=None, description="Only with algorithm nsga2.")
    nsga3: Nsga3Settings | None = Field(default=None, description="Only with algorithm nsga3.")
    bohb: BohbSearchSettings | None = Field(default=None, description="Only with algorithm bohb.")
    gp: GpSettings | None = Field(
        default=None, description="Only with algorithm gp, which requires the operator's gp image (image.variant gp)."
    )
    plugin: Plugin | None = Field(
        default=None, description="Only with algorithm plugin: a searcher that is installed in the operator's image."
    )

    @model_validator(mode="after")
    def _check(self) -> Self:
        fields = {field.alias or name: name for name, field in SearchSpec.model_fields.items()}
        for name in WITH_SETTINGS:
            if getattr(self, fields[name]) is not None and self.algorithm != name:
                problem = f"{name} requires algorithm {name}, not {self.algorithm}; remove one of the two"
                raise FieldError(name, problem)
        if self.algorithm == "plugin" and self.plugin is None:
            raise FieldError("plugin", "is missing, but algorithm plugin needs its name; add plugin: {name: …}")
        self._check_repeats()
        return self

    def _check_repeats(self) -> None:
        if isinstance(self.max_trials, int) and self.max_trials % self.repeats:
            below = self.max_trials - self.max_trials % self.repeats
            fitting = f"{below} or {below + self.repeats}" if below else str(self.repeats)
            raise FieldError(
                "maxTrials",
                f"{self.max_trials} trials can't be divided into configurations of {self.repeats} repeats each; use "
                f"{fitting}",
            )

    @property
    def trial_limit(self) -> int:
        """How many trials there may be."""
        return self.max_trials if isinstance(self.max_trials, int) else MAX_TRIALS - MAX_TRIALS % self.repeats

    @property
    def learns(self) -> bool:
        """Whether what is proposed depends on results, and so on what was known when it was asked for."""
        return self.algorithm not in _DEAF
