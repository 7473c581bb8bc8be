"""What people ask of one running trial, once: another attempt, or a checkpoint."""

from __future__ import annotations

from pydantic import Field

from podtune.api.base import ApiModel


class RetryRequest(ApiModel):
    """Asks for an attempt to end and for the next one to go on from the last checkpoint, or from an earlier one."""

    attempt: int = Field(
        ge=1,
        description=(
            "Number of the attempt that ends; it counts as no failure. One that waits for its backoff starts at once. "
            "Other attempts are not touched."
        ),
    )
    step: int | None = Field(
        default=None,
        ge=0,
        description=(
            "Iteration of the trial's own checkpoint that the next attempt goes on from. The current attempt then ends "
            "without a further checkpoint. If it isn't set, the next attempt goes on from the last checkpoint."
        ),
    )


class CheckpointRequest(ApiModel):
    """Asks the program of a running trial for a checkpoint, without a pause."""

    id: str = Field(min_length=1, max_length=63, description="Any text. Another one asks for another checkpoint.")
