"""Many trials that run at once, without containers: fake nodes hold their pods, and this process is kubelet and agents.

Their results go the way of all others: to the results Service of the installed operator, by TLS, each with a token of
its own pod.
"""

from __future__ import annotations

import asyncio
import random
import socket
import ssl
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from urllib.parse import urlsplit

import aiohttp
from aiohttp.abc import AbstractResolver, ResolveResult

from e2e.chaos.api import MERGE, Api, ApiFailure
from e2e.chaos.ground_truth import AttemptTruth, GroundTruth
from e2e.chaos.pods.pod_status import ended, now, read_agent_settings, running
from e2e.chaos.pods.simulated_agent import SimulatedAgent, Uploads
from e2e.chaos.pods.training_pod import AUDIENCE
from e2e.chaos.scenarios.scenario import TEMPLATE
from e2e.devcluster import Cluster
from e2e.experiments import RESTRICTED, experiment
from e2e.kubernetes import Object
from podtune.api.names import LABEL_ATTEMPT, LABEL_EXPERIMENT, LABEL_TRIAL
from podtune.protocol import agent_environment as agent_env
from podtune.protocol.messages import Reply, Report
from podtune.simulation.curves.functions import compute_rising_value
from podtune.simulation.faults import COMPLETED

PERIOD = 4.0
"""Seconds between two results of a trial, about."""
NODES = 2
STOP_SECONDS = 30.0


def describe_crowd(name: str, trials: int, at_once: int) -> Object:
    """An Experiment whose pods only fake nodes take."""
    container = {"name": "trial", "image": "localhost/busybox:1", "command": ["true"], "securityContext": RESTRICTED}
    search = {"algorithm": "random", "maxTrials": trials, "seed": 1}
    template = {"spec": {**TEMPLATE["spec"], "containers": [container]}}
    return experiment(name, container, search=search, maxConcurrentTrials=at_once, trialTemplate=template)


class PlayedTrials:
    """The pods of one experiment; what it notes may be read from any thread.

    Attributes:
        made: When a pod was seen first, by the clock of `time.monotonic`, in order.
        taken_in: When a report was taken in, likewise.
        pods: All pods that there have been, by name.
        problems: What went wrong in a pod.
    """

    def __init__(self, cluster: Cluster, namespace: str, experiment: str) -> None:
        self._cluster = cluster
        self._path = f"/api/v1/namespaces/{namespace}/pods"
        self._experiment = experiment
        self._loop = asyncio.new_event_loop()
        self._stopped = asyncio.Event()
        self._session: aiohttp.ClientSession | None = None
        self._address = ""
        self.is_ending = False
        self.made: list[float] = []
        self.taken_in: list[float] = []
        self.pods: dict[str, PlayedPod] = {}
        self.problems: list[str] = []

    def count_reporting(self) -> int:
        """How many programs run of which a result has been taken in."""
        return len([pod for pod in list(self.pods.values()) if pod.acked_seq and not pod.is_ending])

    def hold(self, count: int) -> None:
        """Has so many of the programs that run report nothing more, after one more result at most."""
        for pod in [pod for pod in list(self.pods.values()) if not pod.is_held][:count]:
            pod.is_held = True

    def are_held_on_record(self) -> bool:
        """Whether those that are held know that all their results are on record.

        Fake nodes have no logs, in which agents leave at their end what no operator has heard.
        """
        held = [pod for pod in list(self.pods.values()) if pod.is_held and not pod.is_ending]
        return all(pod.durable_seq == len(pod.values) for pod in held)

    def end_held(self) -> None:
        """Has the programs end that are held, each with a last result."""
        for pod in [pod for pod in list(self.pods.values()) if pod.is_held and not pod.is_ending]:
            pod.is_ending = True
            self._loop.call_soon_threadsafe(pod.end.set)

    def end_all(self) -> None:
        """Has all of them end, those that are yet to begin after their first result."""
        self.is_ending = True

    def stop(self) -> None:
        """Ends all agents without a word."""
        self._loop.call_soon_threadsafe(self._stopped.set)

    def close(self) -> None:
        """Nothing is played any more."""
        self._loop.close()

    def play(self) -> None:
        """Works until it is stopped, on a thread of its own: its sockets are within the cluster's network."""
        with self._cluster.inside():
            try:
                self._loop.run_until_complete(self._play())
            except Exception as error:  # noqa: BLE001 - whatever it is, the test is told of it
                self.problems.append(repr(error))

    def open_session(self, settings: dict[str, str]) -> aiohttp.ClientSession:
        """The connections of all agents, which believe whom their pods are told to."""
        if self._session is None:
            tls = ssl.create_default_context(cadata=settings[agent_env.RESULTS_AUTHORITIES])
            connector = aiohttp.TCPConnector(limit=0, ssl=tls, resolver=_OneAddress(self._address))
            self._session = aiohttp.ClientSession(connector=connector)
        return self._session

    async def _play(self) -> None:
        api = Api(self._cluster.kubeconfig)
        await api.open()
        tasks = [asyncio.ensure_future(self._watch(api))]
        try:
            await self._stopped.wait()
        finally:
            tasks += [pod.task for pod in self.pods.values() if pod.task is not None]
            for task in tasks:
                task.cancel()
            await asyncio.gather(*tasks, return_exceptions=True)
            if self._session is not None:
                await self._session.close()
            await api.close()

    async def _watch(self, api: Api) -> None:
        async for event in api.watch(self._path):
            body = event["object"]
            metadata = body["metadata"]
            is_ours = metadata["labels"].get(LABEL_EXPERIMENT) == self._experiment
            if not is_ours or LABEL_TRIAL not in metadata["labels"]:
                continue
            pod = self.pods.get(metadata["uid"])
            if pod is None and event["type"] != "DELETED":
                self.made.append(time.monotonic())
                pod = self.pods[metadata["uid"]] = PlayedPod(self, api, body)
            if pod is None:
                continue
            if pod.task is None and body["spec"].get("nodeName"):
                self._address = self._address or await _find_address(api, pod.url)
                pod.task = asyncio.ensure_future(self._run(pod))
            if event["type"] == "DELETED" or "deletionTimestamp" in metadata:
                pod.removal.set()

    async def _run(self, pod: PlayedPod) -> None:
        try:
            await pod.run()
        except Exception as error:  # noqa: BLE001 - as above
            self.problems.append(f"{pod.name}: {error!r}")


class PlayedPod(GroundTruth):
    """A pod from its being bound to its removal, its agent, and its program, which reports until it is told to end.

    Attributes:
        values: All that the program has reported, by iteration.
        acked_seq: The last result that was taken in.
        durable_seq: The last one that is on record.
    """

    def __init__(self, crowd: PlayedTrials, api: Api, body: Object) -> None:
        super().__init__()
        self._crowd = crowd
        self._api = api
        self._body = body
        metadata = body["metadata"]
        self.name: str = metadata["name"]
        self.namespace: str = metadata["namespace"]
        self.trial: str = metadata["labels"][LABEL_TRIAL]
        self._index = int(self.trial.rpartition("-")[2])
        self._settings = read_agent_settings(body)
        self._path = f"/api/v1/namespaces/{self.namespace}/pods/{self.name}"
        self._own = AttemptTruth(self.trial, int(metadata["labels"][LABEL_ATTEMPT]), metadata["uid"])
        self.values = self._own.values
        self.url = self._settings[agent_env.RESULTS_URL]
        self.task: asyncio.Task[None] | None = None
        self.removal, self.end = asyncio.Event(), asyncio.Event()
        self.is_held = self.is_ending = False
        self.acked_seq = self.durable_seq = 0

    def answered(self, attempt: AttemptTruth, report: Report, reply: Reply) -> None:
        """A report was taken in."""
        self.acked_seq, self.durable_seq = reply.acked_seq, reply.durable_seq
        self._crowd.taken_in.append(time.monotonic())

    async def run(self) -> None:
        """Lives."""
        token = await self._mint_token()
        agent = SimulatedAgent(
            self,
            self._own,
            metric=self._settings[agent_env.OBJECTIVE_METRIC],
            url=f"{self.url}/v1/namespaces/{self.namespace}/trials/{self.trial}/results",
            token=lambda: token,
            home="",
            uploads=Uploads(),
            session=self._crowd.open_session(self._settings),
            rng=random.Random(self._index),
        )
        try:
            await self._train(agent)
            await self.removal.wait()
            await self._api.request("DELETE", self._path, {"gracePeriodSeconds": 0})
        except ApiFailure as failure:
            if failure.status != 404:
                raise
        finally:
            agent.die()

    async def _train(self, agent: SimulatedAgent) -> None:
        """Reports until it is told to end, or its pod is deleted."""
        started = now()
        await self._set_status(running(started))
        await agent.start()
        wait = PERIOD * random.Random(self._index).random()
        while not self.removal.is_set():
            is_last = await _comes(self.end, wait) or (self._crowd.is_ending and bool(self.values))
            step = len(self.values) + 1
            agent.result(step, compute_rising_value(self._index, step), checkpoint=False)
            if is_last:
                if self._crowd.is_ending:  # somebody leads; whoever ends while nobody does leaves its result behind
                    await agent.until_acknowledged()
                agent.say_done()
                words = await agent.end()
                await self._set_status(ended(started, COMPLETED, words, now()))
                return
            wait = float("inf") if self.is_held else PERIOD

    async def _mint_token(self) -> str:
        metadata = self._body["metadata"]
        reference = {"apiVersion": "v1", "kind": "Pod", "name": self.name, "uid": metadata["uid"]}
        spec = {"audiences": [AUDIENCE], "expirationSeconds": 3600, "boundObjectRef": reference}
        body = {"apiVersion": "authentication.k8s.io/v1", "kind": "TokenRequest", "spec": spec}
        account = self._body["spec"]["serviceAccountName"]
        path = f"/api/v1/namespaces/{self.namespace}/serviceaccounts/{account}/token"
        found: str = (await self._api.request("POST", path, body))["status"]["token"]
        return found

    async def _set_status(self, status: Object) -> None:
        await self._api.request("PATCH", f"{self._path}/status", {"status": status}, content_type=MERGE)


class _OneAddress(AbstractResolver):
    """Gives the results Service's address for its name: only pods ask the cluster's own name server."""

    def __init__(self, address: str) -> None:
        self._address = address

    async def resolve(
        self, host: str, port: int = 0, family: socket.AddressFamily = socket.AF_INET
    ) -> list[ResolveResult]:
        found = {"hostname": host, "host": self._address, "port": port, "family": socket.AF_INET}
        return [ResolveResult(**found, proto=0, flags=socket.AI_NUMERICHOST)]  # type: ignore[typeddict-item]

    async def close(self) -> None:
        """Nothing is open."""


@contextmanager
def playing(cluster: Cluster, namespace: str, experiment: str) -> Iterator[PlayedTrials]:
    """Fake nodes are there, and the pods of an experiment are played, while the context lasts."""
    crowd = PlayedTrials(cluster, namespace, experiment)
    try:
        cluster.add_kwok_nodes(NODES)
        thread = threading.Thread(target=crowd.play, name="crowd")
        thread.start()
        try:
            yield crowd
        finally:
            crowd.stop()
            thread.join(STOP_SECONDS)
    finally:
        cluster.remove_kwok_nodes()
        crowd.close()


async def _find_address(api: Api, url: str) -> str:
    """The address of the Service that agents post to, whose name its URL holds."""
    name, namespace = (urlsplit(url).hostname or "").split(".")[:2]
    service = await api.request("GET", f"/api/v1/namespaces/{namespace}/services/{name}")
    found: str = service["spec"]["clusterIP"]
    return found


async def _comes(event: asyncio.Event, seconds: float) -> bool:
    """Whether something happens in time."""
    try:
        async with asyncio.timeout(None if seconds == float("inf") else seconds):
            return await event.wait()
    except TimeoutError:
        return False
