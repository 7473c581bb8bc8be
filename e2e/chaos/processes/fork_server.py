"""A fork server: it has imported all that a program imports, and each process of that program is a fork of it.

A process of its own in every other way: its memory ends with it, and SIGKILL leaves nothing behind. On two processors
that many share, importing alone would take longer than everything that is tested. The command line names the program.
Orders come on standard input, one JSON object a line, with `arguments`, `environment`, the file `log` and `first`, a
statement that comes before the program. Answers are `started PID` and `ended PID CODE`.

The operator's wall clock jumps on demand: SIGUSR1 sets it an hour ahead, SIGUSR2 an hour back.
"""

from __future__ import annotations

import contextlib
import gc
import json
import os
import select
import signal
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from e2e.chaos.processes.parent_death import die_with_parent

PLUGINS = Path(__file__).parents[1] / "plugins"
"""Where the operators find packages of other people."""
Order = dict[str, Any]
Run = Callable[[Order], int]
"""Runs the program in a process that has just been forked; returns the exit code."""


def main() -> None:
    """Takes orders until standard input ends."""
    run = _PROGRAMS[sys.argv[1]]()
    gc.freeze()  # or collections would copy the pages that forks share
    wake, woken = os.pipe2(os.O_NONBLOCK | os.O_CLOEXEC)
    signal.set_wakeup_fd(woken)
    signal.signal(signal.SIGCHLD, lambda *_: None)
    rest = b""
    children: set[int] = set()
    while True:
        ready, _, _ = select.select([0, wake], [], [])
        if wake in ready:
            with contextlib.suppress(BlockingIOError):
                os.read(wake, 4096)
            _reap(children)
        if 0 in ready:
            data = os.read(0, 1 << 16)
            if not data:
                _end_all(children)
                return
            *lines, rest = (rest + data).split(b"\n")
            for line in lines:
                _start(json.loads(line), run, children)


def _import_operator() -> Run:
    import kopf._core.reactor.running  # noqa: F401 - what would be imported late
    import kubernetes.aio  # noqa: F401
    import optuna  # noqa: F401
    from kubernetes.aio.config import kube_config

    from podtune.app import main as operator

    sys.path.append(str(PLUGINS))

    def run(order: Order) -> int:
        kube_config.KUBE_CONFIG_DEFAULT_LOCATION = order["environment"]["KUBECONFIG"]  # else that of the import
        _turn_clock_on_signals()
        operator.main()
        return 0

    return run


def _import_agent() -> Run:
    import podtune.storage.s3.client  # noqa: F401 - what would be imported late
    from podtune.agent import main as agent
    from podtune.agent.checkpoints import lazy_store
    from podtune.process_start import begin_process
    from podtune.storage.stores import make_store

    # Another process would import all of it once more, for one request that is the same from here.
    lazy_store.check_elsewhere = lambda address: make_store(address).check()

    def run(order: Order) -> int:
        begin_process(holds_signals_back=True)
        return agent.main(order["arguments"])

    return run


_PROGRAMS: dict[str, Callable[[], Run]] = {"operator": _import_operator, "agent": _import_agent}


def _start(order: Order, run: Run, children: set[int]) -> None:
    sys.stdout.flush()
    pid = os.fork()
    if pid:
        children.add(pid)
        print(f"started {pid}", flush=True)
        return
    die_with_parent()
    signal.set_wakeup_fd(-1)
    signal.signal(signal.SIGCHLD, signal.SIG_DFL)
    os.environ.clear()
    os.environ.update(order["environment"])
    file = os.open(order["log"], os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o644)
    null = os.open(os.devnull, os.O_RDONLY)
    for source, target in ((null, 0), (file, 1), (file, 2)):
        os.dup2(source, target)
    code = 1
    try:
        exec(order["first"])
        code = run(order)
    except SystemExit as end:
        code = end.code if isinstance(end.code, int) else 1
    finally:
        os._exit(code)


def _reap(children: set[int]) -> None:
    while True:
        try:
            pid, status = os.waitpid(-1, os.WNOHANG)
        except ChildProcessError:
            return
        if pid == 0:
            return
        children.discard(pid)
        print(f"ended {pid} {os.waitstatus_to_exitcode(status)}", flush=True)


def _end_all(children: set[int]) -> None:
    """Nobody is left who could want them."""
    for pid in children:
        with contextlib.suppress(ProcessLookupError):
            os.kill(pid, signal.SIGKILL)


def _turn_clock_on_signals() -> None:
    offset = 0.0
    real = time.time

    def turned() -> float:
        return real() + offset

    def turn(number: int, _: object) -> None:
        nonlocal offset
        offset += 3600.0 if number == signal.SIGUSR1 else -3600.0

    signal.signal(signal.SIGUSR1, turn)
    signal.signal(signal.SIGUSR2, turn)
    time.time = turned


if __name__ == "__main__":
    main()
