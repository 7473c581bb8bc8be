"""Stretches of time in which a trial did one thing."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from enum import StrEnum

from podtune.dashboard.trial_rows import ShownState


class Activity(StrEnum):
    """What a trial was doing."""

    WAITING = "waiting"
    STARTING = "starting"
    TRAINING = "training"
    EVALUATING = "evaluating"
    SAVING = "saving"
    PAUSED = "paused"
    UNKNOWN = "unknown"


ACTIVITY_WORDS = {
    Activity.TRAINING: "Training",
    Activity.EVALUATING: "Evaluating",
    Activity.SAVING: "Saving and ending",
    Activity.STARTING: "Starting",
    Activity.WAITING: "Waiting",
    Activity.PAUSED: "Paused",
    Activity.UNKNOWN: "Not on record",
}
"""In the order in which they are shown."""
STATES_BY_ACTIVITY = {
    Activity.WAITING: ShownState.PENDING,
    Activity.STARTING: ShownState.PENDING,
    Activity.TRAINING: ShownState.RUNNING,
    Activity.EVALUATING: ShownState.RUNNING,
    Activity.SAVING: ShownState.RUNNING,
    Activity.PAUSED: ShownState.PAUSED,
    Activity.UNKNOWN: ShownState.RUNNING,
}
"""The state that a trial was in meanwhile. What is not on record lies between two attempts, or is one."""


class Mark(StrEnum):
    """Why an attempt did not go on, where that was no decision."""

    NONE = ""
    FAILURE = "failure"
    DISRUPTION = "disruption"


@dataclass(frozen=True, slots=True)
class Span:
    """A stretch of time.

    Attributes:
        begin: In seconds since 1970.
        end: The same; never before `begin`.
        attempt: Number of the attempt; 0 where there is none.
        node: Where its pod was; empty where that is not on record.
        is_exact: Whether its beginning is on record; otherwise a wait and a pod's start are part of it.
        lost_from: Since when training came to nothing, as no checkpoint holds it; None where that is not known.
        mark: What ended it.
        sentence: What ended it, in a sentence; or else what is known besides.
    """

    activity: Activity
    begin: float
    end: float
    attempt: int = 0
    node: str = ""
    is_exact: bool = True
    lost_from: float | None = None
    mark: Mark = Mark.NONE
    sentence: str = ""

    @property
    def seconds(self) -> float:
        """How long it is."""
        return self.end - self.begin


@dataclass(frozen=True, slots=True)
class TrialHistory:
    """What is known of when a trial did what.

    Attributes:
        spans: One after the other, without gaps.
        final: The state that it has ended in; None for one that goes on.
        is_open: Whether the last span goes on for as long as is looked at.
    """

    spans: Sequence[Span] = ()
    final: ShownState | None = None
    is_open: bool = False

    @property
    def begin(self) -> float | None:
        """The first moment that is on record; None where none is."""
        return self.spans[0].begin if self.spans else None

    @property
    def end(self) -> float | None:
        """The last moment that is on record."""
        return self.spans[-1].end if self.spans else None
