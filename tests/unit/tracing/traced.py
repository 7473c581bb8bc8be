"""Experiments and Trials whose ends are traced, as an operator reads them from the API server."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from podtune.cluster.decoders import decode_experiment, decode_trial
from podtune.runner.records import Experiment, Trial
from tests.unit.cluster.objects import experiment_body, trial_body

EXPERIMENT_UID = "6c5f0cf2-3f8e-4a70-9f4e-3f3b6a4d8d11"
TRACE_ID = EXPERIMENT_UID.replace("-", "")


def at(seconds: int) -> str:
    """A time of the story: some seconds after noon."""
    return f"2026-01-01T12:{seconds // 60:02}:{seconds % 60:02}Z"


def make_experiment(**status: Any) -> Experiment:
    """An Experiment that was created at noon."""
    body = experiment_body(uid=EXPERIMENT_UID)
    body["metadata"]["creationTimestamp"] = at(0)
    return decode_experiment(body | {"status": status})


def end_experiment(second: int = 100, **status: Any) -> Experiment:
    """The same once it has ended."""
    return make_experiment(**{"state": "Complete", "completionTime": at(second), "message": "done"} | status)


def make_trial(created: int = 1, uid: str = "t-1", **status: Any) -> Trial:
    """A Trial of it."""
    body = trial_body(uid=uid, owner=EXPERIMENT_UID, **status)
    body["metadata"]["creationTimestamp"] = at(created)
    return decode_trial(body)


def attempt_end(number: int = 1, created: int = 2, started: int | None = 5, ended: int = 9, **fields: Any) -> Any:
    """How an attempt ended."""
    times = {"creationTime": at(created), "endTime": at(ended)} | (
        {} if started is None else {"startTime": at(started)}
    )
    times |= {"pod": f"digits-0-{number}", "node": "n-1"}
    return {"attempt": number, "uid": f"p-{number}", "class": "complete", "reason": "Completed", **times, **fields}


def end_trial(second: int = 9, **status: Any) -> Trial:
    """A Trial that has completed in its first attempt."""
    own: dict[str, Any] = {
        "state": "TERMINATED",
        "reason": "Completed",
        "completionTime": at(second),
        "attempt": 1,
        "lastAttempt": attempt_end(ended=second),
    }
    return make_trial(**own | status)


def move_here(experiment: Experiment) -> Experiment:
    """The same as somebody moves it here from elsewhere."""
    return replace(experiment, importing=True)
