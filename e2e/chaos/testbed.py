"""A testbed: a namespace with an operator of its own, behind proxies, where experiments run side by side."""

from __future__ import annotations

import asyncio
import contextlib
import json
import os
import random
import re
import time
from collections.abc import AsyncIterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path

from e2e.chaos.api import MERGE, Api, ApiFailure, Object
from e2e.chaos.bucket import AgentProcesses, Bucket
from e2e.chaos.faults import refusals
from e2e.chaos.faults.calls import Call, Request, classify_api, classify_report, classify_s3, classify_volume
from e2e.chaos.faults.injector import Armed, Injector
from e2e.chaos.faults.proxy import Answer, Proxy, text_answer
from e2e.chaos.faults.volume_faults import VolumeFaults
from e2e.chaos.ground_truth import FormerLife, GroundTruth
from e2e.chaos.history import Historian, History
from e2e.chaos.invariants import Ending, Run, broken, ending
from e2e.chaos.leftovers import LABEL
from e2e.chaos.perturbation import TIMEOUTS, Fault, Perturbation
from e2e.chaos.pods import volumes
from e2e.chaos.pods.claims import Claim, list_checkpoints, look_into
from e2e.chaos.pods.kubelet import Kubelet
from e2e.chaos.pods.training_pod import ExperimentScript
from e2e.chaos.pods.user_requests import RequestAnswers
from e2e.chaos.pods.volumes import MountedVolume
from e2e.chaos.polling import until
from e2e.chaos.processes.forks import ForkServers
from e2e.chaos.processes.operator_process import Operators, environment, write_kubeconfig
from e2e.chaos.processes.restoration import lose, restore
from e2e.chaos.restored import broken_after_restore
from e2e.chaos.scenarios.experiments import SCENARIOS
from e2e.chaos.scenarios.scenario import Scenario

PREFIX = "chaos"
RESTORED = "r"
"""What the name of an experiment ends with that is restored."""
PATIENCE = 90.0
"""Seconds in which nothing happens to an experiment, after which it is taken for stuck: however slow the machine is, an
experiment that goes on shows it."""
TIMEOUT_PATIENCE = 170.0
API_SECONDS = 33.0
"""Longer than the operator waits for an answer."""
AGENT_SECONDS = 6.0
SETTLE = 0.6
"""Seconds after the end in which nothing more may happen."""


@dataclass(frozen=True)
class PerturbationResult:
    """What became of a perturbation.

    Attributes:
        struck: Whether it came to strike.
        seconds: From the experiment's creation to its end.
        after_strike: From the strike to the end.
        problems: Invariants that were broken.
        ending: How the experiment has ended.
    """

    perturbation: Perturbation
    seed: int
    struck: bool
    seconds: float
    after_strike: float
    problems: list[str]
    ending: Ending
    calls: Mapping[Call, int] = field(default_factory=dict)


class Testbed:
    """Everything that a group of experiments needs."""

    def __init__(self, api: Api, forks: ForkServers, namespace: str, directory: Path) -> None:
        self._api = api
        self._forks = forks
        self._namespace = namespace
        self._directory = directory
        self._scripts: dict[str, ExperimentScript] = {}
        self._count = 0
        self.injector = Injector()
        self.historian = Historian(api, namespace)
        self.kubelet = Kubelet(api, namespace, self._scripts.get, forks.agents)
        self._kubeconfig = directory / "kubeconfig"
        self._posts = Proxy(
            lambda: self.operators.leader.url,
            classify_report,
            self.injector,
            refusals.operator_status,
            processes=lambda: self.operators,
            lose_cluster=self._lose_cluster,
            hold_seconds=AGENT_SECONDS,
        )
        self._calls = Proxy(
            lambda: api.server,
            classify_api,
            self.injector,
            refusals.api_status,
            processes=lambda: self.operators,
            lose_cluster=self._lose_cluster,
            hold_seconds=API_SECONDS,
            tls=api.tls,
            override=self._override,
            follow=self._follow,
            drop_headers=frozenset({"accept-encoding", "host"}),
        )
        self.operators: Operators
        self._bucket = Bucket.from_environ(os.environ)
        self._objects = Proxy(
            lambda: self._bucket.endpoint,
            self._classify_object,
            self.injector,
            refusals.s3_error,
            processes=lambda: AgentProcesses(self.kubelet),
            lose_cluster=self._lose_cluster,
            hold_seconds=API_SECONDS,
        )

        self._volume = MountedVolume(
            "weights", volumes.home() / namespace / "volume", volumes.home() / f"{namespace}.sock"
        )
        self._claim = Claim(api, namespace, self._volume)
        self._volume_faults = VolumeFaults(
            self.injector,
            lambda: AgentProcesses(self.kubelet),
            self._volume.faults,
            classify=self._classify_file,
            lose_cluster=self._lose_cluster,
        )

    @contextlib.asynccontextmanager
    async def running(self) -> AsyncIterator[Testbed]:
        """Everything is up while the context lasts."""
        async with contextlib.AsyncExitStack() as stack:
            await self._make_namespace()
            for proxy in (self._posts, self._calls, self._objects, self._volume_faults):
                stack.push_async_callback(proxy.stop)
                await proxy.start()
            stack.push_async_callback(self.kubelet.close)
            for watching in (self.historian.run(), self.kubelet.run()):
                stack.callback(asyncio.ensure_future(watching).cancel)
            write_kubeconfig(self._kubeconfig, self._calls.url)
            settings = environment(self._kubeconfig, self._namespace, self._posts.url)
            self.operators = Operators(self._forks.operators, settings, self._directory, self._steal_lease)
            stack.push_async_callback(self.operators.stop)
            await self.operators.start()
            yield self

    @property
    def _experiments(self) -> str:
        return f"/apis/podtune.dev/v1alpha1/namespaces/{self._namespace}/experiments"

    async def perturb(self, perturbation: Perturbation, seed: int, undisturbed: Ending | None) -> PerturbationResult:
        """Runs the perturbation's experiment to its end, and looks at what became of it."""
        self._count += 1
        name = f"c{self._count:04}"
        scenario = SCENARIOS[perturbation.scenario]
        strikes = perturbation.strikes
        armed = [self.injector.arm(next(strikes), name, seed)]
        if scenario.on_volume:
            await self._claim.ensure()
        script = self._make_script(name, scenario, seed)
        history = self.historian.of(name)
        begun = time.monotonic()
        await self._api.request("POST", self._experiments, scenario.manifest(name, self._store(scenario)))
        asking = asyncio.ensure_future(script.answers.make_requests(self._api, self._namespace, name, history))
        patience = TIMEOUT_PATIENCE if perturbation.fault in TIMEOUTS else PATIENCE
        check = broken
        while await self._runs_until_it_is_lost(armed[-1], history, patience):
            check, lost, name = broken_after_restore, name, f"{name}{RESTORED}"
            armed.append(self.injector.arm(next(strikes, perturbation.nothing), name, seed))
            await self._restore(lost, name)
            script, history = self._scripts[name], self.historian.of(name)
        ended = time.monotonic()
        await asyncio.sleep(SETTLE)
        asking.cancel()
        if scenario.agent_bytes:
            await asyncio.to_thread(self._look_into_store, script, name, history.experiment["metadata"]["uid"])
        awaited = [each for each in armed if each.perturbation.fault is not Fault.NONE]
        problems = check(Run(scenario, history, script.truth, undisturbed, perturbation.fault is Fault.LATE_AGAIN))
        problems += [problem for problem in self.kubelet.problems if problem.startswith(f"{name}-")]
        result = PerturbationResult(
            perturbation,
            seed,
            struck=bool(awaited) and all(each.struck is not None for each in awaited),
            seconds=ended - begun,
            after_strike=ended - max((each.struck for each in armed if each.struck is not None), default=ended),
            problems=problems,
            ending=ending(history),
            calls=dict(armed[0].seen),
        )
        for each in armed:
            self.injector.disarm(each.subject)
        if problems:
            self._write_down(name, result, script.truth)
        await self._api.request("DELETE", f"{self._experiments}/{name}")
        return result

    async def _runs_until_it_is_lost(self, armed: Armed, history: History, patience: float) -> bool:
        """Whether the cluster has lost the experiment, and it has neither ended nor got stuck."""
        await until(lambda: armed.is_lost or _has_ended(history) or _has_stalled(history, patience))
        return armed.is_lost

    def _make_script(
        self, name: str, scenario: Scenario, seed: int, former: tuple[FormerLife, ...] = ()
    ) -> ExperimentScript:
        """What the pods of an experiment go by from now on."""
        history = self.historian.of(name)

        async def find_stored() -> int:
            uid = history.experiment["metadata"]["uid"]
            return await asyncio.to_thread(self._bucket.find_generation, PREFIX, uid)

        answers = RequestAnswers(scenario.requests, find_stored)
        volume = self._volume if scenario.on_volume else None
        script = ExperimentScript(scenario, GroundTruth(), random.Random(seed), answers, volume, former)
        self._scripts[name] = script
        return script

    async def _lose_cluster(self, armed: Armed) -> None:
        """Has the cluster lose an experiment, and the operator all that it knew."""
        await self.operators.kill(armed)
        await lose(self._api, self._namespace, armed.subject)
        armed.is_lost = True

    async def _restore(self, lost: str, name: str) -> None:
        """Makes an experiment anew from its store, under another name."""
        uid = self.historian.of(lost).experiment["metadata"]["uid"]
        script = self._scripts[lost]
        former = (*script.former, FormerLife(lost, uid))
        self._make_script(name, script.scenario, script.random.randrange(1 << 30), former)
        request = (Path(os.environ["KUBECONFIG"]), self._namespace, name)
        if script.volume is not None:
            await restore(*request, script.volume.locate(PREFIX, uid), first=script.volume.first_of_reader)
        else:
            await restore(*request, self._bucket.locate(PREFIX, uid), "--endpoint", self._bucket.endpoint)
        made = f"{self._experiments}/{name}"
        if (await self._api.request("GET", made))["spec"].get("suspend"):  # as it was
            await self._api.request("PATCH", made, {"spec": {"suspend": False}}, content_type=MERGE)

    def _classify_object(
        self, method: str, path: str, query: Mapping[str, str], headers: Mapping[str, str], body: bytes
    ) -> tuple[Call, str]:
        """As `classify_s3`; the keys of an Experiment's own records hold its UID alone."""
        call, subject = classify_s3(method, path, query, headers, body)
        return call, subject or self.historian.find_by_uid(f"{path} {query.get('prefix', '')}")

    def _classify_file(self, operation: str, path: str) -> tuple[Call, str]:
        """As `classify_volume`, with the same exception."""
        call, subject = classify_volume(operation, path)
        return call, subject or self.historian.find_by_uid(path)

    def _look_into_store(self, script: ExperimentScript, name: str, uid: str) -> None:
        """Has the ground truth know what the real agents have left behind."""
        if script.volume is not None:
            look_into(script.volume, PREFIX, uid, script.truth)
            for each in script.former:
                script.truth.bucket |= list_checkpoints(script.volume, PREFIX, each.uid)
        else:
            for found in (uid, *(each.uid for each in script.former)):
                script.truth.bucket |= self._bucket.checkpoints(PREFIX, found)
            if script.former:
                self._bucket.read_lives(PREFIX, (*script.former, FormerLife(name, uid)), script.truth)
            self._bucket.read_records(PREFIX, uid, script.truth)
            self._bucket.read_segments(PREFIX, uid, script.truth)

    def _write_down(self, name: str, result: PerturbationResult, truth: GroundTruth) -> None:
        """Keeps what there is to be looked at of a run that broke something."""
        history = self.historian.of(name)
        content = {
            "problems": result.problems,
            "experiment": history.experiment,
            "trials": history.trials,
            "agents": self.kubelet.logs(name),
            "attempts": [repr(attempt) for attempt in truth.attempts],
        }
        file = self._directory / f"{result.perturbation.id.replace('/', '_')}.json"
        file.write_text(json.dumps(content, indent=1))

    def _store(self, scenario: Scenario) -> Object | None:
        if not scenario.checkpoint_every:
            return None
        if not scenario.agent_bytes:
            return {"bucket": "chaos", "prefix": PREFIX}
        if scenario.on_volume:
            return {"volume": {"claimName": self._volume.claim}, "prefix": PREFIX}
        return {"bucket": self._bucket.name, "prefix": PREFIX, "endpoint": self._objects.url}

    def _override(self, request: Request) -> Answer | None:
        """The fake nodes have no logs; the simulated pods have."""
        if request.call is not Call.POD_LOG:
            return None
        container, stamped = request.query.get("container", ""), "timestamps" in request.query
        lines = self.kubelet.read_log(_pod_of(request), container, request.query.get("sinceTime", ""))
        return text_answer("".join(f"{line if stamped else line.partition(' ')[2]}\n" for line in lines))

    async def _follow(self, request: Request) -> AsyncIterator[bytes]:
        """The output of a program, as it comes."""
        async for lines in self.kubelet.follow_log(_pod_of(request), request.query.get("sinceTime", "")):
            yield "".join(f"{line}\n" for line in lines).encode()

    async def _make_namespace(self) -> None:
        metadata = {"name": self._namespace, "labels": {LABEL: "true"}}
        await self._api.request("POST", "/api/v1/namespaces", {"metadata": metadata})
        path = f"/api/v1/namespaces/{self._namespace}/serviceaccounts/default"
        for _ in range(600):
            try:
                await self._api.request("GET", path)
                return
            except ApiFailure as failure:
                if failure.status != 404:
                    raise
            await asyncio.sleep(0.1)

    async def _steal_lease(self) -> None:
        path = f"/apis/coordination.k8s.io/v1/namespaces/{self._namespace}/leases/chaos"
        await self._api.request("PATCH", path, {"spec": {"holderIdentity": ""}}, content_type=MERGE)


def _pod_of(request: Request) -> str:
    found = re.search(r"/pods/([^/]+)/log", request.path)
    assert found is not None  # or it would be another call
    return found[1]


def _has_ended(history: History) -> bool:
    return history.is_over and not history.alive


def _has_stalled(history: History, patience: float) -> bool:
    return time.monotonic() - history.changed_at > patience
