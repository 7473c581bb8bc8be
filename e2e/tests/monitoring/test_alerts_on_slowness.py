"""Alerts fire where the API server is slow or silent, logs are many, a plugin is slow, and the operator has a bug."""

from __future__ import annotations

import asyncio
import json
import os
from collections.abc import AsyncIterator, Sequence
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import aiohttp
import pytest

from e2e.install import ROOT
from e2e.tests.monitoring.faulty_proxy import FaultyProxy
from e2e.tests.monitoring.scene import NAMESPACE, Scene, make_agents_token, make_experiment
from podtune.kube import paths
from podtune.protocol.messages import Report, Result
from podtune.results.relay_places import RELAYS_OF_POD
from tests.component.webhooks.hand_written_pods import HandWrittenPods

pytestmark = [pytest.mark.cluster, pytest.mark.long]

TRIALS = 300
"""Whose writes are more than may wait, beside those that are under way."""
PRINTING = 463
"""Trials whose pods have as many logs passed on as each may: 1,852, which is more than the alert waits for."""
SLOW_EXPERIMENTS = 150
SLOW_SECONDS = 0.06
"""What each of their decisions takes: a round of all takes nine seconds, and in between the operator answers."""
PLUGIN = """
import time

from podtune.controllers.decision_loop import DecisionLoop
from podtune.tuning.schedulers.base import Scheduler, SchedulerAction, SchedulerDecision, StartDecision


class Faulty(Scheduler):
    pauses = False
    time_attribute = "training_iteration"

    def __init__(self, objective, settings, seed):
        self._seconds = settings.get("seconds", 0.0)
        self._results = 0
        if not self._seconds:
            DecisionLoop._continue = self._fail

    def _fail(self, *arguments):
        raise RuntimeError("a bug")

    def on_result(self, trial, metrics, *, waiting=0):
        self._results += 1
        return SchedulerDecision(SchedulerAction.CONTINUE, recorded=True)

    def choose(self, waiting):
        return StartDecision(waiting[0])

    def record(self, trial):
        time.sleep(self._seconds)
        return {"faulty": {"results": str(self._results)}}

    def restore(self, trial, record, configuration):
        pass
"""


@asynccontextmanager
async def behind_a_proxy(scene: Scene, folder: Path) -> AsyncIterator[FaultyProxy]:
    """An operator that leads, and reaches the scene's API server through a proxy."""
    config = json.loads(scene.kubeconfig.read_text())
    [cluster] = config["clusters"]
    proxy = FaultyProxy(cluster["cluster"]["server"])
    async with proxy.running() as url:
        cluster["cluster"] = {"server": url}
        proxied = folder / "proxied"
        proxied.write_text(json.dumps(config))
        async with scene.operated("leading", KUBECONFIG=str(proxied)):
            yield proxy


@asynccontextmanager
async def with_a_plugin(scene: Scene, folder: Path) -> AsyncIterator[None]:
    """An operator that leads, and has the scheduler `faulty`."""
    about = folder / "faulty-1.dist-info"
    about.mkdir()
    (about / "METADATA").write_text("Metadata-Version: 2.1\nName: faulty\nVersion: 1\n")
    (about / "entry_points.txt").write_text("[podtune.schedulers]\nfaulty = faulty:Faulty\n")
    (folder / "faulty.py").write_text(PLUGIN)
    async with scene.operated("leading", PYTHONPATH=os.pathsep.join((str(ROOT / "operator"), str(folder)))):
        yield


@dataclass
class Agent:
    """The agent of a trial that runs, as the operator sees it."""

    scene: Scene
    trial: str
    attempt: str
    token: str
    reported: int = 0

    async def report(self) -> int:
        """Reports one more result; returns the answer's status."""
        self.reported += 1
        result = Result(self.reported, 1.0, {"accuracy": 0.5}, self.reported)
        return await self.scene.report(self.trial, Report(self.attempt, results=(result,)).to_json(), self.token)

    async def report_for_ever(self) -> None:
        while True:
            assert await self.report() == 200


async def start(scene: Scene, names: Sequence[str], *, trials: int = 1, **spec: Any) -> list[Agent]:
    """Has experiments of so many trials each run."""
    pods = HandWrittenPods(scene.api, NAMESPACE, "")

    def list_pods() -> set[str]:
        return {pod["metadata"]["name"] for pod in scene.api.list_all(paths.pods(NAMESPACE))}

    def run(trial: str) -> Agent:
        pods.run(trial)
        pod = scene.api.get(paths.pod(NAMESPACE, f"{trial}-1"))
        return Agent(scene, trial, pod["metadata"]["uid"], make_agents_token(scene.api, pod))

    for name in names:
        await asyncio.to_thread(scene.api.create, paths.experiments(NAMESPACE), make_experiment(name, trials, **spec))
    started = [f"{name}-{number}" for name in names for number in range(trials)]
    await scene.wait_for(lambda: list_pods() >= {f"{trial}-1" for trial in started}, list_pods)
    return [await asyncio.to_thread(run, trial) for trial in started]


async def test_a_watch_falls_silent(scene: Scene, tmp_path: Path) -> None:
    async with behind_a_proxy(scene, tmp_path) as proxy:
        [agent] = await start(scene, ["watched"])
        runs = 'podtune_trials{experiment="watched",state="running"} == 1 and on() podtune_watch_lag_seconds == 0'
        await scene.wait_for(lambda: bool(scene.server.query(runs)), lambda: scene.server.query("podtune_trials"))
        proxy.is_silent = True
        assert await agent.report() == 200
        await scene.wait_until_firing("PodtuneWatchStale")


async def test_writes_take_seconds(scene: Scene, tmp_path: Path) -> None:
    async with behind_a_proxy(scene, tmp_path) as proxy:
        proxy.write_seconds = 5.0
        await asyncio.to_thread(scene.api.create, paths.experiments(NAMESPACE), make_experiment("large", TRIALS))
        await scene.wait_until_firing("PodtuneWritesWaiting")


async def test_programs_print_to_more_logs_than_are_passed_on(scene: Scene, tmp_path: Path) -> None:
    async with behind_a_proxy(scene, tmp_path), AsyncExitStack() as following:
        stdout = {"stdout": {"pattern": r"accuracy=(?P<accuracy>\S+)"}}
        agents = await start(scene, ["printing"], trials=PRINTING, results=stdout)
        session = await following.enter_async_context(aiohttp.ClientSession(connector=aiohttp.TCPConnector(limit=0)))
        for agent in agents:
            url = f"http://127.0.0.1:{scene.results_port}/v1/namespaces/{NAMESPACE}/trials/{agent.trial}/log"
            headers = {"Authorization": f"Bearer {agent.token}"}
            for _ in range(RELAYS_OF_POD):
                answer = await following.enter_async_context(session.get(url, headers=headers))
                assert answer.status == 200, await answer.text()
        await scene.wait_until_firing("PodtuneLogRelaysFull")


async def test_a_scheduler_of_somebody_else_is_slow(scene: Scene, tmp_path: Path) -> None:
    scheduler = {"plugin": {"name": "faulty", "settings": {"seconds": SLOW_SECONDS}}}
    async with with_a_plugin(scene, tmp_path):
        agents = await start(scene, [f"slow-{number}" for number in range(SLOW_EXPERIMENTS)], scheduler=scheduler)
        async with asyncio.TaskGroup() as reporting:
            tasks = [reporting.create_task(agent.report_for_ever()) for agent in agents]
            await scene.wait_until_firing("PodtuneDecisionsLate")
            for task in tasks:
                task.cancel()


async def test_the_operator_has_a_bug(scene: Scene, tmp_path: Path) -> None:
    """An error that a plugin raises is told at its Experiment; this one has the operator raise one itself."""
    async with with_a_plugin(scene, tmp_path):
        counted = "podtune_reconcile_errors_total == 0"
        await scene.wait_for(lambda: bool(scene.server.query(counted)), scene.server.list_targets)
        made = make_experiment("unlucky", 1, scheduler={"plugin": {"name": "faulty"}})
        await asyncio.to_thread(scene.api.create, paths.experiments(NAMESPACE), made)
        await scene.wait_until_firing("PodtuneDecisionsFailing")
