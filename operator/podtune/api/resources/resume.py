"""How an experiment resumes after it has ended."""

from __future__ import annotations

from enum import StrEnum

from pydantic import Field

from podtune.api.base import ApiModel, StatusModel


class ResumePolicy(StrEnum):
    """What happens to an ended trial when its experiment resumes."""

    RESUME = "Resume"
    """It continues from its last checkpoint."""
    RESTART = "Restart"
    """It starts over, and its results are forgotten."""
    SKIP = "Skip"
    """It stays as it is."""


class RestartPolicy(StrEnum):
    """The same of a trial that has come to an end of its own, and so has nothing to go on with."""

    RESTART = "Restart"
    SKIP = "Skip"


class Resume(ApiModel):
    """What happens to trials when an experiment resumes after its end."""

    id: str = Field(
        default="",
        max_length=63,
        description=(
            "Any text. Changing it resumes an experiment that has ended, once. Raising search.maxTrials or a limit in "
            "stop resumes it, too."
        ),
    )
    unfinished: ResumePolicy = Field(
        default=ResumePolicy.RESUME,
        description="What happens to trials that were stopped because the experiment ended.",
    )
    errored: ResumePolicy = Field(
        default=ResumePolicy.SKIP,
        description="What happens to trials in ERROR. The failure counts of those that continue are reset.",
    )
    finished: RestartPolicy = Field(
        default=RestartPolicy.SKIP, description="What happens to trials that ended without an error."
    )


class Resumption(StatusModel):
    """How an experiment resumed after its last end. It is written before any trial continues."""

    run_generation: int = Field(ge=1, description="How many times the experiment has resumed after an end.")
    unfinished: str = Field(
        max_length=16, description="What happened to trials that were stopped because the experiment ended."
    )
    errored: str = Field(max_length=16, description="What happened to trials in ERROR.")
    finished: str = Field(max_length=16, description="What happened to trials that had ended without an error.")
