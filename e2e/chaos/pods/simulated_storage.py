"""Storage pods: one that tidies the bucket of simulated agents, and one that is the real program."""

from __future__ import annotations

import asyncio
import base64
import os
import signal
import tempfile
from datetime import UTC, datetime
from http import HTTPStatus
from pathlib import Path

from e2e.chaos.api import MERGE, Api, ApiFailure, Object
from e2e.chaos.ground_truth import GroundTruth
from e2e.chaos.pods import volumes
from e2e.chaos.pods.volumes import MountedVolume
from e2e.chaos.processes.forks import Fork, ForkServer
from podtune.protocol import agent_environment as agent_env
from podtune.protocol.storage_job import CHUNK_KEY, StoragePurpose, StorageReport, parse_task, read_chunk

CONTAINER = "podtune-storage"
MOUNT = """
from pathlib import Path
from podtune.agent.storage_pod.pod import StoragePodSettings
StoragePodSettings.from_environ.__func__.__defaults__ = (Path({directory!r}),)
"""
"""Has the program find the pod's ConfigMaps where they are: it is imported by then, with the place that pods have."""


class StoragePod:
    """A storage pod from its being bound to its end."""

    def __init__(
        self,
        api: Api,
        body: Object,
        truth: GroundTruth,
        agents: ForkServer | None,
        volume: MountedVolume | None = None,
    ) -> None:
        """Makes it.

        Args:
            api: The API server.
            body: The pod.
            truth: What is in the bucket of simulated agents.
            agents: Starts the agent's program, which does the job in the real store; None where it is simulated.
            volume: The store's, where it is on one.
        """
        self._api = api
        self._body = body
        self._truth = truth
        self._agents = agents
        self._process: Fork | None = None
        self._work = self._tidy if agents is None else self._run_program
        self._deleted = asyncio.Event()
        self.name: str = body["metadata"]["name"]
        self._path = f"/api/v1/namespaces/{body['metadata']['namespace']}/pods/{self.name}"
        self._environment = _environment(body)
        self._volume = volume
        if volume is not None:
            self._environment[agent_env.STORE] = volume.place(self._environment[agent_env.STORE])
        self._task = parse_task(self._environment[agent_env.STORAGE_JOB])

    def delete(self, grace: float = 0.0) -> None:
        """Somebody has asked for its deletion, or it is gone; it ends at once, however long it is given."""
        self._deleted.set()

    def kill(self) -> None:
        """SIGKILLs its program, which is started by nobody again: the pod has failed."""
        if self._process is not None:
            self._process.send_signal(signal.SIGKILL)

    async def run(self) -> None:
        """Lives."""
        try:
            await self._live()
        except ApiFailure as failure:
            if failure.status != HTTPStatus.NOT_FOUND:  # it was removed by force
                raise

    async def _live(self) -> None:
        work = asyncio.ensure_future(self._work())
        deleted = asyncio.ensure_future(self._deleted.wait())
        try:
            await asyncio.wait([work, deleted], return_when=asyncio.FIRST_COMPLETED)
            if work.done():
                words, code = work.result()
                await self._end(words, code)
            else:
                uid = self._body["metadata"]["uid"]
                now = {"gracePeriodSeconds": 0, "preconditions": {"uid": uid}}
                await self._api.request("DELETE", self._path, now)
        finally:
            work.cancel()
            deleted.cancel()

    async def _tidy(self) -> tuple[str, int]:
        """Does the job, for simulated agents; returns its termination message and exit code."""
        assert self._task.purpose is not StoragePurpose.SNAPSHOT  # only scenarios with real agents have snapshots
        kept: dict[str, tuple[str, ...]] = {}
        for chunk in await self._chunks():
            kept |= {trial.trial: trial.kept for trial in read_chunk(chunk)}
        mine = [uri for uri in self._truth.bucket if f"/{self._task.experiment_uid}/" in uri]
        empties = self._task.purpose is StoragePurpose.PURGE
        gone = [uri for uri in mine if empties or not any(uri in uris for uris in kept.values())]
        for uri in gone:
            del self._truth.bucket[uri]
        self._truth.deleted += gone
        return StorageReport(self._task.purpose, True, f"{len(gone)} objects deleted", len(gone)).to_json(), 0

    async def _run_program(self) -> tuple[str, int]:
        """Runs the agent's program with the pod's environment and files; returns its message and exit code."""
        with tempfile.TemporaryDirectory(dir=volumes.home()) as home:
            trials, words = Path(home) / "trials", Path(home) / "termination-log"
            trials.mkdir()
            for number, chunk in enumerate(await self._chunks()):
                (trials / f"{number}.gz").write_bytes(chunk)
            environment = {**self._environment, agent_env.TERMINATION_LOG: str(words)}
            mount = MOUNT.format(directory=str(trials))
            first = f"{mount}\n{self._volume.first}" if self._volume else mount
            assert self._agents is not None  # or another would do the job
            variables = {**os.environ, **environment}
            self._process = await self._agents.fork(variables, os.devnull, ["storage"], first)
            try:
                code = await self._process.wait()
            finally:
                self.kill()
            return (words.read_text() if words.exists() else ""), code

    async def _chunks(self) -> list[bytes]:
        """The ConfigMaps that the pod mounts."""
        base = f"{self._path.rpartition('/pods/')[0]}/configmaps/{self.name}"
        found = [await _config_map(self._api, f"{base}-{number}") for number in range(self._task.chunks)]
        return [base64.b64decode(each["binaryData"][CHUNK_KEY]) for each in found]

    async def _end(self, words: str, code: int) -> None:
        status = describe_end(words, code)
        await self._api.request("PATCH", f"{self._path}/status", {"status": status}, content_type=MERGE)


def describe_end(words: str, code: int = 0) -> Object:
    """The status of a storage pod that has ended with a termination message."""
    moment = datetime.now(UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
    end = {"exitCode": code, "reason": "Completed", "startedAt": moment, "finishedAt": moment, "message": words}
    container = {"name": CONTAINER, "image": "none", "imageID": "", "ready": False, "restartCount": 0}
    return {
        "phase": "Failed" if code else "Succeeded",
        "startTime": moment,
        "containerStatuses": [{**container, "state": {"terminated": end}}],
    }


def _environment(body: Object) -> dict[str, str]:
    variables = body["spec"]["containers"][0]["env"]
    return {e["name"]: e["value"].replace("$$", "$") for e in variables if "value" in e}


async def _config_map(api: Api, path: str) -> Object:
    """A ConfigMap that the pod mounts; it may come after the pod, and the kubelet waits for it."""
    while True:
        try:
            return await api.request("GET", path)
        except ApiFailure as failure:
            if failure.status != HTTPStatus.NOT_FOUND:
                raise
        await asyncio.sleep(0.1)
