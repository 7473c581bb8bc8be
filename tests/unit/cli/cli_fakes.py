"""A cluster of dictionaries, and what an operator would have written into it."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from copy import deepcopy
from typing import Any

from podtune.cli.client.api_client import Change
from podtune.kube import paths
from podtune.kube.errors import ResourceNotFound, make_refusal
from podtune.kube.manifests import Manifest
from podtune.storage.volume.remote_store import ReaderConnection

NAMESPACE = "vision"


class FakeApi:
    """Answers from dictionaries by path; watches replay a script."""

    def __init__(self) -> None:
        self.objects: dict[str, Manifest] = {}
        self.logs: dict[str, list[str] | Exception] = {}
        self.scripts: dict[str, list[Change | Exception]] = {}
        self.patched: list[tuple[str, dict[str, Any]]] = []
        self.asked: list[tuple[str, dict[str, str]]] = []
        self.deleted: list[str] = []
        self.executed: list[tuple[str, ...]] = []
        self.start_process: Callable[[], ReaderConnection] = _refuse_processes

    def get(self, path: str, params: Mapping[str, str] | None = None) -> Manifest:
        self.asked.append((path, dict(params or {})))
        if path not in self.objects:
            raise ResourceNotFound(404, "NotFound", f"{path} not found")
        return self.objects[path]

    def patch(self, path: str, change: Mapping[str, Any]) -> Manifest:
        self.patched.append((path, dict(change)))
        return self.get(path)

    def create(self, path: str, item: Mapping[str, Any], params: Mapping[str, str] | None = None) -> Manifest:
        name = item["metadata"].get("name") or f"{item['metadata']['generateName']}x7k2p"
        place = f"{path}/{name}"
        if place in self.objects:
            raise make_refusal(409, "AlreadyExists", f"{place} already exists")
        metadata = {**item["metadata"], "name": name, "uid": f"uid-{len(self.objects)}", "resourceVersion": "1"}
        self.objects[place] = {**item, "metadata": metadata}
        return self.objects[place]

    def delete(self, path: str, uid: str, grace: int | None = None) -> None:
        if self.get(path)["metadata"]["uid"] != uid:
            raise make_refusal(409, "Conflict", "it is another one")
        del self.objects[path]
        self.deleted.append(path)

    def execute(self, path: str, container: str, command: Sequence[str]) -> ReaderConnection:
        self.executed.append((path, container, *command))
        return self.start_process()

    def list_all(self, path: str, params: Mapping[str, str] | None = None) -> list[Manifest]:
        self.asked.append((path, dict(params or {})))
        place, _, plural = path.rpartition("/")
        return [
            item
            for at, item in self.objects.items()
            if at.startswith(place) and at.split("/")[-2] == plural and "/namespaces/" in at
        ]

    def watch(
        self, path: str, params: Mapping[str, str] | None = None, is_wanted: Callable[[], bool] = lambda: True
    ) -> Iterator[Change]:
        self.asked.append((path, dict(params or {})))
        for change in self.scripts[path]:
            if isinstance(change, Exception):
                raise change
            yield change

    def read_lines(
        self, path: str, params: Mapping[str, str] | None = None, timeout: float | None = None
    ) -> Iterator[str]:
        self.asked.append((path, dict(params or {})))
        answer = self.logs.get(path, ResourceNotFound(404, "NotFound", "pod not found"))
        if isinstance(answer, Exception):
            raise answer
        yield from answer

    def add_experiment(self, item: Manifest) -> None:
        metadata = item["metadata"]
        self.objects[paths.experiment(metadata["namespace"], metadata["name"])] = item

    def add_trial(self, item: Manifest) -> None:
        metadata = item["metadata"]
        self.objects[paths.trial(metadata["namespace"], metadata["name"])] = item


def _refuse_processes() -> ReaderConnection:
    raise make_refusal(404, "NotFound", "no such pod")


def experiment(name: str = "digits", namespace: str = NAMESPACE, **status: Any) -> Manifest:
    return {
        "metadata": {"name": name, "namespace": namespace, "creationTimestamp": "2026-01-01T10:00:00Z"},
        "spec": {
            "objective": {"metric": "accuracy", "mode": "max"},
            "parameters": [
                {"name": "learning_rate", "float": {"min": 0.0001, "max": 0.1, "scale": "log"}},
                {"name": "hidden_units", "int": {"min": 16, "max": 256, "step": 16, "scale": "linear"}},
                {"name": "activation", "choice": {"values": ["relu", "tanh", True, 3]}},
            ],
            "search": {"algorithm": "tpe", "maxTrials": 24, "seed": 7},
            "scheduler": {"asha": {"timeAttribute": "epoch", "maxTime": 27}},
            "stop": {"metrics": {"epoch": 27}},
        },
        "status": _as_written(status),
    }


def _as_written(status: dict[str, Any]) -> dict[str, Any]:
    """A status with what an operator always writes, and tests leave out."""
    whole = deepcopy(status)  # tests change what they get, and share what they give
    if "conditions" in status:
        always = {"reason": "Because", "lastTransitionTime": "2026-01-01T10:02:00Z"}
        whole["conditions"] = [always | condition for condition in status["conditions"]]
    if "lastAttempt" in status:
        whole["lastAttempt"] = {"class": "user", "reason": "Error"} | status["lastAttempt"]
    return whole


RUNNING: dict[str, Any] = {
    "state": "Running",
    "message": "5 of 24 trials done, 2 running",
    "startTime": "2026-01-01T10:00:10Z",
    "trials": {"total": 9, "pending": 1, "running": 2, "paused": 1, "terminated": 4, "error": 1, "stoppedEarly": 3},
    "best": {
        "trial": "digits-4",
        "value": "0.9722222222222222",
        "parameters": {"activation": "relu", "hidden_units": "128", "learning_rate": "0.004212345678"},
        "checkpoint": "s3://podtune/demo/uid/digits-4/attempt/9",
    },
    "conditions": [
        {"type": "Ready", "status": "True", "reason": "Accepted", "message": "the operator has accepted the experiment"}
    ],
}


def trial(index: int = 7, experiment: str = "digits", **status: Any) -> Manifest:
    return {
        "metadata": {
            "name": f"{experiment}-{index}",
            "namespace": NAMESPACE,
            "creationTimestamp": "2026-01-01T10:01:00Z",
            "resourceVersion": "1",
        },
        "spec": {
            "experiment": experiment,
            "index": index,
            "parameters": {"activation": "tanh", "hidden_units": "64", "learning_rate": "0.0123456789"},
        },
        "status": _as_written(status),
    }


TRAINING: dict[str, Any] = {
    "state": "RUNNING",
    "reason": "Training",
    "message": "epoch 9, accuracy 0.961; attempt 2 resumed from epoch 6 after exit code 1",
    "attempt": 2,
    "failures": 1,
    "pod": {"name": "digits-7-2", "node": "n2"},
    "lastResult": {"epoch": "9", "accuracy": "0.9611111111", "loss": "0.1"},
    "bestValue": "0.964",
}
