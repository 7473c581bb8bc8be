"""What the operator pays for logs that are stored (`logs.keep`): it passes each from the kubelet on to the pod's agent.

First all programs print ten lines a second, as most do at most; then each has printed a lot at once.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator, Sequence
from dataclasses import dataclass, field

from e2e.bench.fake_cluster.fake_cluster import FakeCluster, FakePod, run_fake_cluster
from e2e.bench.fake_cluster.measured_operator import longest_stall, now
from e2e.bench.measurement import Figure, Measurement
from e2e.chaos.polling import until

AGENTS = 200
LINES_A_SECOND = 10
SECONDS = 20.0
"""In full, three times as long."""
LINE = b"2026-01-01T00:00:00.000000001Z " + b"x" * 89 + b"\n"
CHUNK = LINE * 512
CHUNKS = 64
DEADLINE = 120.0


def measure(full: bool) -> Measurement:
    """Measures both; a part of `kept`."""
    return asyncio.run(measure_logs(AGENTS, SECONDS * (3 if full else 1)))


async def measure_logs(agents: int, seconds: float) -> Measurement:
    """Has so many programs print for so many seconds."""
    slow, burst = _Output(LINE, int(seconds * LINES_A_SECOND), LINES_A_SECOND), _Output(CHUNK, CHUNKS)
    programs = _Programs((slow, burst))
    async with run_fake_cluster(lambda _: programs.run) as cluster:
        cluster.api.print_log = programs.print_log
        store = {"bucket": "none", "prefix": "bench"}
        cluster.create_experiment("logs", agents, agents, checkpoints={"store": store}, logs={"keep": "16Mi"})
        if not await until(lambda: programs.waiting == agents, DEADLINE):
            raise TimeoutError(f"{programs.waiting} of {agents} agents are there: {cluster.problems[:3]}")
        await cluster.operator.until_at_rest(DEADLINE)
        since = now()
        slow_busy, burst_busy = [await programs.measure(output, cluster) for output in (slow, burst)]
        stall = longest_stall(cluster.operator, since)
        programs.end.set()
        await cluster.until_complete(DEADLINE)
    mebibytes = agents * burst.size / (1 << 20)
    figures = [
        Figure("operator's processor time for a log of ten lines a second", 100 * slow_busy / seconds / agents, "%"),
        Figure("operator's processor time for a MiB of logs", 1000 * burst_busy / mebibytes, "ms"),
        Figure("longest stall of the event loop while logs come", stall, "ms"),
    ]
    setting = (
        f"{agents} agents read the log of their pod through the operator, which decides nothing meanwhile: "
        f"{LINES_A_SECOND} lines of {len(LINE)} bytes a second for {seconds:.0f} s, then {burst.size >> 20} MiB each"
    )
    return Measurement(setting, figures, cluster.problems)


@dataclass(frozen=True)
class _Output:
    """What a program prints.

    Attributes:
        chunks: How many of them.
        rate: How many in a second; 0 for all at once.
    """

    chunk: bytes
    chunks: int
    rate: int = 0
    begin: asyncio.Event = field(default_factory=asyncio.Event)

    @property
    def size(self) -> int:
        """How many bytes it is."""
        return len(self.chunk) * self.chunks


class _Programs:
    """The programs of all trials, what they print, and the agents that read it."""

    def __init__(self, outputs: Sequence[_Output]) -> None:
        self._outputs = outputs
        self.waiting = 0
        self.end = asyncio.Event()
        self._unread = 0

    async def run(self, pod: FakePod) -> None:
        self.waiting += 1
        for output in self._outputs:
            await output.begin.wait()
            await pod.read_log(output.size)
            self._unread -= 1
        await self.end.wait()
        await pod.answers.until_acknowledged(pod.report(1.0))

    async def measure(self, output: _Output, cluster: FakeCluster) -> float:
        """Has all programs print, and all agents read; returns the operator's processor time."""
        busy, self._unread = cluster.operator.processor_seconds, self.waiting
        output.begin.set()
        if not await until(lambda: self._unread == 0, DEADLINE):
            raise TimeoutError(f"{self._unread} logs are not read: {cluster.problems[:3]}")
        return cluster.operator.processor_seconds - busy

    async def print_log(self) -> AsyncIterator[bytes]:
        """What a kubelet gives of a container's log: it does not end while the container runs."""
        output = next(each for each in reversed(self._outputs) if each.begin.is_set())
        begun = time.monotonic()
        for number in range(output.chunks):
            if output.rate:
                await asyncio.sleep(max(0.0, begun + number / output.rate - time.monotonic()))
            yield output.chunk
        await self.end.wait()
