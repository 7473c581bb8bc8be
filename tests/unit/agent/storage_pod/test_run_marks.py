"""A storage pod that tells a tracking server how trials have ended, and which is the best."""

from __future__ import annotations

from collections.abc import Iterator
from random import Random

import pytest

from podtune.agent.trackers.run_marks import MARKS_PATIENCE, RunMarker
from podtune.agent.trackers.tracker_settings import TrackerSettings
from podtune.protocol.storage_job import StoredTrial
from podtune.protocol.tracking import TAG_BEST, TAG_EXPERIMENT_UID, TAG_TRIAL_UID, RunFacts, RunStatus
from tests.unit.agent.storage_pod.test_pod import Waits
from tests.unit.agent.trackers.mlflow_receiver import MlflowReceiver, ReceivedRun


@pytest.fixture
def mlflow() -> Iterator[MlflowReceiver]:
    receiver = MlflowReceiver()
    receiver.experiments["1"] = "digits"
    yield receiver
    receiver.close()


def add_run(mlflow: MlflowReceiver, number: int, status: str, experiment: str = "uid", **tags: str) -> ReceivedRun:
    run = ReceivedRun(f"{number:032x}", "1", number, status, end_time=7)
    run.tags = {TAG_EXPERIMENT_UID: experiment, TAG_TRIAL_UID: f"t-{number}", **tags}
    mlflow.runs[run.run_id] = run
    return run


def make_marker(mlflow: MlflowReceiver, waits: Waits) -> RunMarker:
    tracker = TrackerSettings(mlflow.uri, "digits")
    return RunMarker(tracker, "uid", Random(1), clock=waits.clock, sleep=waits.sleep, wall=lambda: 9.0)


def tell(number: int, status: RunStatus, *, is_best: bool = False) -> StoredTrial:
    return StoredTrial(f"digits-{number}", uid=f"t-{number}", run=RunFacts(status, is_best))


def test_runs_are_brought_to_what_is_recorded_of_their_trials(mlflow: MlflowReceiver) -> None:
    finished, failed = add_run(mlflow, 1, "FINISHED"), add_run(mlflow, 2, "SCHEDULED")
    former = add_run(mlflow, 3, "FINISHED", **{TAG_BEST: "true"})
    foreign = add_run(mlflow, 4, "RUNNING", "another", **{TAG_BEST: "true"})
    failed.end_time = None
    trials = [
        tell(1, RunStatus.KILLED, is_best=True),
        tell(2, RunStatus.FAILED),
        tell(3, RunStatus.FINISHED),
        tell(4, RunStatus.FAILED),
        StoredTrial("digits-5"),
    ]
    assert make_marker(mlflow, Waits()).mark(trials) == "3 runs in MLflow were brought up to date"
    assert (finished.status, finished.tags[TAG_BEST]) == ("KILLED", "true")
    assert (failed.status, failed.end_time) == ("FAILED", 9000)
    assert TAG_BEST not in former.tags
    assert (foreign.status, foreign.tags[TAG_BEST]) == ("RUNNING", "true")


def test_what_is_right_already_is_left_alone(mlflow: MlflowReceiver) -> None:
    add_run(mlflow, 1, "FINISHED")
    assert make_marker(mlflow, Waits()).mark([tell(1, RunStatus.FINISHED)]) == ""
    assert mlflow.requests == ["experiments/get-by-name", "runs/search"]
    assert make_marker(mlflow, Waits()).mark([StoredTrial("digits-0")]) == "", "no tracker is asked for nothing"
    assert len(mlflow.requests) == 2


def test_many_runs_are_read_page_by_page(mlflow: MlflowReceiver) -> None:
    for number in range(1, 1202):
        add_run(mlflow, number, "RUNNING")
    trials = [tell(number, RunStatus.FINISHED) for number in range(1, 1202)]
    assert make_marker(mlflow, Waits()).mark(trials) == "1201 runs in MLflow were brought up to date"


def test_a_server_that_is_away_is_asked_again_and_never_stops_the_job(mlflow: MlflowReceiver) -> None:
    run = add_run(mlflow, 1, "RUNNING")
    mlflow.faults = [503, 0, 429]
    waits = Waits()
    assert make_marker(mlflow, waits).mark([tell(1, RunStatus.FAILED)]) == "1 runs in MLflow were brought up to date"
    assert run.status == "FAILED"
    mlflow.is_down = True
    said = make_marker(mlflow, waits).mark([tell(1, RunStatus.FINISHED)])
    assert said.startswith("runs in MLflow may not be up to date: MLflow at")
    assert MARKS_PATIENCE / 2 < waits.now < 2 * MARKS_PATIENCE
