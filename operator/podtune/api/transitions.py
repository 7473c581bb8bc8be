"""The latest changes of a state, kept in a status for those who hear of them by a webhook.

Each has a number. So whoever was told of one before is never told of it as if it were another one, whichever operator
tells of it.
"""

from __future__ import annotations

from typing import Annotated

from pydantic import Field

from podtune.api.base import StatusModel

MAX_TRANSITIONS = 12
"""How many are kept; the operator that runs meanwhile remembers more for a receiver that can't be reached."""


class Transition(StatusModel):
    """A change of the state."""

    number: int = Field(ge=1, description="Number of the change, from 1.")
    state: str = Field(max_length=32, description="The state since then.")
    reason: str = Field(default="", max_length=128, description="Why, in one word.")
    time: str = Field(max_length=32, description="When it was recorded (RFC 3339).")


class TrialTransition(Transition):
    """A change of a trial's state."""

    attempt: int = Field(default=0, ge=0, description="Number of the current or last attempt.")


Transitions = Annotated[list[Transition], Field(max_length=MAX_TRANSITIONS)]
TrialTransitions = Annotated[list[TrialTransition], Field(max_length=MAX_TRANSITIONS)]
