"""One operator process beside an API server, a kubelet and agents that are faked in this process.

So what is measured is the operator: nothing else takes a processor of its own, and nobody waits for etcd.
"""

from __future__ import annotations

import asyncio
import contextlib
import random
import tempfile
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Iterable
from functools import partial
from pathlib import Path
from typing import Any

import aiohttp
from typing_extensions import override

from e2e.bench.fake_cluster.api_objects import Object
from e2e.bench.fake_cluster.api_server import NAMESPACE, ApiServer, token_of
from e2e.bench.fake_cluster.measured_operator import WITH_HEARTBEAT, MeasuredOperator
from e2e.bench.fake_cluster.pod_log import PodLog
from e2e.chaos.ground_truth import AttemptTruth, GroundTruth
from e2e.chaos.pods.pod_status import ended, now, read_agent_settings, running
from e2e.chaos.pods.simulated_agent import SimulatedAgent, Uploads
from e2e.chaos.pods.simulated_storage import describe_end
from podtune.agent.state.record_exchange import RecordExchange
from podtune.agent.sync_settings import SyncSettings
from podtune.api.names import API_VERSION, EXPERIMENT_KIND, LABEL_ATTEMPT, LABEL_TRIAL
from podtune.api.validation import parse_experiment
from podtune.protocol import agent_environment as agent_env
from podtune.protocol.messages import Reply, Report
from podtune.protocol.snapshot import SnapshotRecord
from podtune.protocol.storage_job import StorageReport, parse_task
from podtune.runner.records import PodPhase
from podtune.simulation.faults import COMPLETED

Program = Callable[["FakePod"], Awaitable[None]]


class Answers(GroundTruth):
    """What the operator has answered to the agent of one attempt."""

    def __init__(self) -> None:
        super().__init__()
        self._changed = asyncio.Event()
        self.acked_seq = 0
        self.decision = "CONTINUE"

    def answered(self, attempt: AttemptTruth, report: Report, reply: Reply) -> None:
        """An attempt's report was taken in."""
        self.acked_seq = reply.acked_seq
        self.decision = reply.decision
        self._changed.set()

    async def until_acknowledged(self, seq: int) -> None:
        """Waits until a result was taken in, and with it the decision."""
        while self.acked_seq < seq:
            self._changed.clear()
            await self._changed.wait()


class _StoredAtOnce(RecordExchange):
    """The records of the snapshot where storing takes no time."""

    @override
    def take(self, records: Iterable[SnapshotRecord], now: float) -> None:
        super().take(records, now)
        for record in self.list_waiting():
            self.mark_stored(record)


class FakePod:
    """A trial's pod.

    Attributes:
        index: Number of the trial.
        values: What the program has reported, first to last.
        log: What it has printed.
        keeps_log: Whether its agent is to read that.
        lines_kept: How many lines its agent has read.
    """

    def __init__(self, cluster: FakeCluster, body: Object) -> None:
        self._cluster = cluster
        metadata = body["metadata"]
        self.name: str = metadata["name"]
        self.trial: str = metadata["labels"][LABEL_TRIAL]
        self.index = int(self.trial.rpartition("-")[2])
        self.values: list[float] = []
        self.log = cluster.api.logs[self.name] = PodLog()
        self.lines_kept = 0
        self._last_line = ""
        settings = read_agent_settings(body)
        sync = SyncSettings.from_json(settings.get(agent_env.SYNC, ""))
        self.keeps_log = bool(sync.logs) and cluster.api.print_log is None
        self._token = token = token_of(body)
        self._url = f"{cluster.operator.url}/v1/namespaces/{NAMESPACE}/trials/{self.trial}"
        self.answers = Answers()
        self._started = ""
        self._deleted = asyncio.Event()
        number = int(metadata["labels"][LABEL_ATTEMPT])
        self._agent = SimulatedAgent(
            self.answers,
            AttemptTruth(self.trial, number, metadata["uid"]),
            metric="value",
            url=f"{self._url}/results",
            token=lambda: token,
            home="",
            uploads=Uploads(),
            session=cluster.session,
            rng=random.Random(self.index),
        )
        if agent_env.STORE in settings and sync.snapshot_period:
            first_wait = random.Random(self.index).uniform(0.0, sync.snapshot_period)
            self._agent.attempt.records = _StoredAtOnce(sync.snapshot_period, first_wait)

    def delete(self) -> None:
        """Somebody has asked for its deletion."""
        self._deleted.set()

    def report(self, *values: float) -> int:
        """The program reports values; returns the number of the last of them."""
        for value in values:
            self.values.append(value)
            self._agent.result(len(self.values), value, checkpoint=False)
        return len(self.values)

    async def read_log(self, size: int) -> None:
        """The agent reads so many bytes of the program's log, by way of the operator."""
        url = f"{self._cluster.operator.url}/v1/namespaces/{NAMESPACE}/trials/{self.trial}/log"
        headers = {"Authorization": f"Bearer {self._token}"}
        async with self._cluster.session.get(url, headers=headers, raise_for_status=True) as answer:
            await answer.content.readexactly(size)

    async def run(self, program: Program) -> None:
        """Lives."""
        try:
            self._started = now()
            self._set_status(running(self._started))
            await self._agent.start()
            await self._train(program)
            await self._deleted.wait()
            self._cluster.pods.remove(NAMESPACE, self.name)
        finally:
            self._agent.die()

    async def _train(self, program: Program) -> None:
        """Runs the program to its end, unless the pod is deleted before."""
        training = asyncio.ensure_future(program(self))
        deleted = asyncio.ensure_future(self._deleted.wait())
        following = asyncio.ensure_future(self._follow_log(follow=True)) if self.keeps_log else None
        await asyncio.wait([training, deleted], return_when=asyncio.FIRST_COMPLETED)
        deleted.cancel()
        if following is not None and not following.cancel():  # as agents do: what is left is read at once
            following.result()
        if training.done():
            training.result()
            self.log.end()
            if self.keeps_log:
                await self._follow_log(follow=False)
            self._agent.say_done()
            until = now()
            self._set_status(ended(self._started, COMPLETED, await self._agent.end(), until))
        training.cancel()

    async def _follow_log(self, *, follow: bool) -> None:
        """Reads the program's output through the operator, from where it was."""
        query = {"since": self._last_line} if self._last_line else {}
        query |= {} if follow else {"follow": "false"}
        headers = {"Authorization": f"Bearer {self._token}"}
        async with self._cluster.session.get(f"{self._url}/log", params=query, headers=headers) as answer:
            answer.raise_for_status()
            async for line in answer.content:
                stamp = line.partition(b" ")[0].decode()
                self.lines_kept += stamp > self._last_line
                self._last_line = max(self._last_line, stamp)

    def _set_status(self, status: Object) -> None:
        self._cluster.pods.change(NAMESPACE, self.name, {"status": status})


class FakeCluster:
    """API server, kubelet and agents.

    Attributes:
        api: The API server.
        operator: The operator's process.
        pods_made: All pods that there have been, by name.
        created: When each pod was made, by the clock of `time.monotonic`.
        ended: When each was seen to have ended.
        problems: What went wrong in a pod.
    """

    def __init__(
        self,
        api: ApiServer,
        operator: MeasuredOperator,
        session: aiohttp.ClientSession,
        program: Callable[[int], Program | None],
    ) -> None:
        self.api = api
        self.operator = operator
        self.session = session
        self._program = program
        self.pods_made: dict[str, FakePod] = {}
        self.created: dict[str, float] = {}
        self.ended: dict[str, float] = {}
        self.problems: list[str] = []
        self._tasks: set[asyncio.Task[None]] = set()
        self._over = asyncio.Event()
        self._cleaned_up = asyncio.Event()
        self.pods = api.objects.of("pods")
        self.trials = api.objects.of("trials")
        self.experiments = api.objects.of("experiments")
        self.pods.listeners.append(self._pod_seen)
        self.experiments.listeners.append(lambda *_: self._over.set())

    def create_experiment(self, name: str, trials: int, at_once: int, **spec: Any) -> None:
        """Adds an Experiment of random search.

        Args:
            name: Its name.
            trials: How many trials it has.
            at_once: How many of them may run at once.
            **spec: What else its spec says.

        Raises:
            InvalidSpec: The operator would refuse it.
        """
        full = {
            "objective": {"metric": "value", "mode": "max"},
            "parameters": [{"name": "base", "float": {"min": 0, "max": 1}}],
            "trialTemplate": {"spec": {"containers": [{"name": "trial", "image": "none", "command": ["true"]}]}},
            "search": {"algorithm": "random", "maxTrials": trials, "seed": 1},
            "maxConcurrentTrials": at_once,
            **spec,
        }
        body = {"apiVersion": API_VERSION, "kind": EXPERIMENT_KIND, "metadata": {"name": name}, "spec": full}
        parse_experiment(body)
        self.experiments.create(NAMESPACE, body)

    async def until_complete(self, seconds: float) -> None:
        """Waits until all Experiments have ended.

        Raises:
            TimeoutError: They have not in time.
        """
        async with asyncio.timeout(seconds):
            while not all(_is_over(experiment) for experiment in self.experiments):
                self._over.clear()
                await self._over.wait()

    async def until_cleaned_up(self, seconds: float) -> None:
        """Waits until no pod is left.

        Raises:
            TimeoutError: Some are there for longer.
        """
        async with asyncio.timeout(seconds):
            while len(self.pods):
                self._cleaned_up.clear()
                await self._cleaned_up.wait()

    async def close(self) -> None:
        """Ends all pods."""
        for task in list(self._tasks):
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)

    def _pod_seen(self, kind: str, body: Object) -> None:
        name = body["metadata"]["name"]
        if LABEL_TRIAL not in body["metadata"]["labels"]:
            self._run_storage_pod(kind, body)
            return
        if kind == "ADDED":
            self.created[name] = time.monotonic()
            pod = self.pods_made[name] = FakePod(self, body)
            task = asyncio.ensure_future(self._run(pod))
            self._tasks.add(task)
            task.add_done_callback(self._tasks.discard)
            return
        if "deletionTimestamp" in body["metadata"]:
            self.pods_made[name].delete()
        if kind == "DELETED":
            self._cleaned_up.set()
        if kind == "DELETED" or (body.get("status") or {}).get("phase") == PodPhase.SUCCEEDED:
            self.ended.setdefault(name, time.monotonic())

    def _run_storage_pod(self, kind: str, body: Object) -> None:
        """A storage pod has done its job at once, whatever that is, and goes when it is deleted."""
        soon, name = asyncio.get_running_loop().call_soon, body["metadata"]["name"]
        if kind == "ADDED":
            (container,) = body["spec"]["containers"]
            told = next(each["value"] for each in container["env"] if each["name"] == agent_env.STORAGE_JOB)
            report = StorageReport(parse_task(told).purpose, ok=True, message="done")
            soon(partial(self.pods.change, NAMESPACE, name, {"status": describe_end(report.to_json())}))
        elif kind != "DELETED" and "deletionTimestamp" in body["metadata"]:
            soon(self.pods.remove, NAMESPACE, name)

    async def _run(self, pod: FakePod) -> None:
        try:
            program = self._program(pod.index)
            if program is not None:
                await pod.run(program)
        except Exception as error:  # noqa: BLE001 - whatever it is, the run is told of it
            self.problems.append(f"{pod.name}: {type(error).__name__}: {error}")


@contextlib.asynccontextmanager
async def run_fake_cluster(
    program: Callable[[int], Program | None],
    operator_program: str = WITH_HEARTBEAT,
    prepare: Callable[[FakeCluster], None] = lambda _: None,
) -> AsyncIterator[FakeCluster]:
    """Everything is up while the context lasts, and the operator leads.

    Args:
        program: What runs in the pods of a trial, by its number; None where they find no node.
        operator_program: Module that runs the operator.
        prepare: Puts into the cluster what is there before the operator.
    """
    async with contextlib.AsyncExitStack() as stack:
        directory = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="podtune-bench-")))
        api = ApiServer()
        server = await stack.enter_async_context(api.running())
        operator = MeasuredOperator(server, directory, operator_program)
        session = await stack.enter_async_context(aiohttp.ClientSession(connector=aiohttp.TCPConnector(limit=0)))
        cluster = FakeCluster(api, operator, session, program)
        stack.push_async_callback(operator.kill)
        stack.push_async_callback(cluster.close)
        prepare(cluster)
        await operator.start()
        yield cluster


def _is_over(experiment: Object) -> bool:
    return bool((experiment.get("status") or {}).get("completionTime"))
