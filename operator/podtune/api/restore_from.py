"""Another trial's checkpoint that a trial starts from."""

from __future__ import annotations

from enum import StrEnum

from pydantic import Field

from podtune.api.base import ApiModel
from podtune.api.object_names import OptionalOwnName, OwnName


class IfUnavailable(StrEnum):
    """What becomes of a trial whose checkpoint to start from can't be had."""

    FAIL = "Fail"
    START_AFRESH = "StartAfresh"


class RestoreFrom(ApiModel):
    """A checkpoint of a trial of this namespace, looked up when the trial is first to start."""

    experiment: OptionalOwnName = Field(
        default="", description="Name of the Experiment that it belongs to; this one by default."
    )
    trial: OwnName = Field(description="Name of the Trial.")
    step: int | None = Field(
        default=None, ge=0, description="The iteration after which it was taken; by default the latest that is kept."
    )
    if_unavailable: IfUnavailable = Field(
        default=IfUnavailable.FAIL,
        description=(
            "What becomes of the trial where there is no such checkpoint and there will be none, or it can't be "
            "restored: it ends in ERROR, or starts afresh. A checkpoint that may still come is waited for."
        ),
    )
