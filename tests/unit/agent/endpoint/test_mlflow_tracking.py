"""The agent as a tracking server of MLflow: the requests that its client makes, in their order and form."""

from __future__ import annotations

import io
import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from podtune.agent.endpoint.mlflow_tracking import MlflowTracking
from podtune.agent.endpoint.requests import BadRequest, Request
from podtune.agent.endpoint.results_writer import ResultsWriter
from podtune.agent.endpoint.server import Endpoint
from podtune.agent.event_log import EventLog
from podtune.agent.results.result_reader import prepare_directory
from podtune.agent.settings import Settings
from podtune.storage.directory import Directory
from tests.unit.agent.endpoint.test_server import ask

SOURCES = {"PODTUNE_SOURCES": "mlflow"}


class Client:
    """Asks as MLflow's client does: GET with a query, all else with a body of JSON."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self.restart()

    def restart(self) -> None:
        """Has another process of the agent answer from now on."""
        directory = Directory(self._path)
        prepare_directory(directory)
        self._tracking = MlflowTracking(directory, "accuracy", ResultsWriter(directory))

    def get(self, route: str, **query: str) -> dict[str, Any]:
        return self._ask(Request("GET", f"/api/2.0/mlflow/{route}", query, b""))

    def post(self, route: str, method: str = "POST", /, **content: Any) -> dict[str, Any]:
        return self._ask(Request(method, f"/api/2.0/mlflow/{route}", {}, json.dumps(content).encode()))

    def _ask(self, request: Request) -> dict[str, Any]:
        answer = self._tracking.answer(request)
        return {**answer.content, **({"http": answer.status} if answer.status != 200 else {})}

    def begin_run(self, **content: Any) -> str:
        run = self.post("runs/create", **{"experiment_id": "0", "start_time": 7, "tags": [], **content})["run"]
        run_id = run["info"]["run_id"]
        assert isinstance(run_id, str)
        return run_id

    def log(self, run_id: str, key: str, value: Any, step: int = 0) -> None:
        self.post("runs/log-metric", run_uuid=run_id, run_id=run_id, key=key, value=value, timestamp=9, step=step)

    def read_results(self) -> list[dict[str, Any]]:
        return [json.loads(line) for line in (self._path / "results.jsonl").read_text().splitlines()]


@pytest.fixture
def client(tmp_path: Path) -> Client:
    return Client(tmp_path)


def make_metric(key: str, value: Any, step: int = 0) -> dict[str, Any]:
    return {"key": key, "value": value, "timestamp": 9, "step": step}


def test_each_value_of_the_objective_is_a_result_with_the_latest_of_all_else(client: Client) -> None:
    run_id = client.begin_run()
    client.log(run_id, "loss", 0.9, step=1)
    client.log(run_id, "accuracy", 0.5, step=1)
    client.log(run_id, "loss", 0.8, step=2)
    client.log(run_id, "accuracy", "NaN", step=2)
    assert [str(result) for result in client.read_results()] == [
        "{'step': 1, 'accuracy': 0.5, 'loss': 0.9}",
        "{'step': 2, 'accuracy': nan, 'loss': 0.8}",
    ]


def test_what_a_batch_brings_of_one_step_is_one_result(client: Client) -> None:
    run_id = client.begin_run()
    steps = [("accuracy", 0.5, 1), ("loss", 0.9, 1), ("loss", 0.8, 2), ("accuracy", 0.6, 2), ("loss", 0.7, 3)]
    metrics = [make_metric(*step) for step in steps] + [make_metric("system/cpu_utilization_percentage", 3.0, 3)]
    client.post("runs/log-batch", run_id=run_id, metrics=metrics, params=[], tags=[])
    assert client.read_results() == [
        {"step": 1, "accuracy": 0.5, "loss": 0.9},
        {"step": 2, "accuracy": 0.6, "loss": 0.8},
    ]


def test_parts_of_a_run_report_nothing(client: Client) -> None:
    parent = client.begin_run()
    child = client.begin_run(tags=[{"key": "mlflow.parentRunId", "value": parent}])
    client.log(child, "accuracy", 0.99)
    client.post("runs/update", run_id=child, status="FINISHED", end_time=11)
    client.log(parent, "accuracy", 0.5)
    assert [result["accuracy"] for result in client.read_results()] == [0.5]


def test_without_the_objective_people_see_at_the_end_what_there_is_instead(client: Client) -> None:
    run_id = client.begin_run()
    client.log(run_id, "auc", 0.7, step=4)
    assert client.read_results() == []
    assert client.post("runs/update", run_id=run_id, status="FINISHED", end_time=11)["run_info"]["end_time"] == 11
    assert client.read_results() == [{"step": 4, "auc": 0.7}]


def test_a_program_reads_back_what_it_has_logged(client: Client) -> None:
    experiment = client.get("experiments/get-by-name", experiment_name="iris")["experiment"]
    assert client.get("experiments/get", experiment_id=experiment["experiment_id"])["experiment"]["name"] == "iris"
    run_id = client.begin_run(experiment_id=experiment["experiment_id"], run_name="first")
    client.post("runs/log-parameter", run_id=run_id, key="lr", value="0.1")
    client.post("runs/set-tag", run_id=run_id, key="team", value="flowers")
    client.log(run_id, "loss", 0.5, step=3)
    run = client.get("runs/get", run_id=run_id)["run"]
    assert run["info"]["run_name"] == "first"
    assert run["data"]["params"] == [{"key": "lr", "value": "0.1"}]
    assert {"key": "team", "value": "flowers"} in run["data"]["tags"]
    assert run["data"]["metrics"] == [make_metric("loss", 0.5, 3)]
    history = client.get("metrics/get-history", run_id=run_id, metric_key="loss", max_results="25000")
    assert history["metrics"] == [make_metric("loss", 0.5, 3)]
    assert client.get("metrics/get-history", run_id=run_id, metric_key="auc") == {"metrics": []}
    found = client.post("runs/search", experiment_ids=[experiment["experiment_id"]])["runs"]
    assert [one["info"]["run_id"] for one in found] == [run_id]


def test_a_run_goes_on_with_an_agent_that_was_started_again(client: Client) -> None:
    run_id = client.begin_run()
    client.log(run_id, "accuracy", 0.5, step=1)
    client.restart()
    client.log(run_id, "accuracy", 0.6, step=2)
    assert client.get("runs/get", run_id=run_id)["run"]["info"]["status"] == "RUNNING"
    assert [result["step"] for result in client.read_results()] == [1, 2]


def test_artifacts_and_models_are_written_into_the_shared_directory(client: Client, tmp_path: Path) -> None:
    run_id = client.begin_run()
    place = client.get("runs/get", run_id=run_id)["run"]["info"]["artifact_uri"]
    assert place == f"file://{tmp_path}/mlflow/{run_id}/artifacts"
    model = client.post("logged-models", experiment_id="0", name="model", source_run_id=run_id)["model"]["info"]
    assert model["artifact_uri"].startswith(f"file://{tmp_path}/mlflow/models/{model['model_id']}")
    client.restart()
    ready = client.post(f"logged-models/{model['model_id']}", "PATCH", status="LOGGED_MODEL_READY")["model"]["info"]
    assert (ready["status"], ready["artifact_uri"]) == ("LOGGED_MODEL_READY", model["artifact_uri"])
    assert client.post("runs/outputs", run_id=run_id, models=[]) == {}


def test_what_is_not_known_is_refused_as_by_an_earlier_release(client: Client) -> None:
    refused = client.post("registered-models/create", name="best")
    assert (refused["http"], refused["error_code"]) == (404, "ENDPOINT_NOT_FOUND")
    for content in ({"run_id": "../.."}, {"run_id": "a1", "key": "loss", "value": "much"}, {"key": "loss"}):
        with pytest.raises(BadRequest, match="send"):
            client.post("runs/log-metric", **content)


@pytest.fixture
def endpoint(environ: dict[str, str]) -> Iterator[Endpoint]:
    settings = Settings.from_environ(environ | SOURCES)
    prepare_directory(settings.directory)
    opened = Endpoint(settings, EventLog(lambda: 1.0, stream=io.StringIO()), port=0)
    opened.start()
    yield opened
    opened.close()


def test_errors_have_mlflows_own_form(endpoint: Endpoint) -> None:
    route = "/api/2.0/mlflow/runs/log-metric"
    assert ask(endpoint, "POST", route, "{}", {})[1]["error_code"] == "UNAUTHENTICATED"
    status, answer = ask(endpoint, "POST", route, "{}")
    assert (status, answer["error_code"]) == (400, "INVALID_PARAMETER_VALUE")
    assert "run_id is None" in str(answer["message"])
    assert ask(endpoint, "GET", "/api/2.0/mlflow/runs/get?run_id=ab12")[1]["run"]
    assert ask(endpoint, "GET", "/version")[0] == 404


def test_a_program_goes_on_with_the_trials_run_in_whatever_experiment_it_has_set(client: Client) -> None:
    run_id = "0a1b" * 8  # MLFLOW_RUN_ID: nobody has created it
    client.get("experiments/get", experiment_id="0")
    iris = client.get("experiments/get-by-name", experiment_name="iris")["experiment"]["experiment_id"]
    assert client.get("runs/get", run_id=run_id)["run"]["info"]["experiment_id"] == iris, "MLflow refuses any other"
    client.post("runs/update", run_id=run_id, status="RUNNING")
    client.log(run_id, "accuracy", 0.5)
    assert client.read_results() == [{"step": 0, "accuracy": 0.5}]
