"""The operator, with a task beside it that notes when the event loop did not turn for a while.

python -m e2e.bench.operator_with_heartbeat FILE
"""

from __future__ import annotations

import asyncio
import json
import sys
import time
from collections.abc import Coroutine
from pathlib import Path
from typing import Any

import uvloop

from podtune.app import main as operator

BEAT = 0.005
NOTED = 0.02
"""Seconds; shorter stalls are not written down."""


def main() -> None:
    """Runs the operator's own `main`."""
    run, file = uvloop.run, Path(sys.argv[1])

    def run_with_heartbeat(program: Coroutine[Any, Any, None]) -> None:
        run(_with_heartbeat(program, file))

    uvloop.run = run_with_heartbeat
    operator.main()


async def _with_heartbeat(program: Coroutine[Any, Any, None], file: Path) -> None:
    beating = asyncio.create_task(_beat(file))
    try:
        await program
    finally:
        beating.cancel()


async def _beat(file: Path) -> None:
    with file.open("a", encoding="ascii", buffering=1) as lines:
        while True:
            before, busy = time.monotonic(), time.thread_time()
            await asyncio.sleep(BEAT)
            seconds, busy_seconds = time.monotonic() - before - BEAT, time.thread_time() - busy
            if seconds > NOTED:
                stall = {"at": time.time(), "seconds": round(seconds, 4), "busy_seconds": round(busy_seconds, 4)}
                lines.write(json.dumps(stall) + "\n")


if __name__ == "__main__":
    main()
