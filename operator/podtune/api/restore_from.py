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

    experiment: OptionalOwnName = Field(default="", description="Name of the trial's Experiment. Defaults to this one.")
    trial: OwnName = Field(description="Name of the Trial.")
    step: int | None = Field(
        default=None, ge=0, description="Iteration of the checkpoint. Defaults to the latest kept one."
    )
    if_unavailable: IfUnavailable = Field(
        default=IfUnavailable.FAIL,
        description=(
            "What happens to the trial if the checkpoint does not exist and never will, or can't be restored: it ends "
            "in ERROR (Fail) or starts from scratch (StartAfresh). The trial waits for a checkpoint that may still be "
            "stored."
        ),
    )
