"""Starting, finding, watching and killing the components.

A component is found by its cgroup, never by a process id in a file: an id may be reused after a crash, a cgroup
cannot be. The kernel keeps the books, also for the containerd shims that a component leaves behind.
"""

from __future__ import annotations

import json
import os
import signal
import subprocess
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from e2e.devcluster.errors import ClusterError
from e2e.devcluster.layout import Layout
from e2e.devcluster.node import cgroups, network

LOG_LINES_SHOWN = 15
_POLL_SECONDS = 0.1
_LEFT_BEHIND = "containerd-shim"

# Joins the cgroups, then starts the component in the background: init adopts it, and no zombie of it stays with us.
_LAUNCHER = """
directories=$1; shift
for directory in $directories; do echo 0 >"$directory/cgroup.procs" || exit 1; done
exec "$@" &
"""


def wait_until(check: Callable[[], bool], what: str, seconds: float, alive: Callable[[], None] | None = None) -> None:
    """Poll until something holds.

    Args:
        check: Returns whether it holds.
        what: Named in the error.
        seconds: The deadline, from now.
        alive: Raises when waiting has become pointless.

    Raises:
        ClusterError: The deadline passed.
    """
    deadline = time.monotonic() + seconds
    while not check():
        if alive is not None:
            alive()
        if time.monotonic() > deadline:
            raise ClusterError(f"{what}: not within {seconds:.0f} s")
        time.sleep(_POLL_SECONDS)


def run(
    command: Sequence[str | Path],
    *,
    stdin: str | None = None,
    timeout: float = 120,
    environment: Mapping[str, str] | None = None,
) -> str:
    """Run a command to its end and return what it printed.

    Raises:
        ClusterError: It failed; the message holds the end of what it said.
    """
    arguments = [str(word) for word in command]
    try:
        done = subprocess.run(
            arguments, input=stdin, capture_output=True, text=True, timeout=timeout, env=environment, check=False
        )
    except FileNotFoundError as error:
        raise ClusterError(f"{arguments[0]}: no such program") from error
    except subprocess.TimeoutExpired as error:
        raise ClusterError(f"{' '.join(arguments[:6])}: not done within {timeout:.0f} s") from error
    if done.returncode != 0:
        said = "\n".join((done.stderr or done.stdout).strip().splitlines()[-LOG_LINES_SHOWN:])
        raise ClusterError(f"{' '.join(arguments[:8])}: exit {done.returncode}\n{said}")
    return done.stdout


def follow(
    command: Sequence[str | Path],
    log: Path,
    heed: Callable[[str], None],
    *,
    timeout: float,
    environment: Mapping[str, str] | None = None,
) -> None:
    """Run a long command to its end, and look at each line that it prints as it comes.

    Args:
        command: Program and arguments.
        log: Where to keep all that it prints.
        heed: Called with each line, without its end.
        timeout: Seconds it may take.
        environment: Variables, instead of ours.

    Raises:
        ClusterError: It failed; the message holds the end of what it said, and where the rest is.
    """
    arguments = [str(word) for word in command]
    began = time.monotonic()
    log.parent.mkdir(parents=True, exist_ok=True)
    try:
        process = subprocess.Popen(
            arguments,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            errors="replace",
            env=environment,
        )
    except FileNotFoundError as error:
        raise ClusterError(f"{arguments[0]}: no such program") from error
    limit = threading.Timer(timeout, process.kill)
    limit.start()
    try:
        with process, log.open("w") as kept:
            for line in process.stdout or ():
                kept.write(line)
                heed(line.rstrip("\n"))
    except BaseException:
        process.kill()
        raise
    finally:
        limit.cancel()
    if process.returncode != 0:
        late = process.returncode < 0 and time.monotonic() - began >= timeout
        how = f"not done within {timeout:.0f} s" if late else f"exit {process.returncode}"
        raise ClusterError(f"{' '.join(arguments[:8])}: {how}\n{_end_of(log)}")


@dataclass(frozen=True)
class Component:
    """A long-running program of the cluster, such as the API server or a kubelet."""

    layout: Layout
    name: str
    command: Sequence[str] = ()

    @classmethod
    def load(cls, layout: Layout, name: str) -> Component:
        """Return a component as it was last started.

        Raises:
            ClusterError: No component of this name was ever started.
        """
        path = layout.components / f"{name}.json"
        if not path.exists():
            known = ", ".join(sorted(p.stem for p in layout.components.glob("*.json")))
            raise ClusterError(f"there is no component {name!r}; known: {known or 'none'}")
        return cls(layout, name, json.loads(path.read_text())["command"])

    @property
    def log(self) -> Path:
        """Where its output goes."""
        return self.layout.logs / f"{self.name}.log"

    @property
    def cgroup(self) -> str:
        """Its cgroup, relative to the root."""
        return f"{cgroups.components_cgroup()}/{self.name}"

    def start(self) -> None:
        """Start it inside the namespace; returns at once.

        Raises:
            ClusterError: It could not even be launched.
        """
        record = self.layout.components / f"{self.name}.json"
        record.write_text(json.dumps({"command": list(self.command)}))
        directories = " ".join(str(path) for path in cgroups.create(self.cgroup))
        with self.log.open("ab") as log:
            launched = subprocess.run(
                ["/bin/sh", "-c", _LAUNCHER, "sh", directories, *network.enter_command(), *self.command],
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                cwd=self.layout.state,
                env=network.environment_inside(),
                start_new_session=True,
                check=False,
            )
        if launched.returncode != 0:
            raise ClusterError(f"{self.name} could not be launched\n{self.log_tail()}")

    def processes(self) -> list[int]:
        """Return the ids of its processes, oldest first; shims count as containerd's."""
        return sorted(cgroups.processes(self.cgroup))

    def main_process(self) -> int | None:
        """Return the id of the program itself, without what it left behind."""
        program = Path(self.command[0]).name
        for pid in self.processes():
            try:
                words = Path(f"/proc/{pid}/cmdline").read_bytes().split(b"\0")
            except (FileNotFoundError, ProcessLookupError):
                continue
            if Path(os.fsdecode(words[0])).name == program:
                return pid
        return None

    def check_alive(self) -> None:
        """Raise with the end of its log if it has died."""
        # Not by `main_process`: in the middle of an exec a process has no command line for a moment.
        if all(_program(pid).startswith(_LEFT_BEHIND) for pid in self.processes()):
            raise ClusterError(f"{self.name} has died\n{self.log_tail()}")

    def wait_ready(self, check: Callable[[], bool], seconds: float = 180) -> None:
        """Wait until the component answers.

        Raises:
            ClusterError: It died or did not answer in time; the message holds the end of its log.
        """
        try:
            wait_until(check, f"{self.name} does not answer", seconds, self.check_alive)
        except ClusterError as error:
            if str(error).startswith(f"{self.name} has died"):
                raise
            raise ClusterError(f"{error}\n{self.log_tail()}") from error

    def kill(self, seconds: float = 10) -> None:
        """Kill the program itself with SIGKILL and wait until it is gone; its pods stay."""
        pid = self.main_process()
        if pid is None:
            return
        send_signal(pid, signal.SIGKILL)
        wait_until(lambda: pid not in self.processes(), f"{self.name} does not die", seconds)

    def log_tail(self) -> str:
        """Return the last lines of its log."""
        if not self.log.exists():
            return "(it has no log)"
        return _end_of(self.log)


def send_signal(pid: int, number: signal.Signals) -> None:
    """Signal a process; one that is gone already is as good."""
    try:
        os.kill(pid, number)
    except ProcessLookupError:
        return


def _end_of(log: Path) -> str:
    lines = log.read_text(errors="replace").splitlines()[-LOG_LINES_SHOWN:]
    return "\n".join([f"--- end of {log}", *(f"    {line[:400]}" for line in lines)])


def _program(pid: int) -> str:
    try:
        return Path(f"/proc/{pid}/comm").read_text().strip()
    except (FileNotFoundError, ProcessLookupError):
        return ""
