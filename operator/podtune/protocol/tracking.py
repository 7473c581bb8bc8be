"""What operator and agent agree on about trackers: names of runs, of tags, and of the keys of Secrets.

A trial has one run in each tracker, whatever attempts, pauses and clones it goes through: its identity follows from the
Trial's UID, which no other Trial ever has.
"""

from __future__ import annotations

MLFLOW_TOKEN = "MLFLOW_TRACKING_TOKEN"
MLFLOW_USERNAME = "MLFLOW_TRACKING_USERNAME"
MLFLOW_PASSWORD = "MLFLOW_TRACKING_PASSWORD"
OF_MLFLOW = (MLFLOW_TOKEN, MLFLOW_USERNAME, MLFLOW_PASSWORD)
"""The keys of a Secret with the credentials of a tracking server, named as MLflow's own variables."""

TAG_TRIAL_UID = "podtune.dev/trial-uid"
"""The tag by which a trial's run is found."""
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
