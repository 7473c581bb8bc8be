"""The client of tracking servers: what it mends before it sends, and what it says of servers that are none."""

from __future__ import annotations

from collections.abc import Callable, Iterator

import pytest

from podtune.agent.trackers.mlflow_client import LoggedMetric, MlflowClient, TrackerError, clean_name
from tests.unit.agent.trackers.mlflow_receiver import MlflowReceiver


@pytest.fixture
def mlflow() -> Iterator[MlflowReceiver]:
    receiver = MlflowReceiver()
    yield receiver
    receiver.close()


@pytest.fixture
def client(mlflow: MlflowReceiver) -> Iterator[MlflowClient]:
    made = MlflowClient(mlflow.uri)
    yield made
    made.close()


@pytest.mark.parametrize(
    ("name", "cleaned"),
    [
        ("val/loss", "val/loss"),
        ("val:acc%", "val_acc_"),
        ("a//b", "a__b"),
        ("/abs", "_abs"),
        ("../up", "___up"),
        ("end/", "end_"),
        (".", "_"),
        ("", "_"),
        ("größe", "größe"),
        ("x" * 300, "x" * 250),
    ],
)
def test_names_become_such_as_mlflow_takes(name: str, cleaned: str) -> None:
    assert clean_name(name) == cleaned


def test_thousands_of_values_go_in_requests_that_the_server_takes(client: MlflowClient, mlflow: MlflowReceiver) -> None:
    run = client.create_run(client.find_or_create_experiment("digits"), "digits-7", 5, {})
    metrics = [LoggedMetric("loss", step, step, step) for step in range(2500)]
    params = {f"p{number}": str(number) for number in range(150)}
    client.log_batch(run.run_id, metrics=metrics, params=params, tags={"podtune.dev/result": "2500"})
    assert len(mlflow.run.metrics) == 2500
    assert len(mlflow.run.params) == 150
    assert mlflow.run.tags["podtune.dev/result"] == "2500"


@pytest.mark.parametrize(
    ("route", "answer"),
    [
        ("experiments/get-by-name", {}),
        ("experiments/get-by-name", {"experiment": []}),
        ("runs/search", {"runs": [{"info": {}}]}),
        ("runs/search", {"runs": 7}),
        ("runs/create", {"run": {"info": {"run_id": "r", "end_time": "soon"}}}),
    ],
)
def test_a_server_that_is_none_of_mlflow_is_told_by_its_address(
    route: str,
    answer: dict[str, object],
    client: MlflowClient,
    mlflow: MlflowReceiver,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(mlflow, "answer", lambda *_: (200, answer))
    calls: dict[str, Callable[[], object]] = {
        "experiments/get-by-name": lambda: client.find_or_create_experiment("digits"),
        "runs/search": lambda: client.search_runs("1", {"a": "b"}),
        "runs/create": lambda: client.create_run("1", "digits-7", 5, {}),
    }
    with pytest.raises(TrackerError, match=f"{mlflow.uri} does not answer as MLflow does"):
        calls[route]()


@pytest.mark.parametrize("uri", ["http://127.0.0.1:99999", "http://127.0.0.1:1", "https://[::1", "http://" + "x" * 99])
def test_an_address_that_leads_nowhere_is_said_and_asked_again(uri: str) -> None:
    with pytest.raises(TrackerError, match="no answer from MLflow") as failed:
        MlflowClient(uri, timeout=0.5).search_runs("1", {"a": "b"})
    assert not failed.value.is_refusal


def test_a_token_that_is_none_is_not_told(mlflow: MlflowReceiver) -> None:
    client = MlflowClient(mlflow.uri, lambda: {"MLFLOW_TRACKING_TOKEN": "se\ncret"})
    with pytest.raises(TrackerError, match="is no token; correct it") as failed:
        client.search_runs("1", {"a": "b"})
    assert "cret" not in str(failed.value).replace("credentialsSecret", "")


def test_a_refusal_says_what_the_server_said(client: MlflowClient, mlflow: MlflowReceiver) -> None:
    with pytest.raises(TrackerError, match="answers 404 Not Found to runs/update: no such run") as refused:
        client.update_run("0" * 32, "FINISHED")
    assert (refused.value.is_refusal, refused.value.code) == (True, "RESOURCE_DOES_NOT_EXIST")
    mlflow.faults = [401]
    with pytest.raises(TrackerError, match=r"check trackers\.mlflow\.credentialsSecret") as forbidden:
        client.search_runs("1", {"a": "b"})
    assert not forbidden.value.is_refusal, "the Secret may be corrected"
