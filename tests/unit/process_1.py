"""A program as process 1, as it is in a container: the kernel keeps signals from it that it neither handles nor blocks.

It gets a namespace of processes of its own. Where this machine gives none, the program is to ignore the signals from
the start, which comes to the same: `AS_PROCESS_1` does so.
"""

from __future__ import annotations

import functools
import os
import signal
import subprocess
from collections.abc import Mapping, Sequence
from pathlib import Path

AS_PROCESS_1 = """
import os, signal

if os.getpid() != 1:
    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, signal.SIG_IGN)
"""
"""What a Python program begins with."""


def start_as_process_1(command: Sequence[str], environ: Mapping[str, str]) -> subprocess.Popen[bytes]:
    """Starts a program; whoever waits for it gets its exit code."""
    pipe = subprocess.PIPE
    return subprocess.Popen([*find_prefix(), *command], env=environ, stdout=pipe, stderr=pipe)


def send_signal(process: subprocess.Popen[bytes], number: signal.Signals) -> None:
    """Sends a signal to the program itself, once it is there."""
    pid = process.pid
    if find_prefix():
        children = Path(f"/proc/{pid}/task/{pid}/children")
        while not (found := children.read_text().split()):
            assert process.poll() is None, "it has ended"
        pid = int(found[0])
    os.kill(pid, number)


@functools.cache
def find_prefix() -> tuple[str, ...]:
    """The words before a command that make it process 1; none where this machine does not allow it."""
    own = ("unshare", *(() if os.geteuid() == 0 else ("--user", "--map-root-user")))
    prefix = (*own, "--pid", "--fork", "--kill-child")
    try:
        done = subprocess.run([*prefix, "sh", "-c", "exit $$"], check=False, capture_output=True, timeout=60)
    except OSError:
        return ()
    return prefix if done.returncode == 1 else ()
