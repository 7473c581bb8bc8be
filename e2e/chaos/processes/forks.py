"""The harness's side of a fork server, and the processes that it forks."""

from __future__ import annotations

import asyncio
import contextlib
import json
import os
from collections.abc import Mapping, Sequence
from pathlib import Path

from e2e.chaos.processes.child import start_module


class Fork:
    """A process that a fork server has started."""

    def __init__(self, pid: int) -> None:
        self._pid = pid
        self._ended = asyncio.Event()
        self.returncode: int | None = None
        """Its exit code; None while it runs."""

    def end(self, code: int) -> None:
        """It has ended."""
        self.returncode = code
        self._ended.set()

    def send_signal(self, number: int) -> None:
        """Sends a signal to it, if it is there."""
        if self.returncode is None:
            with contextlib.suppress(ProcessLookupError):
                os.kill(self._pid, number)

    async def wait(self) -> int:
        """Waits for its end; returns its exit code."""
        await self._ended.wait()
        assert self.returncode is not None  # it has ended
        return self.returncode


class ForkServer:
    """The process that all processes of a program are forked from."""

    def __init__(self, program: str) -> None:
        """Names the program: operator or agent."""
        self._program = program
        self._process: asyncio.subprocess.Process | None = None
        self._reader: asyncio.Task[None] | None = None
        self._started: asyncio.Queue[Fork] = asyncio.Queue()
        self._forks: dict[int, Fork] = {}
        self._order = asyncio.Lock()

    async def start(self) -> None:
        """Starts it; it takes a while until it answers."""
        pipe = asyncio.subprocess.PIPE
        module = "e2e.chaos.processes.fork_server"
        self._process = await start_module(module, self._program, environment={}, stdin=pipe, stdout=pipe)
        self._reader = asyncio.ensure_future(self._read())

    async def stop(self) -> None:
        """Ends it, and all processes that it has started."""
        assert self._process is not None  # started
        assert self._process.stdin is not None  # a pipe
        self._process.stdin.close()
        await self._process.wait()

    async def fork(
        self, environment: Mapping[str, str], log: Path | str, arguments: Sequence[str] = (), first: str = ""
    ) -> Fork:
        """Starts a process.

        Args:
            environment: All its variables.
            log: File that its output is added to.
            arguments: Of the program.
            first: A statement that comes before it.
        """
        assert self._process is not None  # started
        assert self._process.stdin is not None  # a pipe
        order = {"environment": dict(environment), "log": str(log), "arguments": list(arguments), "first": first}
        async with self._order:
            self._process.stdin.write(json.dumps(order).encode() + b"\n")
            return await self._started.get()

    async def _read(self) -> None:
        assert self._process is not None  # started
        assert self._process.stdout is not None  # a pipe
        async for line in self._process.stdout:
            word, pid, *code = line.decode().split()
            if word == "started":
                fork = self._forks[int(pid)] = Fork(int(pid))
                self._started.put_nowait(fork)
            else:
                self._forks.pop(int(pid)).end(int(code[0]))


class ForkServers:
    """Those of a campaign."""

    def __init__(self) -> None:
        self.operators, self.agents = ForkServer("operator"), ForkServer("agent")

    async def start(self) -> None:
        """Starts them."""
        await asyncio.gather(self.operators.start(), self.agents.start())

    async def stop(self) -> None:
        """Ends them, and all processes that they have started."""
        await asyncio.gather(self.operators.stop(), self.agents.stop())
