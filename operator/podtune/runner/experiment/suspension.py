"""A suspended experiment: its time stands still until it resumes.

The time spent suspended is recorded in the Experiment's status. `spec.suspend` itself is the request, which the trials
follow one by one (see `TrialPlanner`).
"""

from __future__ import annotations

from podtune.api.resources.experiment import ExperimentStatus
from podtune.runner.experiment.status_text import Suspended
from podtune.runner.timestamps import format_rfc3339, parse_rfc3339


class Suspension:
    """Keeps the time that budgets count, and says how a suspension goes."""

    def __init__(self, status: ExperimentStatus) -> None:
        self._since = parse_rfc3339(status.suspended_since)
        self._seconds = status.suspended_seconds
        self._taken = 0

    def follow(self, *, asked: bool, taken: int, started: bool, now: float) -> None:
        """Takes in what the spec asks, how many trials have a pod, and whether the time has begun to run."""
        self._taken = taken
        if asked and self._since is None:
            self._since = now
        elif not asked and self._since is not None:
            self._seconds += round(max(0.0, now - self._since)) if started else 0
            self._since = None

    def leave_out(self, since: float, now: float) -> None:
        """Has a time not count in which the experiment had ended."""
        self._seconds += round(max(0.0, now - since))

    @property
    def is_asked(self) -> bool:
        """Whether the experiment is suspended, or is being."""
        return self._since is not None

    @property
    def view(self) -> Suspended | None:
        """What its status says of it."""
        return Suspended(self._taken) if self.is_asked else None

    def compute_active_time(self, now: float) -> float:
        """The present time, as if the experiment had never been suspended."""
        return (now if self._since is None else min(self._since, now)) - self._seconds

    def to_fields(self) -> dict[str, object]:
        """The fields of the status that it is rebuilt from."""
        since = None if self._since is None else format_rfc3339(self._since)
        return {"suspended_since": since, "suspended_seconds": self._seconds}
