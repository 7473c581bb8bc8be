"""The agent's endpoint: a Trainer's posts become results; whatever else comes breaks nothing."""

from __future__ import annotations

import http.client
import io
import json
import os
from collections.abc import Iterator
from pathlib import Path
from urllib.parse import urlsplit

import pytest

from podtune.agent.endpoint.server import MAX_BODY, Endpoint
from podtune.agent.event_log import EventLog
from podtune.agent.results.result_reader import prepare_directory
from podtune.agent.settings import AgentSettingsError, Settings
from podtune.protocol.agent_environment import TRAINER_STATUS_ROUTE
from tests.unit.agent.endpoint.trainer_callback import TrainerCallback
from tests.unit.agent.running_agent import StartAgent
from tests.unit.agent.stub_operator import StubOperator

SOURCES = {"PODTUNE_SOURCES": "huggingFace", "PODTUNE_OBJECTIVE_METRIC": "eval_loss"}
PATH = TRAINER_STATUS_ROUTE.format(namespace="ml", trial="digits-7")
TOKEN = {"Authorization": "Bearer pod-1"}
STATUS = json.dumps({"trainerStatus": {"metrics": [{"name": "eval_loss", "value": "0.5"}]}})


@pytest.fixture
def log() -> io.StringIO:
    return io.StringIO()


@pytest.fixture
def endpoint(environ: dict[str, str], log: io.StringIO) -> Iterator[Endpoint]:
    settings = Settings.from_environ(environ | SOURCES)
    prepare_directory(settings.directory)
    opened = Endpoint(settings, EventLog(lambda: 1.0, stream=log), port=0)
    opened.start()
    yield opened
    opened.close()


def ask(
    endpoint: Endpoint, method: str, path: str, body: str | None = None, headers: dict[str, str] | None = None
) -> tuple[int, dict[str, object]]:
    address = urlsplit(endpoint.address)
    connection = http.client.HTTPConnection(address.hostname or "", address.port, timeout=60)
    try:
        connection.request(method, path, body, TOKEN if headers is None else headers)
        answer = connection.getresponse()
        return answer.status, json.loads(answer.read())
    finally:
        connection.close()


def read_results(environ: dict[str, str]) -> list[dict[str, object]]:
    return [json.loads(line) for line in (Path(environ["PODTUNE_DIR"]) / "results.jsonl").read_text().splitlines()]


def make_program_environment(endpoint: Endpoint, environ: dict[str, str]) -> dict[str, str]:
    return {
        "KUBEFLOW_TRAINER_SERVER_URL": f"{endpoint.address}{PATH}",
        "KUBEFLOW_TRAINER_SERVER_TOKEN": f"{environ['PODTUNE_DIR']}/endpoint-token",
    }


def test_a_trainers_evaluations_reach_the_operator(
    environ: dict[str, str], endpoint: Endpoint, start_agent: StartAgent, operator: StubOperator
) -> None:
    agent = start_agent(SOURCES, endpoint=endpoint)
    callback = TrainerCallback(make_program_environment(endpoint, environ), max_steps=100)
    assert callback.begin() == 200
    callback.log(loss=2.5, learning_rate=5e-05, epoch=0.5)
    assert callback.step(13, 0.52) == 200
    callback.log(eval_loss=float("nan"), eval_runtime=2.0, epoch=0.5)
    assert callback.step(14, 0.56) == 200
    assert callback.step(15, 0.6) == 200
    callback.log(eval_loss=0.25, eval_runtime=2.1, epoch=1.0)
    callback.log(train_runtime=60.0, train_loss=1.5, epoch=4.0)
    assert callback.end() == 200
    final = agent.end()
    results = [operator.results[seq].metrics for seq in sorted(operator.results)]
    assert [(result["current_step"], str(result["eval_loss"])) for result in results] == [(14, "nan"), (100, "0.25")]
    assert results[0]["current_epoch"] == 0.56
    assert results[1]["train_loss"] == 1.5
    assert final.seq == 2
    with pytest.raises(OSError, match=r"refused|reset"):
        callback.end()


def test_only_who_has_the_token_may_report(endpoint: Endpoint, environ: dict[str, str], log: io.StringIO) -> None:
    for headers in ({}, {"Authorization": "Bearer other"}, {"Authorization": "Basic pod-1"}):
        status, answer = ask(endpoint, "POST", PATH, STATUS, headers)
        assert (status, answer["kind"]) == (401, "Status")
    assert read_results(environ) == []
    assert "request refused" in log.getvalue()
    assert ask(endpoint, "POST", PATH, STATUS) == (200, {})
    assert read_results(environ) == [{"eval_loss": 0.5}]


REFUSED = {
    "no JSON": ("POST", PATH, "{", 400, "not JSON"),
    "no object": ("POST", PATH, "[]", 400, "not a JSON object"),
    "no status": ("POST", PATH, "{}", 400, "trainerStatus"),
    "no value": ("POST", PATH, '{"trainerStatus": {"metrics": [{"name": "loss"}]}}', 400, "lacks name or value"),
    "no post": ("GET", PATH, None, 405, "posted"),
    "another trial": ("POST", PATH.replace("digits-7", "digits-8"), STATUS, 404, "post to"),
    "another route": ("POST", "/elsewhere", STATUS, 404, "not known"),
    "no address": ("POST", "//[", STATUS, 404, "not known"),
    "too long": ("POST", PATH, " " * (MAX_BODY + 1), 413, "send less"),
}


@pytest.mark.parametrize("case", REFUSED)
def test_what_is_no_status_is_refused_and_logged(
    endpoint: Endpoint, environ: dict[str, str], log: io.StringIO, case: str
) -> None:
    method, path, body, status, words = REFUSED[case]
    try:
        answered, answer = ask(endpoint, method, path, body)
    except ConnectionError:  # a long body may still have been on its way
        assert status == 413
    else:
        assert answered == status
        assert words in str(answer["message"])
    assert words in log.getvalue()
    assert read_results(environ) == []
    assert ask(endpoint, "POST", PATH, STATUS)[0] == 200, "it goes on"


def test_after_a_full_disk_the_next_result_is_whole(
    endpoint: Endpoint, environ: dict[str, str], monkeypatch: pytest.MonkeyPatch
) -> None:
    write, calls = os.write, []

    def fill_up(file: int, data: bytes) -> int:
        calls.append(data)
        if len(calls) == 1:
            return write(file, data[:5])
        raise OSError(28, "No space left on device")

    with monkeypatch.context() as patched:
        patched.setattr(os, "write", fill_up)
        status, answer = ask(endpoint, "POST", PATH, STATUS)
    assert (status, answer["code"]) == (503, 503)
    assert "No space left" in str(answer["message"])
    assert ask(endpoint, "POST", PATH, STATUS)[0] == 200
    lines = (Path(environ["PODTUNE_DIR"]) / "results.jsonl").read_text().splitlines()
    assert json.loads(lines[-1]) == {"eval_loss": 0.5}


def test_an_agent_of_another_release_says_what_it_does_not_know(environ: dict[str, str]) -> None:
    with pytest.raises(AgentSettingsError, match="knows only huggingFace, mlflow"):
        Settings.from_environ(environ | {"PODTUNE_SOURCES": "carrierPigeon"})
