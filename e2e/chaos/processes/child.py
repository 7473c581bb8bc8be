"""Processes of the harness: none outlives it, however it ends."""

from __future__ import annotations

import asyncio
import os
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

_ROOT = Path(__file__).parents[3]
_PATH = f"{_ROOT / 'operator'}{os.pathsep}{_ROOT}"
_PROGRAM = """
import runpy
from e2e.chaos.processes.parent_death import die_with_parent
die_with_parent()
{first}
runpy.run_module({module!r}, run_name="__main__", alter_sys=True)
"""


async def start_module(
    module: str, *arguments: str, environment: Mapping[str, str], first: str = "", **streams: Any
) -> asyncio.subprocess.Process:
    """Starts a module of this checkout as a program.

    Args:
        module: Its name.
        arguments: Of the program.
        environment: Variables on top of our own.
        first: A statement that comes before it.
        streams: `stdin`, `stdout` and `stderr`, as for a subprocess.
    """
    return await asyncio.create_subprocess_exec(
        sys.executable, "-c", _PROGRAM.format(module=module, first=first), *arguments,
        env={**os.environ, **environment, "PYTHONPATH": _PATH},
        start_new_session=True,  # what is typed at the terminal is meant for the harness
        **streams,
    )  # fmt: skip
