"""The storage pods that `make chaos` plays: whatever becomes of them, the harness goes on."""

from __future__ import annotations

import asyncio
import signal
from typing import Any

from e2e.chaos.api import ApiFailure
from e2e.chaos.ground_truth import GroundTruth
from e2e.chaos.pods.simulated_storage import StoragePod
from podtune.protocol import agent_environment as agent_env
from podtune.protocol.storage_job import StoragePurpose, StorageTask

POD = "/api/v1/namespaces/chaos/pods/c1-storage-1"
URI = "s3://chaos/chaos/uid/c1-0/pod-1/2"


class GoneApi:
    """An API server that holds nothing any more."""

    def __init__(self) -> None:
        self.requests: list[tuple[str, str]] = []

    async def request(self, method: str, path: str, *_: Any, **__: Any) -> dict[str, Any]:
        self.requests.append((method, path))
        raise ApiFailure(404, "not found")


def storage_pod(api: GoneApi, chunks: int, agents: Any = None) -> StoragePod:
    task = StorageTask(StoragePurpose.PRUNE, "chaos", "c1", "uid", chunks=chunks, export_to="")
    variables = [{"name": agent_env.STORAGE_JOB, "value": task.to_json()}]
    body = {
        "metadata": {"name": "c1-storage-1", "namespace": "chaos", "uid": "storage-uid"},
        "spec": {"containers": [{"env": variables}]},
    }
    return StoragePod(api, body, GroundTruth(bucket={URI: 2}), agents)  # type: ignore[arg-type]


async def test_one_that_was_removed_by_force_has_nothing_to_say() -> None:
    api = GoneApi()
    await storage_pod(api, chunks=0).run()
    assert api.requests == [("PATCH", f"{POD}/status")]


async def test_one_that_is_deleted_while_it_waits_is_removed() -> None:
    api = GoneApi()
    pod = storage_pod(api, chunks=1)  # whose ConfigMap never comes
    pod.delete()
    await pod.run()
    assert api.requests[-1] == ("DELETE", POD)


class Program:
    """A program that runs until it is killed."""

    def __init__(self) -> None:
        self.returncode: int | None = None
        self._ended = asyncio.Event()

    def send_signal(self, number: int) -> None:
        self.returncode = -number
        self._ended.set()

    async def wait(self) -> int:
        await self._ended.wait()
        assert self.returncode is not None
        return self.returncode


class Programs:
    """Starts one."""

    def __init__(self) -> None:
        self.program, self.started = Program(), asyncio.Event()

    async def fork(self, *_: Any) -> Program:
        self.started.set()
        return self.program


class TakingApi(GoneApi):
    """An API server that takes what a pod's status says."""

    def __init__(self) -> None:
        super().__init__()
        self.statuses: list[dict[str, Any]] = []

    async def request(self, method: str, path: str, body: Any = None, **_: Any) -> dict[str, Any]:
        self.statuses.append(body["status"])
        return {}


async def test_one_whose_program_is_killed_has_failed() -> None:
    api, programs = TakingApi(), Programs()
    pod = storage_pod(api, chunks=0, agents=programs)
    living = asyncio.ensure_future(pod.run())
    await programs.started.wait()
    pod.kill()
    await living
    assert [status["phase"] for status in api.statuses] == ["Failed"]
    assert api.statuses[0]["containerStatuses"][0]["state"]["terminated"]["exitCode"] == -signal.SIGKILL
