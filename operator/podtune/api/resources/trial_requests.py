"""What people ask of one running trial, once: another attempt, or a checkpoint."""

from __future__ import annotations

from pydantic import Field

from podtune.api.base import ApiModel


class RetryRequest(ApiModel):
    """Asks for an attempt to end and for the next one to go on from its last checkpoint."""

    attempt: int = Field(
        ge=1,
        description=(
            "Number of the attempt that ends; it counts as no failure. One that waits for its backoff starts at once. "
            "Other attempts are not touched."
        ),
    )
