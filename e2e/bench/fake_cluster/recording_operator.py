"""The operator, with a task on its event loop that records what happens there."""

from __future__ import annotations

import asyncio
import sys
from collections.abc import Callable, Coroutine
from pathlib import Path
from typing import Any

import uvloop

from podtune.app import main as operator

Work = Coroutine[Any, Any, None]


def run(record: Callable[[Path], Work]) -> None:
    """Runs the operator's own `main`.

    Args:
        record: Records into the file that the command line names, until it is cancelled.
    """
    run_program, file = uvloop.run, Path(sys.argv[1])

    async def with_recording(program: Work) -> None:
        recording = asyncio.create_task(record(file))
        try:
            await program
        finally:
            recording.cancel()

    uvloop.run = lambda program: run_program(with_recording(program))
    operator.main()
