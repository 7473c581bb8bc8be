"""The real agent, one process for each pod, with the files and the environment that the kubelet would give it.

It talks to the real S3 server, by way of a proxy; so what it does there is what it does in production.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
import os
import random
import signal
import tempfile
from collections.abc import Iterable
from pathlib import Path

from e2e.chaos.api import Object
from e2e.chaos.ground_truth import AttemptTruth
from e2e.chaos.pods import volumes
from e2e.chaos.pods.pod_status import read_agent_settings
from e2e.chaos.pods.volumes import MountedVolume
from e2e.chaos.polling import until
from e2e.chaos.processes.forks import Fork, ForkServer
from e2e.chaos.scenarios.scenario import Scenario
from podtune.agent.state.restore_info import read_restore_info
from podtune.api.pods.pod_template import AGENT_CONTAINER, RESTORE_CONTAINER
from podtune.protocol import agent_environment as agent_env
from podtune.storage.directory import Directory
from podtune.trial import layout

RESTART_SECONDS = 0.3
STARTED_SECONDS = 90.0
FIRST_SECONDS = 30.0
WEIGHTS = "weights"


class Corrupt(Exception):
    """What was restored is not what had been stored."""


def weights(index: int, step: int, size: int) -> bytes:
    """What a checkpoint holds: it follows from the trial and the iteration."""
    return random.Random(f"{index}/{step}").randbytes(size)


def has_run_out_of_time(log: Iterable[str], seconds: float) -> bool:
    """Whether an agent has logged that results or output could not be stored, and that its end took all of its time."""
    events = [json.loads(line) for line in log if line.startswith("{")]
    ends = [event["seconds"] for event in events if event["event"] == "agent ends"]
    return any(event["event"] == "stream not stored" for event in events) and max(ends, default=0.0) >= seconds


class ProcessAgent:
    """The agent of one attempt."""

    def __init__(
        self,
        body: Object,
        truth: AttemptTruth,
        scenario: Scenario,
        agents: ForkServer,
        *,
        token: str,
        volume: MountedVolume | None,
    ) -> None:
        """Makes its directory.

        Args:
            body: The pod.
            truth: What happens in the attempt.
            scenario: Says how large things are.
            agents: Starts agents.
            token: The pod's token.
            volume: The store's, where it is on one.
        """
        self._truth = truth
        self._agents = agents
        self._body = body
        self._volume = volume
        self._index = int(truth.trial.rpartition("-")[2])
        self._size = scenario.agent_bytes
        self._segment_seconds = scenario.segment_seconds
        self._drain_seconds = float(read_agent_settings(body)[agent_env.DRAIN_SECONDS])
        self._keeps_snapshots = scenario.keeps_snapshots
        self._home = Path(tempfile.mkdtemp(dir=volumes.home()))
        self._directory = self._home / "podtune"
        self._directory.mkdir()
        if scenario.volume_bytes:
            volumes.mount(self._directory, scenario.volume_bytes)
        (self._home / "token").write_text(token)
        self._words = self._home / "termination-log"
        self._process: Fork | None = None
        self._keeper: asyncio.Task[None] | None = None
        self._is_up = asyncio.Event()
        self._is_ending = False
        self._has_waited = False
        self._printed: list[str] | None = None

    @property
    def log(self) -> list[str]:
        """What it has printed."""
        if self._printed is not None:
            return self._printed
        path = self._home / "log"
        return path.read_text(errors="replace").splitlines() if path.exists() else []

    async def restore(self) -> int:
        """Runs the restore container, where there is one; returns the step that training goes on from.

        Raises:
            Corrupt: It has restored something else than what was stored.
        """
        if not any(c["name"] == RESTORE_CONTAINER for c in self._body["spec"]["initContainers"]):
            return 0
        process = await self._run(RESTORE_CONTAINER)
        await process.wait()
        info = read_restore_info(Directory(self._directory))
        if info is None or info.restored.checkpoint is None:
            return 0
        step = info.restored.step
        restored = self._directory / layout.RESTORED
        if (restored / WEIGHTS).read_bytes() != weights(self._index, step, self._size):
            raise Corrupt(f"the weights of step {step} are not those that were stored")
        if (restored / "step").read_text() != str(step):
            raise Corrupt(f"the checkpoint of step {step} holds another step")
        return step

    async def start(self) -> None:
        """Starts the sidecar; it is started again whenever it dies.

        The program waits until it works: on a machine that is busy it would have ended before.
        """
        await self._start_sidecar()
        self._keeper = asyncio.ensure_future(self._keep())

    async def kill(self) -> None:
        """SIGKILL."""
        if self._process is not None and self._process.returncode is None:
            self._is_up.clear()
            self._truth.cut_short = self._truth.cut_short or self._is_ending
            self._process.send_signal(signal.SIGKILL)
            await self._process.wait()

    def result(self, step: int, value: float, *, checkpoint: bool) -> None:
        """The program reports a result, and has written a checkpoint before."""
        line: Object = {"value": value, "training_iteration": step}
        if checkpoint:
            name = f"step-{step}"
            directory = self._directory / layout.CHECKPOINTS / name
            directory.mkdir(parents=True)
            (directory / WEIGHTS).write_bytes(weights(self._index, step, self._size))
            (directory / "step").write_text(str(step))
            (directory / "constant").write_text("the same in every checkpoint")
            line[layout.CHECKPOINT_KEY] = name
        self._append(line)
        self._truth.values[step] = value
        if checkpoint:
            self._truth.reported.append(step)

    async def until_acknowledged(self) -> None:
        """Waits for the first checkpoint to be stored, though not for ever: what comes later flows.

        On a busy machine a short program would have ended before, and a fault would strike an agent that nobody starts
        again.
        """
        checkpoints = self._directory / layout.CHECKPOINTS
        if not self._has_waited:
            self._has_waited = True
            await until(lambda: not any(checkpoints.iterdir()), FIRST_SECONDS)

    @property
    def wants_checkpoint(self) -> bool:
        """Whether a checkpoint is asked for."""
        return bool(self._control().get("shouldCheckpoint"))

    @property
    def wants_stop(self) -> bool:
        """Whether the program is asked to stop."""
        return bool(self._control().get("shouldStop"))

    def say_done(self) -> None:
        """The program says that it is done."""
        self._append({layout.DONE_KEY: True})

    async def end(self) -> str:
        """The program has ended; returns the agent's last word.

        One that was killed meanwhile is waited for: a kubelet starts none again whose program has ended, so what it had
        not delivered would be lost with the pod.
        """
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(STARTED_SECONDS):
                await self._is_up.wait()
        self._is_ending = True
        if self._process is not None and self._process.returncode is None:
            self._process.send_signal(signal.SIGTERM)
            await self._process.wait()
        words = self.words
        self._close()
        return words

    @property
    def words(self) -> str:
        """What it has left behind so far."""
        return self._words.read_text() if self._words.exists() else ""

    @property
    def is_storing(self) -> bool:
        """Whether a checkpoint is on its way into the bucket: a stored one is deleted."""
        checkpoints = self._directory / layout.CHECKPOINTS
        return checkpoints.exists() and any(checkpoints.iterdir())

    def die(self) -> None:
        """It is gone without a word."""
        self._is_ending = True
        if self._process is not None and self._process.returncode is None:
            self._process.send_signal(signal.SIGKILL)
        self._close()

    def fall_silent(self) -> None:
        """Only simulated agents are cut off."""
        raise NotImplementedError

    async def report_after_removal(self, step: int, value: float) -> None:
        """Only simulated agents come back."""
        raise NotImplementedError

    def fill_disk(self) -> None:
        """Leaves no space on the volume that the agent shares with the program."""
        with contextlib.suppress(OSError), (self._directory / "filler").open("wb", buffering=0) as file:
            while True:
                file.write(bytes(1 << 12))

    def _append(self, line: Object) -> None:
        with (self._directory / layout.RESULTS).open("a") as file:
            file.write(json.dumps(line) + "\n")

    def _control(self) -> Object:
        with contextlib.suppress(OSError, ValueError):
            found: Object = json.loads((self._directory / layout.CONTROL).read_text())
            return found
        return {}

    async def _keep(self) -> None:
        """What the kubelet does with a sidecar."""
        while not self._is_ending and self._process is not None:
            await self._process.wait()
            await asyncio.sleep(RESTART_SECONDS)
            if not self._is_ending:
                await self._start_sidecar()

    async def _start_sidecar(self) -> None:
        """Starts it, and returns when it works."""
        starts = self._starts
        self._process = await self._run(AGENT_CONTAINER)
        await until(lambda: self._starts > starts, STARTED_SECONDS)
        self._is_up.set()

    @property
    def _starts(self) -> int:
        return sum("agent started" in line for line in self.log)

    async def _run(self, container: str) -> Fork:
        found = next(c for c in self._body["spec"]["initContainers"] if c["name"] == container)
        arguments = [word.replace("$$", "$") for word in found["args"]]
        environment = {e["name"]: e["value"].replace("$$", "$") for e in found.get("env") or () if "value" in e}
        if self._segment_seconds:
            sync = json.loads(read_agent_settings(self._body).get(agent_env.SYNC, "{}"))
            sync["segmentPeriod"] = self._segment_seconds
            if self._keeps_snapshots:
                sync["snapshotPeriod"] = self._segment_seconds
            environment[agent_env.SYNC] = json.dumps(sync)
        environment |= {
            agent_env.POD_UID: self._body["metadata"]["uid"],
            layout.ENV_DIRECTORY: str(self._directory),
            agent_env.TOKEN_FILE: str(self._home / "token"),
            agent_env.TERMINATION_LOG: str(self._words),
        }
        first = self._volume.first if self._volume else ""
        variables = {**os.environ, **environment}
        return await self._agents.fork(variables, self._home / "log", self._place_volume(arguments), first)

    def _place_volume(self, arguments: list[str]) -> list[str]:
        """The arguments of a command of a trial's agent, which are told where the volume is."""
        if self._volume is None:
            return arguments
        command, variables = arguments
        told = json.loads(variables)
        return [command, json.dumps({**told, agent_env.STORE: self._volume.place(told[agent_env.STORE])})]

    def _close(self) -> None:
        if self._keeper is not None:
            self._keeper.cancel()
        self._printed = self.log
        self._truth.out_of_time = has_run_out_of_time(self._printed, self._drain_seconds)
        volumes.remove(self._home)
