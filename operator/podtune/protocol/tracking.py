"""What operator and agent agree on about trackers: names of runs, of tags, and of the keys of Secrets.

A trial has one run in each tracker, whatever attempts, pauses and clones it goes through: its identity follows from the
Trial's UID, which no other Trial ever has.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum
from typing import Any

from podtune.protocol.fields import ProtocolError, read_object

MLFLOW_TOKEN = "MLFLOW_TRACKING_TOKEN"
MLFLOW_USERNAME = "MLFLOW_TRACKING_USERNAME"
MLFLOW_PASSWORD = "MLFLOW_TRACKING_PASSWORD"
OF_MLFLOW = (MLFLOW_TOKEN, MLFLOW_USERNAME, MLFLOW_PASSWORD)
"""The keys of a Secret with the credentials of a tracking server, named as MLflow's own variables."""

TAG_TRIAL_UID = "podtune.dev/trial-uid"
"""The tag by which a trial's run is found."""
TAG_EXPERIMENT_UID = "podtune.dev/experiment-uid"
TAG_TRIAL = "podtune.dev/trial"
TAG_EXPERIMENT = "podtune.dev/experiment"
TAG_NAMESPACE = "podtune.dev/namespace"
TAG_ATTEMPT = "podtune.dev/attempt"
"""Number of the attempt that has logged last."""
TAG_RESULT = "podtune.dev/result"
"""Number of the last result that is in the run, of the attempt of `TAG_ATTEMPT`."""
TAG_PARAMETERS = "podtune.dev/parameters"
"""The present parameters as JSON, where they are not those that the trial began with: MLflow's can't be changed."""
TAG_BEST = "podtune.dev/best"
"""`true` of the best trial's run; others do not have it."""
TAG_DASHBOARD = "podtune.dev/dashboard"
"""Address of the trial's page."""


def build_run_id(trial_uid: str) -> str:
    """The id of a trial's run where it can be chosen: 32 hexadecimal digits, as MLflow makes them itself."""
    return trial_uid.replace("-", "").lower()


class RunStatus(StrEnum):
    """What a trial's run is shown as, in MLflow's words."""

    RUNNING = "RUNNING"
    SCHEDULED = "SCHEDULED"
    """It is paused, or waits for another attempt."""
    FINISHED = "FINISHED"
    FAILED = "FAILED"
    KILLED = "KILLED"
    """Somebody has stopped it: the scheduler, a person or the experiment's end."""

    @property
    def is_over(self) -> bool:
        """Whether the run has ended, as far as is known."""
        return self in (RunStatus.FINISHED, RunStatus.FAILED, RunStatus.KILLED)


@dataclass(frozen=True, slots=True)
class RunFacts:
    """What an agent can't know by itself of its trial's run.

    Attributes:
        status: What the run is to be shown as; RUNNING as long as nothing is known of an end.
        is_best: Whether the trial is the experiment's best.
    """

    status: RunStatus
    is_best: bool = False


def parse_run_facts(item: Any) -> RunFacts | None:
    """Reads what an agent is told of its trial's run; None where it is told nothing.

    Raises:
        ProtocolError: It is something else.
    """
    if item is None:
        return None
    body = read_object(item, "run")
    try:
        return RunFacts(RunStatus(str(body.get("status"))), body.get("is_best") is True)
    except ValueError as error:
        raise ProtocolError(f"run.status: {error}; use images of one release") from error
