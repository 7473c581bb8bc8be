"""Prior knowledge of an experiment: configurations worth trying first, and results of earlier trials."""

from __future__ import annotations

from typing import Annotated

from pydantic import Field

from podtune.api.base import ApiModel, Form
from podtune.api.restore_from import RestoreFrom
from podtune.api.tuning.objective import MetricName
from podtune.api.tuning.search_space import ParameterValue

MAX_INITIAL = 256
"""How many configurations a manifest may start with."""


class InitialConfiguration(ApiModel):
    """A configuration to start with: one to try first or, with results, one that was tried before."""

    parameters: dict[str, ParameterValue] = Field(
        max_length=64, description="Values by parameter name, one for each parameter that a searcher would choose."
    )
    results: dict[MetricName, float] = Field(
        default_factory=dict,
        max_length=16,
        description=(
            "Known results of the configuration: a value for each of the objective's metrics. The configuration is not "
            "run, and the searcher observes it before everything else."
        ),
    )

    restore_from: RestoreFrom | None = Field(
        default=None, description="Another trial's checkpoint to start from. Requires checkpoints.store."
    )

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
            "is not a valid Experiment name; use lowercase letters, digits and -",
        ),
    ] = Field(
        max_length=63,
        description=(
            "Name of an Experiment in this namespace. Once it has ended, the searcher first observes its trials that "
            "ended without an error and whose configurations lie in this search space."
        ),
    )
