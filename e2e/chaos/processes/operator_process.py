"""The operator's real process, outside of the cluster, and what can happen to a process."""

from __future__ import annotations

import asyncio
import json
import os
import signal
import time
from collections.abc import Awaitable, Callable
from pathlib import Path

import aiohttp

from e2e.chaos.faults.injector import Armed
from e2e.chaos.polling import until
from e2e.chaos.processes.forks import Fork, ForkServer
from e2e.chaos.processes.free_ports import free_port
from e2e.devcluster.node.kwok import TAINT as FAKE_NODES_TAINT

STEAL_SECONDS = 1.5
"""How long two operators believe that they lead, at least."""
AGAIN_SECONDS = 1.0
START_SECONDS = 120.0
END_SECONDS = 20.0
"""How long one that was deposed may take to notice."""


class DidNotStart(Exception):
    """An operator did not come to lead."""


class OperatorProcess:
    """One operator; its metrics say when it leads."""

    def __init__(self, fork_server: ForkServer, environment: dict[str, str], log: Path) -> None:
        self.results_port = free_port()
        self.probe_port = free_port()
        self._environment = {
            **environment,
            "PODTUNE_LISTEN_RESULTS": str(self.results_port),
            "PODTUNE_LISTEN_PROBES": str(self.probe_port),
        }
        self._fork_server = fork_server
        self._log = log
        self._fork: Fork | None = None
        self.is_wanted = True

    async def start(self) -> None:
        """Starts it, unless it is not wanted any more."""
        if self.is_wanted:
            self._fork = await self._fork_server.fork(self._environment, self._log)

    @property
    def url(self) -> str:
        """Of its results server."""
        return f"http://127.0.0.1:{self.results_port}"

    @property
    def is_alive(self) -> bool:
        """Whether the process is there."""
        return self._fork is not None and self._fork.returncode is None

    def signal(self, number: int) -> None:
        """Sends a signal to it, if it is there."""
        if self._fork is not None:
            self._fork.send_signal(number)

    async def wait(self) -> None:
        """Waits for its end."""
        if self._fork is not None:
            await self._fork.wait()

    async def kill(self) -> None:
        """SIGKILL; returns when it is dead."""
        self.signal(signal.SIGKILL)
        await self.wait()

    async def leads_or_is_gone(self) -> bool:
        """Whether there is nothing to wait for."""
        return not self.is_alive or await self.leads()

    async def leads(self) -> bool:
        """Whether it says that it leads."""
        try:
            async with (
                aiohttp.ClientSession(timeout=aiohttp.ClientTimeout(total=2)) as session,
                session.get(f"http://127.0.0.1:{self.probe_port}/metrics") as answer,
            ):
                return "podtune_leading 1.0" in await answer.text()
        except (aiohttp.ClientError, OSError, TimeoutError):
            return False


class Operators:
    """The operator of a testbed, which is started again whenever it ends, and now and then another beside it."""

    def __init__(
        self,
        fork_server: ForkServer,
        environment: dict[str, str],
        directory: Path,
        steal_lease: Callable[[], Awaitable[None]],
    ) -> None:
        """Makes them.

        Args:
            fork_server: Starts them.
            environment: Settings of the operator, but for its identity and its ports.
            directory: Where its log goes.
            steal_lease: Makes the Lease free.
        """
        self._fork_server = fork_server
        self._environment = {**os.environ, **environment}
        self._directory = directory
        self._steal_lease = steal_lease
        self._count = 0
        self._supervisors: set[asyncio.Task[None]] = set()
        self._again: set[asyncio.Task[None]] = set()
        self._deposing = asyncio.Lock()
        self.restarts = 0
        self.recoveries: list[float] = []
        """Seconds from a death to leading again."""
        self.leader = self._make()

    async def start(self) -> None:
        """Starts the first one, and returns when it leads.

        Raises:
            DidNotStart: It does not lead within two minutes.
        """
        await self.leader.start()
        self._supervise(self.leader)
        await self._until_it_leads(self.leader)

    async def stop(self) -> None:
        """Ends them all."""
        self.leader.is_wanted = False
        for task in [*self._supervisors, *self._again]:
            task.cancel()
        await self.leader.kill()

    async def kill(self, armed: Armed) -> None:
        """See `Processes.kill`."""
        await self.leader.kill()

    async def kill_again(self, armed: Armed) -> None:
        """See `Processes.kill_again`."""

        async def soon() -> None:
            await asyncio.sleep(AGAIN_SECONDS * armed.random.uniform(0.5, 2.5))
            await self.leader.kill()

        task = asyncio.ensure_future(soon())
        self._again.add(task)
        task.add_done_callback(self._again.discard)

    async def terminate(self) -> None:
        """See `Processes.terminate`."""
        self.leader.signal(signal.SIGTERM)

    async def turn_clock(self, seconds: float) -> None:
        """See `Processes.turn_clock`."""
        self.leader.signal(signal.SIGUSR1 if seconds > 0 else signal.SIGUSR2)

    async def depose(self, armed: Armed, *, freeze: bool) -> None:
        """See `Processes.depose`; goes on when the deposed one, whose call it was, is gone."""
        await asyncio.shield(asyncio.ensure_future(self._depose(armed, freeze=freeze)))

    async def _depose(self, armed: Armed, *, freeze: bool) -> None:
        async with self._deposing:
            old, new = self.leader, self._make()
            if freeze:
                old.signal(signal.SIGSTOP)
            old.is_wanted = False
            self._supervise(new)
            await new.start()
            await until(lambda: _answers(new))
            if not freeze:
                await self._steal_lease()
            self.leader = new
            await self._until_it_leads(new)  # where the old one is frozen, once its Lease has expired
            await asyncio.sleep(STEAL_SECONDS * armed.random.uniform(0.2, 1.0))
            if freeze:
                old.signal(signal.SIGCONT)
            if not await until(lambda: not old.is_alive, END_SECONDS):
                await old.kill()  # or it would take the Lease from one that is to lead later

    def _make(self) -> OperatorProcess:
        self._count += 1
        environment = {**self._environment, "PODTUNE_POD_UID": f"chaos-{self._count}"}
        return OperatorProcess(self._fork_server, environment, self._directory / f"operator-{self._count}.log")

    def _supervise(self, process: OperatorProcess) -> None:
        task = asyncio.ensure_future(self._restart(process))
        self._supervisors.add(task)
        task.add_done_callback(self._supervisors.discard)

    async def _restart(self, process: OperatorProcess) -> None:
        """What the kubelet does."""
        await until(lambda: process.is_alive)
        while True:
            await process.wait()
            died = time.monotonic()
            if not process.is_wanted:
                return
            self.restarts += 1
            await process.start()
            if await until(process.leads_or_is_gone) and process.is_alive:
                self.recoveries.append(time.monotonic() - died)

    async def _until_it_leads(self, process: OperatorProcess) -> None:
        if not await until(process.leads, START_SECONDS):
            raise DidNotStart(f"the operator does not lead; see {self._directory}")


async def _answers(process: OperatorProcess) -> bool:
    try:
        _, writer = await asyncio.open_connection("127.0.0.1", process.probe_port)
    except OSError:
        return False
    writer.close()
    return True


def environment(kubeconfig: Path, namespace: str, results_url: str) -> dict[str, str]:
    """The settings of an operator that serves one namespace."""
    return {
        "KUBECONFIG": str(kubeconfig),
        "PODTUNE_NAMESPACES": namespace,
        "PODTUNE_POD_NAMESPACE": namespace,
        "PODTUNE_LEASE_NAME": "chaos",
        "PODTUNE_AGENT_IMAGE": "localhost/podtune-agent:chaos",
        "PODTUNE_RESULTS_URL": results_url,
        "PODTUNE_ALLOWED_TOLERATIONS": FAKE_NODES_TAINT,
        "PODTUNE_LOG_LEVEL": "info",
    }


def write_kubeconfig(path: Path, server: str) -> None:
    """Credentials for a proxy, which has its own for the server."""
    config = {
        "apiVersion": "v1",
        "kind": "Config",
        "current-context": "chaos",
        "contexts": [{"name": "chaos", "context": {"cluster": "chaos", "user": "chaos"}}],
        "clusters": [{"name": "chaos", "cluster": {"server": server}}],
        "users": [{"name": "chaos", "user": {}}],
    }
    path.write_text(json.dumps(config))
