"""How an experiment goes on after it has ended."""

from __future__ import annotations

from enum import StrEnum

from pydantic import Field

from podtune.api.base import ApiModel, StatusModel


class ResumePolicy(StrEnum):
    """What becomes of a trial that has ended when its experiment goes on."""

    RESUME = "Resume"
    """It goes on from its last checkpoint."""
    RESTART = "Restart"
    """It begins anew, and what it has come to is forgotten."""
    SKIP = "Skip"
    """It stays as it is."""


class RestartPolicy(StrEnum):
    """The same of a trial that has come to an end of its own, and so has nothing to go on with."""

    RESTART = "Restart"
    SKIP = "Skip"


class Resume(ApiModel):
    """What becomes of trials when an experiment goes on after its end."""

    id: str = Field(
        default="",
        max_length=63,
        description=(
            "Any text. Changed to another one on an experiment that has ended, it has that go on, once. Raising "
            "search.maxTrials or a limit of stop does so, too."
        ),
    )
    unfinished: ResumePolicy = Field(
        default=ResumePolicy.RESUME, description="Trials that were stopped since the experiment ended."
    )
    errored: ResumePolicy = Field(
        default=ResumePolicy.SKIP, description="Trials in ERROR; those that go on are forgiven all failures."
    )
    finished: RestartPolicy = Field(default=RestartPolicy.SKIP, description="Trials that came to a good end.")


class Resumption(StatusModel):
    """How an experiment went on after its last end: it is written before any trial goes on."""

    run_generation: int = Field(ge=1, description="How often it has gone on after an end.")
    unfinished: str = Field(max_length=16, description="What became of trials that were stopped with the experiment.")
    errored: str = Field(max_length=16, description="What became of trials in ERROR.")
    finished: str = Field(max_length=16, description="What became of trials that had come to a good end.")
