"""The operator, with a task on its event loop that takes notes."""

from __future__ import annotations

import asyncio
import sys
from collections.abc import Callable, Coroutine
from pathlib import Path
from typing import Any

import uvloop

from podtune.app import main as operator

Work = Coroutine[Any, Any, None]


def run(take_notes: Callable[[Path], Work]) -> None:
    """Runs the operator's own `main`.

    Args:
        take_notes: Notes in the file that the command line names, until it is cancelled.
    """
    run_program, file = uvloop.run, Path(sys.argv[1])

    async def with_notes(program: Work) -> None:
        noting = asyncio.create_task(take_notes(file))
        try:
            await program
        finally:
            noting.cancel()

    uvloop.run = lambda program: run_program(with_notes(program))
    operator.main()
