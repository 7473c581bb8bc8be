"""An agent that passes its trial on to a tracking server of MLflow."""

from __future__ import annotations

import json
import time
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import pytest

from podtune.agent.endpoint.mlflow_tracking import MlflowTracking
from podtune.agent.endpoint.requests import Request
from podtune.agent.endpoint.results_writer import ResultsWriter
from podtune.agent.sidecar import drain
from podtune.agent.trackers import run_mirror
from podtune.protocol.tracking import RunFacts, RunStatus
from tests.unit.agent.running_agent import RunningAgent, StartAgent
from tests.unit.agent.stub_operator import StubOperator, dumps, wait_until
from tests.unit.agent.trackers.mlflow_receiver import MlflowReceiver, ReceivedRun

UID = "4f1c2a90-8f0e-4c5e-9b1d-0d6d3b1f7a11"


@pytest.fixture
def mlflow() -> Iterator[MlflowReceiver]:
    receiver = MlflowReceiver()
    yield receiver
    receiver.close()


@pytest.fixture(autouse=True)
def haste(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(run_mirror, "TRACKER_PERIOD", 0.05)
    monkeypatch.setattr(run_mirror, "_FIRST_WAIT", 0.02)
    monkeypatch.setattr(run_mirror, "_LONGEST_WAIT", 0.05)
    monkeypatch.setattr(run_mirror, "TRACKER_SECONDS", 60.0)
    monkeypatch.setattr(drain, "MIRROR_SECONDS", 60.0)


@pytest.fixture
def start(mlflow: MlflowReceiver, start_agent: StartAgent, operator: StubOperator) -> Any:
    def start(overrides: Mapping[str, str] | None = None, **settings: str) -> RunningAgent:
        tracker = {"uri": mlflow.uri, "experiment": "digits", **settings}
        told = {"PODTUNE_TRACKER": json.dumps(tracker), "PODTUNE_TRIAL_UID": UID}
        return start_agent({**told, **(overrides or {})})

    operator.run = RunFacts(RunStatus.RUNNING)
    return start


@pytest.fixture
def parameters(environ: dict[str, str]) -> Path:
    file = Path(environ["PODTUNE_DIR"]) / "parameters.json"
    file.write_text(json.dumps({"lr": 0.01, "activation": "relu", "sizes": [1, 2]}))
    return file


def end(agent: RunningAgent, operator: StubOperator, status: RunStatus, *, is_best: bool = False) -> None:
    """The program ends, and the operator knows how."""
    operator.run = RunFacts(status, is_best)
    agent.end()


def list_values(run: ReceivedRun, name: str) -> list[tuple[int, float | str]]:
    return [(step, value) for key, step, value in run.metrics if key == name]


def test_a_trial_is_a_run_with_its_parameters_metrics_tags_and_a_link_back(
    start: Any, mlflow: MlflowReceiver, operator: StubOperator, parameters: Path
) -> None:
    agent = start({"PODTUNE_DISPLAY_NAME": "lr 0.01"}, dashboard="https://podtune.example.com/")
    agent.write(dumps(loss=0.5, note="no number", **{"val:acc%": float("nan")}) + dumps(loss=0.25))
    mlflow.wait_for(lambda: mlflow.runs and len(list_values(mlflow.run, "loss")) == 2)
    end(agent, operator, RunStatus.FINISHED)
    run = mlflow.run
    assert list_values(run, "loss") == [(1, 0.5), (2, 0.25)]
    assert list_values(run, "val_acc_") == [(1, "NaN")]
    assert {name for name, _, _ in run.metrics} == {"loss", "val_acc_", "time_this_iter_s", "time_total_s"}
    assert run.params == {"lr": "0.01", "activation": "relu", "sizes": "[1, 2]"}
    page = "https://podtune.example.com/experiments/ml/digits/trials/digits-7"
    assert run.tags == {
        "mlflow.runName": "lr 0.01",
        "mlflow.note.content": f"[digits-7]({page}) in Podtune's dashboard",
        "podtune.dev/dashboard": page,
        "podtune.dev/trial-uid": UID,
        "podtune.dev/trial": "digits-7",
        "podtune.dev/experiment": "digits",
        "podtune.dev/experiment-uid": "experiment-1",
        "podtune.dev/namespace": "ml",
        "podtune.dev/attempt": "1",
        "podtune.dev/result": "2",
    }
    assert (run.statuses, bool(run.end_time)) == (["RUNNING", "FINISHED"], True)
    assert mlflow.experiments == {"1": "digits"}


def test_a_retried_trial_goes_on_with_its_run(start: Any, mlflow: MlflowReceiver, operator: StubOperator) -> None:
    first = start()
    first.write(dumps(loss=0.5))
    mlflow.wait_for(lambda: mlflow.runs and mlflow.run.metrics)
    end(first, operator, RunStatus.FAILED)
    operator.run = RunFacts(RunStatus.RUNNING)
    (first.directory / "results.jsonl").unlink()
    second = start({"PODTUNE_ATTEMPT": "2", "PODTUNE_POD_UID": "pod-2"})
    second.write(dumps(loss=0.25))
    mlflow.wait_for(lambda: len(list_values(mlflow.run, "loss")) == 2)
    end(second, operator, RunStatus.FINISHED)
    assert mlflow.run.statuses == ["RUNNING", "FAILED", "RUNNING", "FINISHED"]
    assert mlflow.run.tags["podtune.dev/attempt"] == "2"


def test_a_server_that_is_down_for_a_while_misses_nothing(
    start: Any, mlflow: MlflowReceiver, operator: StubOperator
) -> None:
    mlflow.is_down = True
    agent = start()
    for step in range(500):
        agent.write(dumps(loss=step))
    agent.wait_for_acks(500)  # nothing waits for the tracker
    mlflow.wait_for(lambda: len(mlflow.requests) > 3)
    mlflow.is_down = False
    mlflow.faults = [200, 0, 500, 429]
    end(agent, operator, RunStatus.FINISHED)
    assert list_values(mlflow.run, "loss") == [(step + 1, step) for step in range(500)]
    assert mlflow.run.status == "FINISHED"


def test_an_answer_that_is_lost_makes_no_second_run(start: Any, mlflow: MlflowReceiver, operator: StubOperator) -> None:
    take = mlflow.answer
    lost: list[str] = []

    def lose(route: str, content: dict[str, Any], authorization: str) -> tuple[int, dict[str, Any]]:
        answer = take(route, content, authorization)
        if route not in lost and route in ("runs/create", "runs/log-batch", "experiments/create"):
            lost.append(route)
            return 0, {}
        return answer

    mlflow.answer = lose
    agent = start()
    agent.write(dumps(loss=0.5) + dumps(loss=0.25))
    end(agent, operator, RunStatus.FINISHED)
    assert sorted(lost) == ["experiments/create", "runs/create", "runs/log-batch"]
    assert list_values(mlflow.run, "loss") == [(1, 0.5), (2, 0.25)]


def test_an_agent_that_is_started_again_tells_nothing_twice(
    start: Any, mlflow: MlflowReceiver, operator: StubOperator
) -> None:
    first = start()
    first.write(dumps(loss=0.5) + dumps(loss=0.25))
    mlflow.wait_for(lambda: mlflow.runs and mlflow.run.tags.get("podtune.dev/result") == "2")
    told = mlflow.requests.count("runs/log-batch")
    second = start()  # the first one is taken for dead
    second.write(dumps(loss=0.125))
    mlflow.wait_for(lambda: mlflow.run.tags.get("podtune.dev/result") == "3")
    assert list_values(mlflow.run, "loss") == [(1, 0.5), (2, 0.25), (3, 0.125)]
    assert mlflow.requests.count("runs/log-batch") <= told + 2
    end(second, operator, RunStatus.FINISHED)
    first.end()


def test_the_mark_of_the_best_moves_along(start: Any, mlflow: MlflowReceiver, operator: StubOperator) -> None:
    other = ReceivedRun("a" * 32, "1", 1)
    other.tags = {"podtune.dev/best": "true", "podtune.dev/experiment-uid": "experiment-1"}
    foreign = ReceivedRun("b" * 32, "1", 1)
    foreign.tags = {"podtune.dev/best": "true", "podtune.dev/experiment-uid": "another"}
    mlflow.experiments["1"] = "digits"
    mlflow.runs |= {other.run_id: other, foreign.run_id: foreign}
    agent = start()
    agent.write(dumps(loss=0.5))
    end(agent, operator, RunStatus.KILLED, is_best=True)
    (own,) = (run for run in mlflow.runs.values() if run.tags.get("podtune.dev/trial-uid") == UID)
    assert own.tags["podtune.dev/best"] == "true"
    assert "podtune.dev/best" not in other.tags
    assert foreign.tags["podtune.dev/best"] == "true", "it is another experiment's"
    again = start({"PODTUNE_ATTEMPT": "2", "PODTUNE_POD_UID": "pod-2"})
    end(again, operator, RunStatus.KILLED, is_best=False)
    assert "podtune.dev/best" not in own.tags


def test_a_trial_that_goes_on_with_other_parameters_stays_one_run(
    start: Any, mlflow: MlflowReceiver, operator: StubOperator, parameters: Path
) -> None:
    end(start(), operator, RunStatus.SCHEDULED)
    before = dict(mlflow.run.params)
    parameters.write_text(json.dumps({"lr": 0.02, "activation": "relu", "sizes": [1, 2]}))
    end(start({"PODTUNE_ATTEMPT": "2", "PODTUNE_POD_UID": "pod-2"}), operator, RunStatus.FINISHED)
    assert mlflow.run.params == before, "MLflow lets nobody change them"
    assert json.loads(mlflow.run.tags["podtune.dev/parameters"])["lr"] == 0.02


def test_credentials_come_from_the_secret(
    start: Any, mlflow: MlflowReceiver, operator: StubOperator, tmp_path: Path
) -> None:
    secret = tmp_path / "secret"
    secret.mkdir()
    (secret / "MLFLOW_TRACKING_USERNAME").write_text("tuner\n")
    (secret / "MLFLOW_TRACKING_PASSWORD").write_text("pass")
    end(start(credentials=str(secret)), operator, RunStatus.FINISHED)
    assert mlflow.authorizations == {"Basic dHVuZXI6cGFzcw=="}
    mlflow.authorizations.clear()
    (secret / "MLFLOW_TRACKING_TOKEN").write_text("renewed")
    end(start(credentials=str(secret)), operator, RunStatus.FINISHED)
    assert mlflow.authorizations == {"Bearer renewed"}


def test_a_server_that_never_answers_holds_no_end_up(
    start: Any, mlflow: MlflowReceiver, operator: StubOperator, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(run_mirror, "TRACKER_SECONDS", 0.2)
    mlflow.is_down = True
    agent = start()
    agent.write(dumps(loss=0.5))
    agent.wait_for_acks(1)
    started = time.monotonic()
    commit = agent.end()
    assert time.monotonic() - started < 30
    assert commit.acked_seq == 1
    assert "MLflow was not told all within" in agent.log.getvalue()


def test_what_is_left_out_since_the_server_was_away_too_long_is_told(
    start: Any, mlflow: MlflowReceiver, operator: StubOperator, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(run_mirror, "MAX_MIRRORED_VALUES", 12)  # three results of four values
    mlflow.is_down = True
    agent = start()
    agent.write(b"".join(dumps(loss=step) for step in range(10)))
    agent.wait_for_acks(10)
    mlflow.is_down = False
    end(agent, operator, RunStatus.FINISHED)
    assert [step for step, _ in list_values(mlflow.run, "loss")] == [8, 9, 10]
    assert mlflow.run.tags["podtune.dev/results-left-out"] == "7"


def test_without_a_word_of_the_operator_a_run_waits_unless_its_program_is_done(
    start: Any, mlflow: MlflowReceiver, operator: StubOperator, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(run_mirror, "_STATUS_SECONDS", 0.1)
    operator.run = None  # of an earlier release
    start().end()
    assert mlflow.run.status == "SCHEDULED"
    done = start({"PODTUNE_ATTEMPT": "2", "PODTUNE_POD_UID": "pod-2"})
    done.write(dumps(loss=0.5, _done=True))
    done.end()
    assert mlflow.run.status == "FINISHED"


def test_of_what_a_script_logs_to_mlflow_the_metrics_of_results_are_passed_on(
    start: Any, mlflow: MlflowReceiver, operator: StubOperator, parameters: Path
) -> None:
    agent = start()
    wait_until((agent.directory / "results.jsonl").exists)
    tracking = MlflowTracking(agent.settings.directory, "accuracy", ResultsWriter(agent.settings.directory))

    def post(route: str, **content: Any) -> Any:
        request = Request("POST", f"/api/2.0/mlflow/{route}", {}, json.dumps(content).encode())
        return tracking.answer(request).content

    def log(run_id: str, **metrics: float) -> None:
        entries = [{"key": key, "value": value, "timestamp": 9, "step": 500} for key, value in metrics.items()]
        post("runs/log-batch", run_id=run_id, metrics=entries)

    run_id = post("runs/create", experiment_id="0", start_time=7, run_name="mine")["run"]["info"]["run_id"]
    nested = post("runs/create", experiment_id="0", tags=[{"key": "mlflow.parentRunId", "value": run_id}])
    post("runs/log-parameter", run_id=run_id, key="solver", value="lbfgs")
    post("runs/set-tag", run_id=run_id, key="team", value="vision")
    log(nested["run"]["info"]["run_id"], accuracy=0.9)
    log(run_id, loss=0.5, **{"system/cpu": 0.7})
    log(run_id, accuracy=0.25)
    log(run_id, late=1.0)
    post("runs/update", run_id=run_id, status="FINISHED", end_time=8)
    end(agent, operator, RunStatus.FINISHED)
    run = mlflow.run
    assert list_values(run, "accuracy") == [(1, 0.25)], "training_iteration is the step"
    assert list_values(run, "step") == [(1, 500)], "the script's own is a metric"
    assert list_values(run, "loss") == [(1, 0.5)]
    assert not {"system/cpu", "late"} & {name for name, _, _ in run.metrics}
    assert set(run.params) == {"lr", "activation", "sizes"}, "those of the trial"
    assert run.tags["mlflow.runName"] == "digits-7"
    assert "team" not in run.tags
