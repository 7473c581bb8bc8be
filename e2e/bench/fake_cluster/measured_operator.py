"""The operator's real process under measurement, and what can be seen of it from outside."""

from __future__ import annotations

import asyncio
import json
import os
import signal
import time
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

import aiohttp

from e2e.bench.fake_cluster.api_server import NAMESPACE
from e2e.bench.processor_time import resident_bytes_of, seconds_of
from e2e.chaos.polling import until
from e2e.chaos.processes.child import start_module
from e2e.chaos.processes.free_ports import free_port
from e2e.chaos.processes.operator_process import environment, write_kubeconfig

WITH_HEARTBEAT = "e2e.bench.fake_cluster.operator_with_heartbeat"
WITH_PROFILE = "e2e.bench.fake_cluster.operator_with_profile"
START_SECONDS = 120.0
AT_REST = 0.1
"""Of a second: so much it takes at most when it only waits."""


class DidNotLead(Exception):
    """The operator does not come to lead."""


@dataclass(frozen=True)
class Stall:
    """The event loop did not turn for a while.

    Attributes:
        at: When it turned again, in seconds since the epoch.
        seconds: How long it did not.
        busy_seconds: For how much of it the loop's thread was at work: the rest, somebody else had the processor.
    """

    at: float
    seconds: float
    busy_seconds: float


class MeasuredOperator:
    """An operator that serves one namespace of an API server; it can be killed and started again."""

    def __init__(self, server: str, directory: Path, program: str = WITH_HEARTBEAT) -> None:
        """Makes it.

        Args:
            server: URL of the API server.
            directory: Where its log and its recording go.
            program: Module that runs the operator and records what happens.
        """
        self._program = program
        self._results_port, self._probe_port = free_port(), free_port()
        kubeconfig = directory / "kubeconfig"
        write_kubeconfig(kubeconfig, server)
        self.url = f"http://127.0.0.1:{self._results_port}"
        self._environment = {
            **environment(kubeconfig, NAMESPACE, self.url),
            "PODTUNE_LISTEN_RESULTS": str(self._results_port),
            "PODTUNE_LISTEN_PROBES": str(self._probe_port),
            # As in a pod whose container is started again: it has the same identity, and takes its Lease over at once.
            "PODTUNE_POD_NAME": "operator",
            "PODTUNE_POD_UID": "bench",
        }
        self.log = directory / "operator.log"
        self._recording = directory / "recording"
        self._process: asyncio.subprocess.Process | None = None

    async def start(self) -> None:
        """Starts the process, and returns when it leads.

        Raises:
            DidNotLead: It does not.
        """
        with self.log.open("ab") as log:
            self._process = await start_module(
                self._program, str(self._recording), environment=self._environment, stdout=log, stderr=log
            )
        if not await until(self._leads, START_SECONDS) or self._process.returncode is not None:
            raise DidNotLead(f"the operator does not lead: …{self.log.read_text()[-2000:]}")

    async def kill(self) -> None:
        """SIGKILL; returns when it is dead."""
        if self._process is not None and self._process.returncode is None:
            self._process.send_signal(signal.SIGKILL)
            await self._process.wait()

    @property
    def processor_seconds(self) -> float:
        """What the process has used so far."""
        return seconds_of(self._proc)

    @property
    def resident_bytes(self) -> int:
        """Its memory."""
        return resident_bytes_of(self._proc)

    def stalls(self, since: float = 0.0) -> Iterator[Stall]:
        """When the event loop stood still, from a point in time on."""
        if self._recording.exists():
            for line in self._recording.read_text().splitlines():
                stall = Stall(**json.loads(line))
                if stall.at >= since:
                    yield stall

    def profile(self) -> Mapping[str, float]:
        """Seconds of processor time by package, of an operator with profile."""
        seconds: Mapping[str, float] = json.loads(self._recording.read_text())
        return seconds

    async def until_at_rest(self, seconds: float) -> None:
        """Waits until it has done what there was to do.

        Raises:
            TimeoutError: It is still at work after so many seconds.
        """
        async with asyncio.timeout(seconds):
            busy = -1.0
            while self.processor_seconds - busy > AT_REST:
                busy = self.processor_seconds
                await asyncio.sleep(1)

    async def metric(self, name: str) -> float:
        """One of its metrics; 0 where it has none of this name."""
        async with aiohttp.ClientSession() as session, session.get(self._metrics_url) as answer:
            for line in (await answer.text()).splitlines():
                if line.startswith(f"{name} "):
                    return float(line.split()[1])
        return 0.0

    async def _leads(self) -> bool:
        assert self._process is not None  # started
        if self._process.returncode is not None:
            return True  # nothing to wait for
        try:
            return await self.metric("podtune_leading") == 1.0
        except (aiohttp.ClientError, OSError, TimeoutError):
            return False

    @property
    def _metrics_url(self) -> str:
        return f"http://127.0.0.1:{self._probe_port}/metrics"

    @property
    def _proc(self) -> Path:
        assert self._process is not None  # started
        return Path("/proc") / str(self._process.pid)


def longest_stall(operator: MeasuredOperator, since: float) -> float:
    """Milliseconds that the loop was at work without turning, at most; what another process took is no part of it."""
    return 1000 * max((min(stall.seconds, stall.busy_seconds) for stall in operator.stalls(since)), default=0.0)


def now() -> float:
    """The clock of `Stall.at`."""
    return time.time()


def own_processor_seconds() -> float:
    """What this process has used so far: agents, kubelet and API server."""
    times = os.times()
    return times.user + times.system
