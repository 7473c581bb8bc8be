"""How configurations are proposed."""

from __future__ import annotations

from typing import Literal, Self

from pydantic import Field, model_validator

from podtune.api.model import ApiModel, FieldError
from podtune.api.search_settings import CmaEsSettings


class GridSettings(ApiModel):
    """Settings of the grid search."""

    points: int = Field(
        default=5,
        ge=2,
        le=1000,
        description="How many evenly spaced points stand for a float parameter without a step.",
    )


class TpeSettings(ApiModel):
    """Settings of the tree-structured Parzen estimator."""

    startup_trials: int = Field(
        default=10, ge=0, le=10000, description="How many finished trials are sampled at random first."
    )
    multivariate: bool | None = Field(
        default=None,
        description=(
            "Whether parameters are modelled jointly. When it is left out, they are with one objective, and are not "
            "with several."
        ),
    )


class Search(ApiModel):
    """How configurations are proposed."""

    algorithm: Literal["random", "grid", "tpe", "cmaes"] = Field(default="tpe", description="The search algorithm.")
    max_trials: int = Field(ge=1, le=100_000, description="How many trials are made at most.")
    seed: int = Field(
        default=0, ge=0, le=2**32 - 1, description="Seed of all random draws; the same seed proposes the same."
    )
    grid: GridSettings | None = Field(default=None, description="Only with algorithm grid.")
    tpe: TpeSettings | None = Field(default=None, description="Only with algorithm tpe.")
    cmaes: CmaEsSettings | None = Field(
        default=None, description="Only with algorithm cmaes, which models numbers alone: it draws choices at random."
    )

    @model_validator(mode="after")
    def _check(self) -> Self:
        for name in ("grid", "tpe", "cmaes"):
            if getattr(self, name) is not None and self.algorithm != name:
                problem = f"{name} goes with algorithm {name}, not {self.algorithm}; remove one of the two"
                raise FieldError(name, problem)
        return self
