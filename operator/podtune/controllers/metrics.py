"""The operator's own metrics, for Prometheus: what is counted as it happens."""

from __future__ import annotations

from prometheus_client import Counter, Gauge, Histogram

from podtune import __version__
from podtune.runner.attempts.classification import FailureClass

BUILD_INFO = Gauge("podtune_build_info", "1, with the version of this process.", ["version"])
BUILD_INFO.labels(__version__).set(1)
RESULTS_TAKEN = Counter("podtune_results", "Results taken in from agents, those sent twice included.")
ACTIONS = Counter("podtune_actions", "Actions carried out, by kind and outcome.", ["action", "outcome"])
ACTION_SECONDS = Histogram("podtune_action_seconds", "Time from an action's start to its outcome.", ["action"])
DECISION_WAIT_SECONDS = Histogram(
    "podtune_decision_wait_seconds",
    "Time from when something happened to an experiment to when it was decided what to do about it.",
    buckets=(0.001, 0.005, 0.01, 0.05, 0.1, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0, 60.0),
)
RECONCILE_SECONDS = Histogram(
    "podtune_reconcile_seconds",
    "Time to decide what to do for one experiment.",
    buckets=(0.0005, 0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 1.0),
)
RECONCILE_ERRORS = Counter("podtune_reconcile_errors", "Decisions that failed by an error of the operator's own.")
ATTEMPTS = Counter("podtune_attempts", "Attempts of trials that have ended, by what that counts as.", ["class"])
CHECKPOINTS_LEFT = Counter(
    "podtune_checkpoints_left",
    "Experiments that were deleted with deletionPolicy: Delete and may have left something in their bucket.",
)
LEADING = Gauge("podtune_leading", "1 while this process leads.")
EVENT_LOOP_TASKS = Gauge(
    "podtune_event_loop_tasks", "Tasks of the process's event loop, as the metrics are read: its parts, and requests."
)

# A series that begins with 1 has not increased, as Prometheus sees it: the first failure would go unnoticed.
for _class in FailureClass:
    ATTEMPTS.labels(_class)
