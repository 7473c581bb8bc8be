"""Prior knowledge of an experiment: configurations worth trying first, and results of earlier trials."""

from __future__ import annotations

from typing import Annotated, Any

from pydantic import Field, field_validator

from podtune.api.base import ApiModel, FieldError, Form
from podtune.api.restore_from import RestoreFrom
from podtune.api.tuning.objective import MetricName
from podtune.api.tuning.search_space import Scalar, find_scalar_problem


class InitialConfiguration(ApiModel):
    """A configuration to begin with: one to be tried first, or, with results, one that was tried already."""

    parameters: dict[str, Scalar] = Field(
        max_length=64, description="Its values by parameter name, one for each parameter that a searcher would choose."
    )
    results: dict[MetricName, float] = Field(
        default_factory=dict,
        max_length=16,
        description=(
            "What came of it, where that is known: a value of each of the objective's metrics. It is not run then, "
            "and the searcher is told of it before all else."
        ),
    )

    restore_from: RestoreFrom | None = Field(
        default=None, description="Another trial's checkpoint that its trial starts from; it needs checkpoints.store."
    )

    @field_validator("parameters", mode="before")
    @classmethod
    def _holds_scalars(cls, parameters: Any) -> Any:
        """Says it in one sentence; a union would say it once for each of its types."""
        for name, value in parameters.items() if isinstance(parameters, dict) else ():
            problem = find_scalar_problem(value)
            if problem:
                raise FieldError(str(name), problem)
        return parameters

    @property
    def is_known(self) -> bool:
        """Whether its results are known, so that no trial is needed."""
        return bool(self.results)


class WarmStart(ApiModel):
    """An earlier experiment to learn from."""

    experiment: Annotated[
        str,
        Form(
            "[a-z0-9]([a-z0-9-]*[a-z0-9])?",
            "can't be the name of an Experiment; use small letters, digits and -",
        ),
    ] = Field(
        max_length=63,
        description=(
            "Name of an Experiment of this namespace. Once it has ended, its trials that came to a good end are told "
            "to the searcher before all others: those of them that lie in this search space."
        ),
    )
