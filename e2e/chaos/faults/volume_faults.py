"""What happens to an agent's calls to the file system of its store: the agent asks before each, and is told.

The other side is `e2e.chaos.pods.volume_layer`, in the agent's process.
"""

from __future__ import annotations

import asyncio
import contextlib
import errno
import json
from collections.abc import Awaitable, Callable
from pathlib import Path

from e2e.chaos.faults.calls import Call
from e2e.chaos.faults.injector import Armed, Injector
from e2e.chaos.faults.proxy import SLOW_SECONDS, Processes
from e2e.chaos.perturbation import Fault
from e2e.chaos.pods.volume_layer import AFTER, BEFORE, EMPTY, FLIPPED, HALFWAY, THEN_WAIT

_ERRORS = {
    Fault.DISK_FULL: (errno.ENOSPC, HALFWAY),
    Fault.READ_ONLY: (errno.EROFS, BEFORE),
    Fault.STALE_HANDLE: (errno.ESTALE, BEFORE),
    Fault.IO_ERROR: (errno.EIO, BEFORE),
    Fault.DONE_BUT_IO_ERROR: (errno.EIO, AFTER),
}
_SPOILT = {Fault.TRUNCATED: EMPTY, Fault.BIT_FLIPPED: FLIPPED}
Reply = dict[str, str | int]


class VolumeFaults:
    """Answers the agents of a testbed."""

    def __init__(
        self,
        injector: Injector,
        processes: Callable[[], Processes],
        socket: Path,
        *,
        classify: Callable[[str, str], tuple[Call, str]],
        lose_cluster: Callable[[Armed], Awaitable[None]],
    ) -> None:
        """Makes it.

        Args:
            injector: Says what happens to a call.
            processes: The agents.
            socket: Where agents ask.
            classify: Says which call it is, and of which experiment.
            lose_cluster: Has the cluster lose an experiment.
        """
        self._injector = injector
        self._processes = processes
        self._classify = classify
        self._lose_cluster = lose_cluster
        self._socket = socket
        self._server: asyncio.Server | None = None
        self._talks: set[asyncio.Task[None]] = set()

    async def start(self) -> None:
        """Listens."""
        self._server = await asyncio.start_unix_server(self._accept, self._socket)

    async def stop(self) -> None:
        """Ends all talks."""
        if self._server is not None:
            self._server.close()
        for talk in self._talks:
            talk.cancel()
        await asyncio.gather(*self._talks, return_exceptions=True)

    async def _accept(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        talk = asyncio.ensure_future(self._talk(reader, writer))
        self._talks.add(talk)
        talk.add_done_callback(self._talks.discard)

    async def _talk(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        """Answers one thread of an agent, until it is gone, or killed."""
        with contextlib.closing(writer), contextlib.suppress(OSError):
            while line := await reader.readline():
                asked = json.loads(line)
                fault, armed = self._injector.strike(*self._classify(asked["operation"], asked["path"]))
                if fault is Fault.KILL_BEFORE and armed is not None:
                    await self._processes().kill(armed)
                    return
                if fault is Fault.LOSE_CLUSTER and armed is not None:
                    await self._lose_cluster(armed)
                    return
                writer.write(json.dumps(await _decide(fault, armed)).encode() + b"\n")
                await writer.drain()
                if fault is Fault.KILL_AFTER and armed is not None:
                    await reader.readline()  # it is done
                    await self._processes().kill(armed)
                    return


async def _decide(fault: Fault, armed: Armed | None) -> Reply:
    if armed is None or fault is Fault.NONE:
        return {}
    if fault is Fault.KILL_AFTER:
        return {"when": THEN_WAIT}
    if fault is Fault.SLOW:
        await asyncio.sleep(SLOW_SECONDS * armed.random.uniform(0.7, 1.3))
        return {}
    if fault in _SPOILT:
        return {"spoil": _SPOILT[fault], "place": armed.random.randrange(1 << 30)}
    if fault not in _ERRORS:
        raise AssertionError(f"{fault} can't be done to a file system")
    code, when = _ERRORS[fault]
    return {"errno": code, "when": when}
