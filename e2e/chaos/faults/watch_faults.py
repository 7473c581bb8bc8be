"""What can happen to the events of a watch."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Awaitable, Callable

from e2e.chaos.faults.calls import Call, experiment_of
from e2e.chaos.faults.injector import Injector
from e2e.chaos.perturbation import Fault

DELAY_SECONDS = 2.0
BLIND_SECONDS = 1.5
"""How long a watch that has dropped an event goes on before it is cut."""
GONE = {
    "type": "ERROR",
    "object": {
        "kind": "Status",
        "apiVersion": "v1",
        "metadata": {},
        "status": "Failure",
        "message": "too old resource version",
        "reason": "Expired",
        "code": 410,
    },
}


class WatchStream:
    """One watch, on its way to the client.

    Attributes:
        cut: Whether the connection is to be cut, rather than ended.
    """

    def __init__(
        self,
        call: Call,
        injector: Injector,
        write: Callable[[bytes], Awaitable[None]],
        next_list_is_stale: Callable[[], None],
    ) -> None:
        self._call = call
        self._injector = injector
        self._write = write
        self._next_list_is_stale = next_list_is_stale
        self._held: list[bytes] = []
        self._release: asyncio.Task[None] | None = None
        self._blind_until: float | None = None
        self.cut = False

    async def __aenter__(self) -> WatchStream:
        return self

    async def __aexit__(self, *_: object) -> None:
        if self._release is not None:
            self._release.cancel()

    async def take(self, line: bytes) -> bool:
        """Passes an event on, or does to it what the injector says; whether the watch goes on."""
        loop = asyncio.get_running_loop()
        if self._blind_until is not None and loop.time() > self._blind_until:
            await self._write(_gone())
            return False
        fault, _ = self._injector.strike(self._call, _subject(line))
        match fault:
            case Fault.WATCH_CUT:
                self.cut = True
                return False
            case Fault.WATCH_GONE:
                await self._write(_gone())
                return False
            case Fault.WATCH_STALE:
                self._next_list_is_stale()
                await self._write(_gone())
                return False
            case Fault.WATCH_DROP:
                self._blind_until = loop.time() + BLIND_SECONDS
                self._release = asyncio.ensure_future(self._end_blindness())
            case Fault.WATCH_TWICE:
                await self._write(line)
                await self._write(line)
            case Fault.WATCH_REORDER:
                self._held.append(line)
                self._release = asyncio.ensure_future(self._release_later())
            case Fault.WATCH_DELAY:
                await asyncio.sleep(DELAY_SECONDS)
                await self._write(line)
            case _:
                await self._write(line)
                await self._write_held()
        return True

    async def _write_held(self) -> None:
        held, self._held = self._held, []
        for line in held:
            await self._write(line)

    async def _release_later(self) -> None:
        await asyncio.sleep(DELAY_SECONDS)
        await self._write_held()

    async def _end_blindness(self) -> None:
        """A watch on which nothing more comes is told that it is too old, too."""
        await asyncio.sleep(BLIND_SECONDS)
        await self._write(_gone())


def _gone() -> bytes:
    return json.dumps(GONE).encode() + b"\n"


def _subject(line: bytes) -> str:
    try:
        event = json.loads(line)
    except ValueError:
        return ""
    return experiment_of(str(event.get("object", {}).get("metadata", {}).get("name", "")))
