"""A pod that trains or evaluates, from its being bound to its end, as the kubelet of a fake node plays it."""

from __future__ import annotations

import asyncio
import contextlib
import random
import time
from collections.abc import Sequence
from dataclasses import dataclass

import aiohttp

from e2e.chaos.api import MERGE, Api, ApiFailure, Object
from e2e.chaos.ground_truth import AttemptTruth, FormerLife, GroundTruth
from e2e.chaos.pods.pod_status import (
    draining,
    ended,
    format_nanoseconds,
    lacking_image,
    now,
    read_agent_settings,
    running,
)
from e2e.chaos.pods.process_agent import ProcessAgent
from e2e.chaos.pods.simulated_agent import SimulatedAgent, Uploads
from e2e.chaos.pods.user_requests import RequestAnswers
from e2e.chaos.pods.volumes import MountedVolume
from e2e.chaos.polling import until
from e2e.chaos.processes.forks import ForkServer
from e2e.chaos.scenarios.experiments import BROKEN_IMAGE
from e2e.chaos.scenarios.scenario import Scenario
from podtune.api.names import LABEL_RANK, LABEL_STAGE, STAGE_EVALUATE
from podtune.kube import paths
from podtune.protocol import agent_environment as agent_env
from podtune.protocol.checkpoint import CheckpointRef, parse_restore_list
from podtune.protocol.messages import Restored, parse_final_commit
from podtune.runner.records import ContainerEnd
from podtune.simulation.curves.functions import compute_rising_value
from podtune.simulation.faults import COMPLETED, DISRUPTIONS, KILLED, Fault, ScheduledFault, find_for_attempt
from podtune.storage.address import parse_store_address
from podtune.storage.checkpoint.address import TrialAddress

AUDIENCE = "podtune.dev/results"
HIDDEN_SECONDS = 60.0
"""How long a zombie waits for its successor, at most."""
FULL_SECONDS = 1.5
"""How long a program whose disk is full goes on before it crashes."""
RECORDED_SECONDS = 30.0
"""How long an eviction waits until the operator has the pod on record, at most."""
TOO_GOOD = 9.0
"""Score that an evaluation tells of that fails afterwards: it counts for nothing."""


def compute_score(index: int, step: int) -> float:
    """What a trial's evaluation reports of the checkpoint of an iteration."""
    return 2.0 + compute_rising_value(index, step)


@dataclass(frozen=True)
class ExperimentScript:
    """What the pods of an experiment go by.

    Attributes:
        former: Of an experiment that was restored: what it was before, the oldest first.
    """

    scenario: Scenario
    truth: GroundTruth
    random: random.Random
    answers: RequestAnswers
    volume: MountedVolume | None = None
    former: tuple[FormerLife, ...] = ()


VANISHED = ContainerEnd("", 0)
"""No end that anybody sees: the pod is removed by force, and its agent comes back while the next one runs."""


class SimulatedPod:
    """A pod from its being bound to its end."""

    def __init__(
        self, api: Api, body: Object, script: ExperimentScript, session: aiohttp.ClientSession, agents: ForkServer
    ) -> None:
        self._api = api
        self._script = script
        self._body = body
        self._session = session
        self._agents = agents
        metadata = body["metadata"]
        self.name: str = metadata["name"]
        self.namespace: str = metadata["namespace"]
        self.uid: str = metadata["uid"]
        self.trial = metadata["labels"]["podtune.dev/trial"]
        self.index = int(self.trial.rpartition("-")[2])
        self.number = int(metadata["labels"]["podtune.dev/attempt"])
        self._settings = read_agent_settings(body)
        self._random = random.Random(script.random.random())
        self._path = f"/api/v1/namespaces/{self.namespace}/pods/{self.name}"
        self._token = ""
        self._started = ""
        self._deleted = asyncio.Event()
        self._killed = asyncio.Event()
        self.rank = int(metadata["labels"].get(LABEL_RANK, 0))
        evaluates = metadata["labels"].get(LABEL_STAGE) == STAGE_EVALUATE
        self.truth = AttemptTruth(self.trial, self.number, self.uid, evaluates=evaluates)
        self.agent: SimulatedAgent | ProcessAgent | None = None

    def delete(self, grace: float) -> None:
        """Somebody has asked for its deletion, and gives it so many seconds; later ones can but shorten that."""
        self._kill_after(grace)
        self._deleted.set()

    def _kill_after(self, seconds: float) -> None:
        asyncio.get_running_loop().call_later(seconds, self._killed.set)

    async def run(self) -> None:
        """Lives."""
        try:
            await self._live()
        except ApiFailure as failure:
            if failure.status != 404:  # it was removed by force
                raise
        finally:
            if self.agent is not None:
                self.agent.die()

    async def _live(self) -> None:
        self._script.truth.attempts.append(self.truth)
        self._token = await self._mint_token()
        self.agent = await self._make_agent()
        if any(container["image"] == BROKEN_IMAGE for container in self._body["spec"]["containers"]):
            await self._status(lacking_image())
            await self._deleted.wait()
        if not self._deleted.is_set():
            self._started = now()
            await self._status(running(self._started))
            await self.agent.start()
            end = await self._train()
        else:
            end = None
        if end is VANISHED:
            self.agent.fall_silent()
            await self._remove()
            await until(self._has_successor, HIDDEN_SECONDS)
            step = self.truth.steps + 1
            await self.agent.report_after_removal(step, compute_rising_value(self.index, step))
            return
        if end is not None:
            ended_at = now()
            words = await self._drain(end, ended_at)
            if words:
                self.truth.heard.update(commit.checkpoint.uri for commit in parse_final_commit(words).checkpoints)
            self.truth.ended = self.truth.ended or f"exit code {end.exit_code}"
            await self._status(ended(self._started, end, words, ended_at))
            await self._deleted.wait()
        await self._remove()

    async def _drain(self, end: ContainerEnd, until: str) -> str:
        """The program has ended: its agent goes on for as long as the pod is given; returns its termination message."""
        assert self.agent is not None  # made
        self._kill_after(self._body["spec"]["terminationGracePeriodSeconds"])
        if self.agent.is_storing:
            await self._status(draining(self._started, end, until))
        ending = asyncio.ensure_future(self.agent.end())
        killed = asyncio.ensure_future(self._killed.wait())
        try:
            await asyncio.wait([ending, killed], return_when=asyncio.FIRST_COMPLETED)
            if ending.done():
                return ending.result()
        finally:
            ending.cancel()
            killed.cancel()
        words = self.agent.words
        self.agent.die()
        return words

    async def _train(self) -> ContainerEnd | None:
        """Runs the program; None where the pod never ran."""
        program = asyncio.ensure_future(self._evaluate() if self.truth.evaluates else self._program())
        deleted = asyncio.ensure_future(self._deleted.wait())
        done, _ = await asyncio.wait([program, deleted], return_when=asyncio.FIRST_COMPLETED)
        if program in done:
            deleted.cancel()
            return program.result()
        program.cancel()
        self.truth.ended = self.truth.ended or "deleted"
        return KILLED

    async def _program(self) -> ContainerEnd:
        assert self.agent is not None  # made
        scenario = self._script.scenario
        fault = find_for_attempt(scenario.faults, self.index, self.number)
        step = self.truth.restored
        self._print("a line of the program")
        while step < scenario.steps:
            if fault is not None and step >= fault.step:
                if fault.rank != self.rank:
                    self.truth.is_held = True
                    await self._deleted.wait()  # it would wait for the rank that falls
                return await self._overtaken(fault, step)
            await asyncio.sleep(scenario.step_seconds * self._random.uniform(0.5, 1.5))
            step += 1
            every = scenario.checkpoint_every
            has_store = bool(self._settings.get(agent_env.STORE))
            self.truth.steps = step
            due = self.agent.wants_checkpoint or (every > 0 and step % every == 0)
            self._print(f"epoch {step}")
            self.agent.result(step, compute_rising_value(self.index, step), checkpoint=has_store and due)
            if scenario.waits:
                await self.agent.until_acknowledged()
            elif scenario.look_seconds:
                await until(self._is_asked_to_stop, scenario.look_seconds)
            await self._script.answers.wait(self.index, self.number, step, self._is_asked_for_checkpoint)
            if self.agent.wants_stop:
                await asyncio.sleep(60)  # the pod is about to be deleted
        self.agent.say_done()
        return COMPLETED

    async def _evaluate(self) -> ContainerEnd:
        """Evaluates; one that fails has told of a score before that is better than all others."""
        assert self.agent is not None  # made
        earlier = [other for other in self._script.truth.of_trial(self.trial) if other.evaluates]
        fault = find_for_attempt(self._script.scenario.evaluation_faults, self.index, len(earlier))
        await asyncio.sleep(self._script.scenario.step_seconds * self._random.uniform(0.5, 1.5))
        score = TOO_GOOD if fault is not None else compute_score(self.index, self.truth.restored)
        self.agent.result(1, score, checkpoint=False)
        await self.agent.until_acknowledged()
        if fault is not None:
            if fault.kind is Fault.EVICTED:
                # A pod that goes before it is on record was never there for an operator that starts then.
                await until(self._is_recorded, RECORDED_SECONDS)
            return await self._overtaken(fault, 1)
        self.agent.say_done()
        return COMPLETED

    async def _is_recorded(self) -> bool:
        trial = await self._api.request("GET", paths.trial(self.namespace, self.trial))
        return (trial.get("status", {}).get("pod") or {}).get("uid") == self.uid

    def _print(self, text: str) -> None:
        """The program prints a line."""
        self.truth.printed.append(f"{format_nanoseconds(time.time_ns())} {text}")

    def _is_asked_for_checkpoint(self) -> bool:
        return self.agent is not None and self.agent.wants_checkpoint

    def _is_asked_to_stop(self) -> bool:
        return self.agent is not None and self.agent.wants_stop

    def _has_successor(self) -> bool:
        """Whether a later attempt of the trial has reported something."""
        return any(other.number > self.number and other.values for other in self._script.truth.of_trial(self.trial))

    async def _overtaken(self, fault: ScheduledFault, step: int) -> ContainerEnd:
        self.truth.ended = fault.kind.value
        match fault.kind:
            case Fault.CRASH | Fault.OOM:
                pass
            case Fault.EVICTED | Fault.TRAPPED:
                reason, _, message = DISRUPTIONS[fault.kind].partition(": ")
                condition = {"type": "DisruptionTarget", "status": "True", "reason": reason, "message": message}
                await self._status({"conditions": [{**condition, "lastTransitionTime": now()}]})
                await self._api.request("DELETE", self._path)
                await self._deleted.wait()
            case Fault.VANISHED:
                return VANISHED
            case Fault.DISK_FULL:
                assert isinstance(self.agent, ProcessAgent)  # the others have no disk
                self.agent.fill_disk()
                with contextlib.suppress(OSError):
                    self.agent.result(step + 1, compute_rising_value(self.index, step + 1), checkpoint=True)
                await asyncio.sleep(FULL_SECONDS)
            case _:
                raise NotImplementedError(f"no scenario has {fault.kind}")
        return fault.end

    async def _make_agent(self) -> SimulatedAgent | ProcessAgent:
        candidates = parse_restore_list(self._settings.get(agent_env.RESTORE_FROM, ""))
        self.truth.candidates = tuple(candidate.step for candidate in candidates)
        if self._script.scenario.agent_bytes:
            agent = ProcessAgent(
                self._body,
                self.truth,
                self._script.scenario,
                self._agents,
                token=self._token,
                volume=self._script.volume,
            )
            self.truth.restored = await agent.restore()
            return agent
        return self._simulate_agent(candidates)

    def _simulate_agent(self, candidates: Sequence[CheckpointRef]) -> SimulatedAgent:
        store = self._settings.get(agent_env.STORE)
        home = ""
        if store:
            trial = TrialAddress(parse_store_address(store), self._settings[agent_env.EXPERIMENT_UID], self.trial)
            home = f"{trial.store.uri}/{trial.attempt(self.uid).removesuffix('/')}"
        restored = next((c for c in candidates if c.uri in self._script.truth.bucket), None)
        self.truth.restored = restored.step if restored else 0
        url = self._settings[agent_env.RESULTS_URL]
        agent = SimulatedAgent(
            self._script.truth,
            self.truth,
            metric=self._settings[agent_env.OBJECTIVE_METRIC],
            url=f"{url}/v1/namespaces/{self.namespace}/trials/{self.trial}/results",
            token=lambda: self._token,
            home=home,
            uploads=self._uploads,
            session=self._session,
            rng=random.Random(self._random.random()),
        )
        if restored:
            agent.set_restored(Restored(restored))
        return agent

    @property
    def _uploads(self) -> Uploads:
        scenario = self._script.scenario
        stuck_from = find_for_attempt(scenario.stuck, self.index, self.number) or 0
        return Uploads(scenario.upload_seconds, stuck_from, float(self._settings[agent_env.DRAIN_SECONDS]))

    async def _mint_token(self) -> str:
        reference = {"apiVersion": "v1", "kind": "Pod", "name": self.name, "uid": self.uid}
        spec = {"audiences": [AUDIENCE], "expirationSeconds": 3600, "boundObjectRef": reference}
        body = {"apiVersion": "authentication.k8s.io/v1", "kind": "TokenRequest", "spec": spec}
        path = f"/api/v1/namespaces/{self.namespace}/serviceaccounts/default/token"
        found: str = (await self._api.request("POST", path, body))["status"]["token"]
        return found

    async def _status(self, status: Object) -> None:
        await self._api.request("PATCH", f"{self._path}/status", {"status": status}, content_type=MERGE)

    async def _remove(self) -> None:
        await self._api.request("DELETE", self._path, {"gracePeriodSeconds": 0, "preconditions": {"uid": self.uid}})
