"""What a Trial records of its evaluation."""

from __future__ import annotations

from typing import Annotated

from pydantic import Field

from podtune.api.conditions import MAX_MESSAGE
from podtune.api.resources.failures import FailureCounts
from podtune.protocol.messages import MAX_METRICS

MAX_SHOWN = 256


class TrialEvaluation(FailureCounts):
    """The evaluation of a trial whose training has ended; its attempts are counted apart from those of training."""

    step: int = Field(ge=0, description="Iteration of the checkpoint that is evaluated.")
    uri: str = Field(max_length=1024, description="URI of that checkpoint, which is kept.")
    reason: str = Field(max_length=128, description="How training ended, in one word, such as Completed.")
    message: str = Field(default="", max_length=MAX_MESSAGE, description="How it ended, in a sentence.")
    since: str = Field(default="", max_length=32, description="When it ended (RFC 3339).")
    attempt: int = Field(ge=1, description="First attempt of the evaluation; the trial's attempts are numbered on.")
    training_seconds: int = Field(
        default=0,
        ge=0,
        description="How long the program had run when training ended; failures.runDeadline counts on from there.",
    )
    was_paused: bool = Field(
        default=False, description="Whether the scheduler ended the training of a trial that it had paused."
    )
    failures: int = Field(default=0, ge=0, description="How often it failed by itself, out of evaluation.maxFailures.")
    result: dict[str, Annotated[str, Field(max_length=MAX_SHOWN)]] = Field(
        default_factory=dict, max_length=MAX_METRICS, description="The last result of the present or last attempt."
    )
