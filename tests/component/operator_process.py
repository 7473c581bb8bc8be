"""The operator's process, outside of a cluster, and what it says."""

from __future__ import annotations

import asyncio
import json
import os
import sys
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

from e2e.chaos.processes.free_ports import free_port

ROOT = Path(__file__).parents[2]
LEASE = "operator-under-test"


@asynccontextmanager
async def operator(namespace: str, **environment: str) -> AsyncIterator[asyncio.subprocess.Process]:
    process = await asyncio.create_subprocess_exec(
        sys.executable,
        "-m",
        "podtune.app.entry",
        env=os.environ
        | {
            "PYTHONPATH": str(ROOT / "operator"),
            "PODTUNE_AGENT_IMAGE": "agent:1",
            "PODTUNE_LEASE_NAME": LEASE,
            "PODTUNE_POD_NAMESPACE": namespace,
            "PODTUNE_NAMESPACES": namespace,
            "PODTUNE_LISTEN_RESULTS": str(free_port()),
            "PODTUNE_LISTEN_PROBES": str(free_port()),
            **environment,
        },
        stderr=asyncio.subprocess.PIPE,
    )
    try:
        yield process
    finally:
        if process.returncode is None:
            process.kill()
            await process.wait()


async def events(process: asyncio.subprocess.Process) -> AsyncIterator[dict[str, Any]]:
    assert process.stderr is not None
    async for line in process.stderr:
        yield json.loads(line)


async def until(process: asyncio.subprocess.Process, event: str) -> None:
    async with asyncio.timeout(60):
        async for entry in events(process):
            if entry["event"] == event:
                return
    raise AssertionError(f"the operator ended without saying {event!r}")


async def ended(process: asyncio.subprocess.Process, within: float) -> tuple[int | None, str]:
    """Exit code and last word of a process that ends."""
    begun = time.monotonic()
    last = ""
    async with asyncio.timeout(within):
        async for entry in events(process):
            last = entry.get("message", "")
        await process.wait()
    assert time.monotonic() - begun < within
    return process.returncode, last
