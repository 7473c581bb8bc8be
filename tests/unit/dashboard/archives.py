"""Archives to show: experiments of any size, with all that may be in them."""

from __future__ import annotations

import time
from collections.abc import AsyncIterator, Callable, Iterator, Sequence
from contextlib import asynccontextmanager
from typing import Any

from aiohttp.test_utils import TestClient, TestServer
from aiohttp.web import Application, Request

from podtune.cli.archives.archive import Archive, make_archive
from podtune.dashboard.app import AppSettings, make_app
from podtune.dashboard.pricing import NO_PRICE, GpuPrice
from podtune.dashboard.sources import ArchiveSource, ExperimentSource

Client = TestClient[Request, Application]
Manifest = dict[str, Any]
BASE = "/experiments/team/digits"
OPTIMIZERS = ("sgd", "adamw", "lion")
PARAMETERS: Sequence[Manifest] = (
    {"name": "lr", "float": {"min": 0.0001, "max": 0.1, "scale": "log"}},
    {"name": "optimizer", "choice": {"values": list(OPTIMIZERS)}},
    {"name": "momentum", "float": {"min": 0.5, "max": 0.99}, "when": {"optimizer": ["sgd"]}},
    {"name": "units", "int": {"min": 16, "max": 256, "step": 16}},
)
STOPPED: Manifest = {
    "number": 1,
    "time": "2026-01-01T10:05:00Z",
    "attempt": 1,
    "step": 3,
    "action": "STOP",
    "message": "stopped at rung 3: accuracy 0.61 is below the cutoff 0.7",
    "inputs": {"value": "0.61", "cutoff": "0.7", "peers": "9"},
}


def experiment_body(name: str = "digits", *, status: Manifest | None = None, **spec: Any) -> Manifest:
    asked: Manifest = {
        "objective": {"metric": "accuracy", "mode": "max"},
        "parameters": list(PARAMETERS),
        "search": {"algorithm": "random", "maxTrials": 100, "seed": 7},
        "trialTemplate": {"spec": {"containers": [{"name": "main", "image": "localhost/train:1"}]}},
    }
    return {
        "metadata": {"name": name, "namespace": "team", "uid": "e-1"},
        "spec": asked | spec,
        "status": {"state": "Running", "message": "3 of 100 trials are done"} if status is None else status,
    }


def trial_body(index: int, parameters: Manifest | None = None, **status: Any) -> Manifest:
    optimizer = OPTIMIZERS[index % 3]
    values = {"lr": f"{0.0001 * (1 + index % 900)}", "optimizer": optimizer, "units": str(16 * (1 + index % 16))}
    if optimizer == "sgd":
        values["momentum"] = f"{0.5 + index % 10 / 25}"
    proposal = {"number": index, "source": "Searcher"}
    spec = {"experiment": "digits", "index": index, "parameters": parameters or values, "proposal": proposal}
    return {"metadata": {"name": f"digits-{index}"}, "spec": spec, "status": status}


def done(value: float, **status: Any) -> Manifest:
    """The status of a trial that has ended with a value."""
    return {
        "state": "TERMINATED",
        "reason": "Completed",
        "message": "ended by itself",
        "attempt": 1,
        "iteration": 9,
        "bestValue": repr(value),
        "best": {"accuracy": repr(value)},
        "startTime": "2026-01-01T10:00:00Z",
        "completionTime": "2026-01-01T11:30:00Z",
        "usage": {"trainingSeconds": 5400, "podSeconds": 5400, "gpuSeconds": 5400},
    } | status


def list_trials() -> list[Manifest]:
    """One trial of each kind; the best is digits-1."""
    return [
        trial_body(0, **done(0.61, reason="StoppedByScheduler", ledger=[STOPPED])),
        trial_body(1, **done(0.9888888888888889)),
        trial_body(2, **done(0.75)),
        trial_body(3, state="RUNNING", attempt=1, startTime="2026-01-01T11:00:00Z", bestValue="0.7"),
        trial_body(4, state="ERROR", reason="MaxFailuresExceeded", attempt=2, failures=2, bestValue="nan"),
        trial_body(5),
    ]


def make_source(trials: Sequence[Manifest] | None = None, experiment: Manifest | None = None) -> ArchiveSource:
    return ArchiveSource(pack(trials, experiment), "archive digits.yaml")


def pack(trials: Sequence[Manifest] | None = None, experiment: Manifest | None = None) -> Archive:
    return make_archive(experiment or experiment_body(), list(list_trials() if trials is None else trials), {})


def make_many(count: int) -> Iterator[Manifest]:
    return (trial_body(index, **done(0.5 + (index * 7919 % count) / count / 2)) for index in range(count))


@asynccontextmanager
async def serve(
    source: ExperimentSource, price: GpuPrice = NO_PRICE, clock: Callable[[], float] = time.time
) -> AsyncIterator[Client]:
    async with TestClient(TestServer(make_app(source, AppSettings(price=price, clock=clock)))) as client:
        yield client


async def read_page(client: Client, path: str, status: int = 200) -> str:
    answer = await client.get(path)
    assert answer.status == status, await answer.text()
    return await answer.text()
