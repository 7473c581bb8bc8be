"""A program that is run to be looked at: what it prints, what belongs to it, and its end without leftovers."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import suppress
from pathlib import Path

from podtune.agent.logs.line_clipper import LineClipper
from podtune.trial import layout

_MOST_LINES = 20_000
_CHUNK = 1 << 16
PROCESSES = Path("/proc")
"""Where systems tell of processes."""
_GRACE = ((signal.SIGINT, 5.0), (signal.SIGTERM, 2.0))
"""How it is asked to end, and how many seconds it has each time: on SIGINT, Python closes files and ends runs."""
_LAST_READ = 5.0
"""Seconds that the end of its output is waited for."""


class WatchedProgram:
    """A process with a session of its own; what it prints is passed on and kept.

    Attributes:
        directory: What it has for PODTUNE_DIR, by which its processes are known.
    """

    def __init__(
        self,
        command: Sequence[str],
        environment: Mapping[str, str],
        directory: Path,
        echo: Callable[[bytes], None],
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        """Starts it in the current directory.

        Args:
            command: Its words.
            environment: Its variables, but for PODTUNE_DIR.
            directory: Its PODTUNE_DIR.
            echo: Passes on what it prints.
            clock: Seconds.

        Raises:
            OSError: It can't be started.
        """
        self.directory = directory
        self._clock = clock
        self._echo = echo
        self._clipper = LineClipper()
        self._lock = threading.Lock()
        self._lines: list[str] = []
        self._started = clock()
        self._process = subprocess.Popen(
            command,
            env={"PYTHONUNBUFFERED": "1", **environment, layout.ENV_DIRECTORY: str(directory)},
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            start_new_session=True,
        )
        self._reader = threading.Thread(target=self._read, name="output", daemon=True)
        self._reader.start()

    @property
    def seconds(self) -> float:
        """How long ago it was started."""
        return self._clock() - self._started

    @property
    def exit_code(self) -> int | None:
        """As a shell has it; None while it runs."""
        code = self._process.poll()
        return code if code is None or code >= 0 else 128 - code

    @property
    def lines(self) -> list[str]:
        """What it has printed, in lines; of many, the first."""
        with self._lock:
            return list(self._lines)

    @property
    def is_full(self) -> bool:
        """Whether lines are kept no more."""
        return len(self._lines) >= _MOST_LINES

    def wait(self, seconds: float) -> bool:
        """Waits up to so many seconds; returns whether it has ended."""
        with suppress(subprocess.TimeoutExpired):
            self._process.wait(seconds)
        return self._process.returncode is not None

    def end(self) -> None:
        """Ends it and all that belongs to it: first as Ctrl-C does, in the end by force."""
        try:
            for number, seconds in _GRACE:
                if self.wait(0):
                    break
                self._signal(number)
                self.wait(seconds)
        finally:
            self._signal(signal.SIGKILL)
            for process in list_marked_processes(self.directory):
                with suppress(ProcessLookupError, PermissionError):
                    os.kill(process, signal.SIGKILL)
            self._process.wait()
            self._reader.join(_LAST_READ)

    def _signal(self, number: signal.Signals) -> None:
        with suppress(ProcessLookupError, PermissionError):
            os.killpg(self._process.pid, number)

    def _read(self) -> None:
        assert self._process.stdout is not None
        with self._process.stdout as output:
            while data := os.read(output.fileno(), _CHUNK):
                self._echo(data)
                self._keep(self._clipper.feed(data))
        self._keep(self._clipper.finish())

    def _keep(self, lines: Sequence[bytes]) -> None:
        with self._lock:
            room = _MOST_LINES - len(self._lines)
            self._lines += [line.decode("utf-8", "replace") for line in lines[:room]]


def list_marked_processes(directory: Path) -> Iterator[int]:
    """The processes whose PODTUNE_DIR is this directory, wherever they have gone; none where systems don't tell."""
    marker = os.fsencode(f"{layout.ENV_DIRECTORY}={directory}")
    for path in PROCESSES.glob("[0-9]*/environ"):
        with suppress(OSError):
            if marker in path.read_bytes().split(b"\0"):
                yield int(path.parent.name)


def echo_to_stderr(data: bytes) -> None:
    """Passes on what a program prints, to people alone."""
    with suppress(OSError):
        sys.stderr.buffer.write(data)
        sys.stderr.buffer.flush()
