"""Settings of the search algorithms that learn from results."""

from __future__ import annotations

from pydantic import Field

from podtune.api.model import ApiModel


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
