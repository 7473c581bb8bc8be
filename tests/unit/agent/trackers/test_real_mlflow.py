"""What agents and storage pods tell a tracking server, told to MLflow's own, with SQLite."""

from __future__ import annotations

import json
import os
import signal
import socket
import subprocess
import sys
import time
import urllib.request
from collections.abc import Iterator
from pathlib import Path
from random import Random
from typing import Any

import pytest

from podtune.agent.sidecar import drain
from podtune.agent.trackers import run_mirror
from podtune.agent.trackers.mlflow_client import LoggedMetric, MlflowClient, TrackerError
from podtune.agent.trackers.run_marks import RunMarker
from podtune.agent.trackers.tracker_settings import TrackerSettings
from podtune.protocol.storage_job import StoredTrial
from podtune.protocol.tracking import RunFacts, RunStatus
from tests.unit.agent.running_agent import StartAgent
from tests.unit.agent.stub_operator import StubOperator, dumps, wait_until

REQUIREMENTS = Path("requirements/mlflow.txt").resolve()
LONGEST = 540.0
UID = "4f1c2a90-8f0e-4c5e-9b1d-0d6d3b1f7a11"

pytestmark = [pytest.mark.long, pytest.mark.timeout(LONGEST + 120)]


class RealServer:
    """A server that can be ended and started again on its database."""

    def __init__(self, folder: Path) -> None:
        with socket.socket() as free:
            free.bind(("127.0.0.1", 0))
            self.port: int = free.getsockname()[1]
        self._folder = folder
        self._process: subprocess.Popen[bytes] | None = None

    @property
    def uri(self) -> str:
        return f"http://127.0.0.1:{self.port}"

    def start(self) -> None:
        command: list[str | Path] = [Path(sys.executable).with_name("uv"), "run", "--quiet", "--no-project"]
        command += ["--isolated", "--python", sys.executable, "--with-requirements", REQUIREMENTS]
        command += ["mlflow", "server", "--host", "127.0.0.1", "--port", str(self.port), "--workers", "1"]
        command += ["--backend-store-uri", f"sqlite:///{self._folder}/mlflow.db"]
        with (self._folder / "server.log").open("ab") as log:
            self._process = subprocess.Popen(command, cwd=self._folder, stdout=log, stderr=log, start_new_session=True)
        deadline = time.monotonic() + LONGEST
        while time.monotonic() < deadline:
            assert self._process.poll() is None, (self._folder / "server.log").read_text()
            try:
                with urllib.request.urlopen(f"{self.uri}/health", timeout=5):
                    return
            except OSError:
                time.sleep(0.2)
        raise AssertionError("MLflow did not start in time")

    def stop(self) -> None:
        if self._process is not None:
            os.killpg(self._process.pid, signal.SIGKILL)
            self._process.wait()
            self._process = None


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RealServer]:
    made = RealServer(tmp_path_factory.mktemp("mlflow"))
    made.start()
    yield made
    made.stop()


@pytest.fixture
def client(server: RealServer) -> Iterator[MlflowClient]:
    made = MlflowClient(server.uri, timeout=60.0)
    yield made
    made.close()


@pytest.fixture(autouse=True)
def patience(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(run_mirror, "TRACKER_PERIOD", 0.2)
    monkeypatch.setattr(run_mirror, "TRACKER_SECONDS", 120.0)
    monkeypatch.setattr(run_mirror, "_LONGEST_WAIT", 1.0)
    monkeypatch.setattr(drain, "MIRROR_SECONDS", 120.0)


def fetch_run(client: MlflowClient, experiment: str, uid: str = UID) -> dict[str, Any]:
    """The only run of a trial, with the history of its metric loss."""
    experiment_id = client.find_or_create_experiment(experiment)
    (found,) = client.search_runs(experiment_id, {"podtune.dev/trial-uid": uid}, most=5)
    run = client.request("GET", "runs/get", {"run_id": found.run_id})["run"]
    history = client.request("GET", "metrics/get-history", {"run_id": found.run_id, "metric_key": "loss"})
    return {
        "status": run["info"]["status"],
        "ended": bool(run["info"].get("end_time")),
        "params": {entry["key"]: entry["value"] for entry in run["data"].get("params", [])},
        "tags": {entry["key"]: entry["value"] for entry in run["data"].get("tags", [])},
        "loss": [(entry["step"], entry["value"]) for entry in history.get("metrics", [])],
    }


def test_a_retried_trial_is_one_run_though_the_server_was_down_meanwhile(
    server: RealServer,
    client: MlflowClient,
    start_agent: StartAgent,
    operator: StubOperator,
    environ: dict[str, str],
) -> None:
    told = {"PODTUNE_TRACKER": json.dumps({"uri": server.uri, "experiment": "it's digits"}), "PODTUNE_TRIAL_UID": UID}
    parameters = Path(environ["PODTUNE_DIR"]) / "parameters.json"
    parameters.write_text(json.dumps({"lr": 0.01, "sizes": [1, 2]}))
    operator.run = RunFacts(RunStatus.RUNNING)
    first = start_agent(told)
    first.write(dumps(loss=0.5, **{"val:acc%": float("nan"), "a//b": 1}))
    experiment_id = client.find_or_create_experiment("it's digits")
    wait_until(lambda: bool(client.search_runs(experiment_id, {"podtune.dev/result": "1"})))
    server.stop()
    for step in range(300):
        first.write(dumps(loss=step))
    first.wait_for_acks(301)
    client.close()
    server.start()
    operator.run = RunFacts(RunStatus.FAILED)
    first.end()
    assert fetch_run(client, "it's digits")["status"] == "FAILED"
    operator.run = RunFacts(RunStatus.RUNNING)
    (first.directory / "results.jsonl").unlink()
    parameters.write_text(json.dumps({"lr": 0.02, "sizes": [1, 2]}))
    second = start_agent({**told, "PODTUNE_ATTEMPT": "2", "PODTUNE_POD_UID": "pod-2"})
    second.write(dumps(loss=0.25, training_iteration=302, _done=True))
    operator.run = RunFacts(RunStatus.FINISHED, is_best=True)
    second.end()
    run = fetch_run(client, "it's digits")
    assert (run["status"], run["ended"]) == ("FINISHED", True)
    assert run["params"] == {"lr": "0.01", "sizes": "[1, 2]"}
    assert run["tags"]["podtune.dev/parameters"] == '{"lr": 0.02, "sizes": [1, 2]}'
    assert run["tags"]["podtune.dev/best"] == "true"
    assert run["tags"]["podtune.dev/attempt"] == "2"
    assert sorted(run["loss"]) == [(1, 0.5), *((step + 2, step) for step in range(300)), (302, 0.25)]


def test_what_is_sent_twice_is_there_once_and_other_refusals_are_told(client: MlflowClient) -> None:
    experiment_id = client.find_or_create_experiment("twice")
    assert client.find_or_create_experiment("twice") == experiment_id
    run = client.create_run(experiment_id, "twice", 1000, {"podtune.dev/trial-uid": "twice"})
    metrics = [LoggedMetric(f"m{n}", value, 2000, n) for n, value in enumerate([0.5, float("nan"), float("inf")])]
    for _ in range(2):
        client.log_batch(run.run_id, metrics=metrics * 400, params={"a": "x" * 7000}, tags={"t": "v" * 9000})
    history = client.request("GET", "metrics/get-history", {"run_id": run.run_id, "metric_key": "m0"})
    assert len(history["metrics"]) == 1
    with pytest.raises(TrackerError, match="Changing param values is not allowed") as refused:
        client.log_batch(run.run_id, params={"a": "other"})
    assert refused.value.is_refusal
    client.delete_tag(run.run_id, "podtune.dev/nothing")
    with pytest.raises(TrackerError) as absent:
        client.update_run("0" * 32, "FINISHED")
    assert absent.value.code == "RESOURCE_DOES_NOT_EXIST"


def test_storage_pods_bring_runs_up_to_date(server: RealServer, client: MlflowClient) -> None:
    experiment_id = client.find_or_create_experiment("marks")
    for number in range(3):
        tags = {"podtune.dev/trial-uid": f"t-{number}", "podtune.dev/experiment-uid": "uid"}
        client.create_run(experiment_id, f"digits-{number}", 1000, tags)
    marker = RunMarker(TrackerSettings(server.uri, "marks"), "uid", Random(1))
    ends = (RunStatus.FINISHED, RunStatus.FAILED, RunStatus.KILLED)
    trials = [StoredTrial(f"e-{n}", uid=f"t-{n}", run=RunFacts(end, n == 1)) for n, end in enumerate(ends)]
    assert marker.mark(trials) == "3 runs in MLflow were brought up to date"
    assert marker.mark(trials) == ""
    found = [fetch_run(client, "marks", f"t-{number}") for number in range(3)]
    assert [run["status"] for run in found] == ["FINISHED", "FAILED", "KILLED"]
    assert [run["tags"].get("podtune.dev/best") for run in found] == [None, "true", None]
