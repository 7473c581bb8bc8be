"""The kubelet of the fake nodes, for pods whose agents speak: kwok's own end at once, and say nothing."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable

import aiohttp

from e2e.chaos.api import Api, Object
from e2e.chaos.faults.calls import experiment_of
from e2e.chaos.faults.injector import Armed
from e2e.chaos.pods.pod_status import AGENT, now
from e2e.chaos.pods.process_agent import ProcessAgent
from e2e.chaos.pods.rank_pod import RankPod
from e2e.chaos.pods.simulated_storage import StoragePod
from e2e.chaos.pods.training_pod import ExperimentScript, SimulatedPod
from e2e.chaos.processes.forks import ForkServer
from podtune.api.names import LABEL_RANK, LABEL_STORAGE

LOOK_SECONDS = 0.05
"""Between two looks at what a program has printed."""


class Kubelet:
    """Plays all pods of a namespace that ask for it."""

    def __init__(
        self, api: Api, namespace: str, script_of: Callable[[str], ExperimentScript | None], agents: ForkServer
    ) -> None:
        self._api = api
        self._agents = agents
        self._namespace = namespace
        self._script_of = script_of
        self._pods: dict[str, SimulatedPod | RankPod | StoragePod] = {}
        self._tasks: list[asyncio.Task[None]] = []
        self._session = aiohttp.ClientSession(connector=aiohttp.TCPConnector(limit=0))
        self.problems: list[str] = []

    async def run(self) -> None:
        """Works until it is cancelled."""
        async for event in self._api.watch(f"/api/v1/namespaces/{self._namespace}/pods"):
            self._see(event)

    async def close(self) -> None:
        """Ends all pods."""
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)
        await self._session.close()

    async def kill(self, armed: Armed) -> None:
        """SIGKILLs the agents and storage pods of an experiment; agents beside a program are started again."""
        for pod in [pod for pod in self._pods.values() if pod.name.startswith(f"{armed.subject}-")]:
            if isinstance(pod, StoragePod):
                pod.kill()
            elif isinstance(pod, SimulatedPod) and isinstance(pod.agent, ProcessAgent):
                await pod.agent.kill()

    def read_log(self, name: str, container: str, since: str = "") -> list[str]:
        """What a container has printed from a time on, each line with its time before it."""
        pod = self._find_training_pod(name)
        if pod is None or pod.agent is None:
            return []
        if container == AGENT:
            return [f"{now()} {line}" for line in pod.agent.log]
        return [line for line in pod.truth.printed if line >= since]

    async def follow_log(self, name: str, since: str) -> AsyncIterator[list[str]]:
        """What the program of a pod prints, as it comes."""
        pod = self._find_training_pod(name)
        passed = 0
        while pod is not None:
            is_over, printed = bool(pod.truth.ended), pod.truth.printed
            if new := [line for line in printed[passed:] if line >= since]:
                yield new
            passed = len(printed)
            if is_over:
                return
            await asyncio.sleep(LOOK_SECONDS)

    def logs(self, experiment: str) -> dict[str, list[str]]:
        """What the agents of an experiment have printed, by pod."""
        pods = [pod for pod in self._training_pods if experiment_of(pod.name) == experiment]
        return {pod.name: pod.agent.log for pod in pods if pod.agent is not None}

    def _see(self, event: Object) -> None:
        body = event["object"]
        uid = body["metadata"]["uid"]
        pod = self._pods.get(uid)
        if pod is None and event["type"] != "DELETED" and body["spec"].get("nodeName"):
            script = self._script_of(experiment_of(body["metadata"]["name"]))
            if script is None:
                return
            pod = self._pods[uid] = self._make(body, script)
            self._tasks.append(asyncio.ensure_future(self._run(pod.name, pod.run())))
        if pod is not None and (event["type"] == "DELETED" or "deletionTimestamp" in body["metadata"]):
            is_gone = event["type"] == "DELETED"
            pod.delete(0.0 if is_gone else float(body["metadata"].get("deletionGracePeriodSeconds") or 0))

    def _make(self, body: Object, script: ExperimentScript) -> SimulatedPod | RankPod | StoragePod:
        if LABEL_STORAGE in body["metadata"]["labels"]:
            agents = self._agents if script.scenario.agent_bytes else None
            return StoragePod(self._api, body, script.truth, agents, script.volume)
        if int(body["metadata"]["labels"].get(LABEL_RANK, 0)) > 0:
            return RankPod(self._api, body, script)
        return SimulatedPod(self._api, body, script, self._session, self._agents)

    def _find_training_pod(self, name: str) -> SimulatedPod | None:
        """The newest of this name: one that was lost before a status named it is made once more."""
        return next((pod for pod in reversed(self._training_pods) if pod.name == name), None)

    @property
    def _training_pods(self) -> list[SimulatedPod]:
        return [pod for pod in self._pods.values() if isinstance(pod, SimulatedPod)]

    async def _run(self, name: str, work: Awaitable[None]) -> None:
        try:
            await work
        except Exception as error:  # noqa: BLE001 - whatever it is, the run is told of it
            self.problems.append(f"{name}: {type(error).__name__}: {error}")
