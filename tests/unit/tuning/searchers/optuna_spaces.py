"""Search spaces that Optuna has too, for comparing with it."""

from __future__ import annotations

from podtune.api.tuning.search_space import Parameter
from tests.unit.tuning.manifests import every_kind


def of_optuna() -> list[Parameter]:
    """A parameter of every kind but the normal distributions, which take a way to Optuna that costs their last bits."""
    return [parameter for parameter in every_kind() if parameter.normal is None and parameter.log_normal is None]
