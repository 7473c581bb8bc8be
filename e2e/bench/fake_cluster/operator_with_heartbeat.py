"""The operator, with a task beside it that notes when the event loop did not turn for a while.

python -m e2e.bench.fake_cluster.operator_with_heartbeat FILE
"""

from __future__ import annotations

import asyncio
import json
import time
from pathlib import Path

from e2e.bench.fake_cluster import recording_operator

BEAT = 0.005
NOTED = 0.02
"""Seconds; shorter stalls are not written down."""


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
    recording_operator.run(_beat)
