"""Processes of this machine: started apart from ours, known again after a restart, and ended as a kubelet does."""

from __future__ import annotations

import os
import signal
import subprocess
import time
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path

from podtune.local.directory import ProcessIdentity

_POLL = 0.05
_START_TIME = 19
"""Position of the start time in /proc/<pid>/stat, counted from what follows the command's name."""
_KILLED = 128 + signal.SIGKILL


class ChildProcess:
    """A program that was started here, in a session of its own: Ctrl-C in the terminal does not reach it."""

    def __init__(self, command: tuple[str, ...], environment: dict[str, str], workdir: Path, output: Path) -> None:
        """Starts it; what it prints goes to a file.

        Raises:
            OSError: It can't be started.
        """
        with output.open("ab") as file:
            self._process = subprocess.Popen(
                command,
                cwd=workdir,
                env=environment,
                stdin=subprocess.DEVNULL,
                stdout=file,
                stderr=subprocess.STDOUT,
                start_new_session=True,
            )
        self.identity = ProcessIdentity(self._process.pid, read_start_time(self._process.pid))

    def wait(self, seconds: float) -> bool:
        """Waits up to so many seconds; returns whether it has ended."""
        try:
            self._process.wait(seconds)
        except subprocess.TimeoutExpired:
            return False
        return True

    @property
    def exit_code(self) -> int:
        """Its exit code, as a container has it; once it has ended."""
        code = self._process.returncode
        return code if code >= 0 else 128 - code

    @property
    def end_reason(self) -> str:
        """Why it has ended, as a container's status has it."""
        return "Error" if self.exit_code else "Completed"

    def terminate(self) -> None:
        """Asks it to end."""
        self._process.terminate()

    def kill(self) -> None:
        """Ends it, and all that it has started and left behind in its session."""
        _kill_group(self._process.pid)


class FoundProcess:
    """A program that an earlier process of ours has started."""

    def __init__(self, identity: ProcessIdentity) -> None:
        self.identity = identity
        self._was_alive = self.is_alive

    @property
    def is_alive(self) -> bool:
        """Whether it runs."""
        return self.identity.pid > 0 and read_start_time(self.identity.pid) == self.identity.started != ""

    def wait(self, seconds: float) -> bool:
        """Waits up to so many seconds; returns whether it has ended."""
        until = time.monotonic() + seconds
        while self.is_alive:
            if time.monotonic() >= until:
                return False
            time.sleep(min(_POLL, max(0.0, until - time.monotonic())))
        return True

    @property
    def exit_code(self) -> int:
        """Nobody knows: that of a program that was killed."""
        return _KILLED

    @property
    def end_reason(self) -> str:
        """Why it has ended, as a container's status has it."""
        return "Error"

    def terminate(self) -> None:
        """Asks it to end."""
        if self.is_alive:
            with suppress(ProcessLookupError):
                os.kill(self.identity.pid, signal.SIGTERM)

    def kill(self) -> None:
        """Ends it, and all that it has started in its session: that of a process that was here when it was found."""
        if self._was_alive:
            _kill_group(self.identity.pid)


AnyProcess = ChildProcess | FoundProcess


def find_process(variable: str) -> ProcessIdentity | None:
    """Finds the process with such a variable, `NAME=value`, that leads a session; None also where systems don't tell.

    What it has started may have the variable, too.
    """
    for path in Path("/proc").glob("[0-9]*/environ"):
        pid = int(path.parent.name)
        with suppress(OSError):
            if variable.encode() in path.read_bytes().split(b"\0") and os.getsid(pid) == pid:
                return ProcessIdentity(pid, read_start_time(pid))
    return None


def read_start_time(pid: int, run: Callable[..., subprocess.CompletedProcess[str]] = subprocess.run) -> str:
    """When a process started, in words of the system's; empty where there is none, or it has ended."""
    stat = Path(f"/proc/{pid}/stat")
    if stat.parent.parent.joinpath("self").exists():
        with suppress(OSError):
            fields = stat.read_text(encoding="ascii", errors="replace").rpartition(")")[2].split()
            return "" if fields[0] in "ZX" else fields[_START_TIME]
        return ""
    found = run(["ps", "-o", "lstart=", "-p", str(pid)], capture_output=True, text=True, check=False)
    return found.stdout.strip()


def _kill_group(leader: int) -> None:
    """Kills a process and its group, which it leads."""
    with suppress(ProcessLookupError, PermissionError):
        os.killpg(leader, signal.SIGKILL)
