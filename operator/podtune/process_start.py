"""How operator, agent and dashboard begin in their containers, each before it imports what it needs.

There each is process 1. Until such a process says what a signal means to it, the signal does nothing: the kubelet would
wait for the pod's whole grace period, and a rollout with it. Imports take a second, on a busy node several.

A crash leaves no core dump: it would hold tokens, keys, and the bucket's credentials.

Standard library only: it is the first thing that is imported.
"""

from __future__ import annotations

import os
import resource
import signal
from types import FrameType

END_SIGNALS = (signal.SIGTERM, signal.SIGINT)
"""By which the kubelet, or a person, asks a process to end."""


def begin_process(*, holds_signals_back: bool = False) -> None:
    """Says what signals mean from now on, and forbids core dumps; to be called before there is any thread.

    Args:
        holds_signals_back: Whether the signals wait until somebody asks for them, with no handler that interrupts
            anything; threads inherit that. Otherwise they end the process at once, in good order: nothing is begun yet.
    """
    if holds_signals_back:
        signal.pthread_sigmask(signal.SIG_BLOCK, END_SIGNALS)
    else:
        for number in END_SIGNALS:
            signal.signal(number, _end_at_once)
    _forbid_core_dumps()


def _forbid_core_dumps() -> None:
    """Has the kernel write no core dump, neither to a file nor to a program.

    Where dumps go to a program (core_pattern begins with a pipe, as with systemd-coredump), the kernel takes no notice
    of a limit but 1, which ends the dump. No file can be as small. See core(5).
    """
    _, hard = resource.getrlimit(resource.RLIMIT_CORE)
    limit = 0 if hard == 0 else 1
    resource.setrlimit(resource.RLIMIT_CORE, (limit, limit))


def _end_at_once(number: int, frame: FrameType | None) -> None:  # noqa: ARG001 - what a handler is given
    """Ends the process without an exception in the middle of an import."""
    os._exit(0)
