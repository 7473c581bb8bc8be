"""What a program has printed, as the kubelet keeps it and the API server passes it on."""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator

from e2e.chaos.pods.pod_status import format_nanoseconds


class PodLog:
    """The log of a pod's program."""

    def __init__(self) -> None:
        self._lines: list[tuple[str, bytes]] = []
        self._changed = asyncio.Event()
        self._is_over = False

    @property
    def count(self) -> int:
        """How many lines were printed."""
        return len(self._lines)

    def print(self, text: str) -> None:
        """The program prints a line."""
        stamp = format_nanoseconds(time.time_ns())
        self._lines.append((stamp, f"{stamp} {text}\n".encode()))
        self._changed.set()

    def end(self) -> None:
        """The program has ended."""
        self._is_over = True
        self._changed.set()

    async def read(self, since: str, *, follow: bool) -> AsyncIterator[bytes]:
        """The lines from a time on, as `kubectl logs --timestamps` has them; those to come as well, if it follows."""
        place = 0
        while True:
            self._changed.clear()
            new = b"".join(line for stamp, line in self._lines[place:] if stamp >= since)
            place = len(self._lines)
            if new:
                yield new
            if not follow or self._is_over:
                return
            await self._changed.wait()
