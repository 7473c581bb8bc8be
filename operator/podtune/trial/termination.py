"""Has a program end on SIGTERM that is the first process of its container and says nothing of it itself.

For such a process the kernel passes over signals that it does not handle, so it would train on, and hold its GPU, until
the kubelet kills it. Any other process is ended by SIGTERM, and a handler of the program's own, set before or after,
is left alone.
"""

from __future__ import annotations

import os
import signal
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager

EXIT_CODE = 128 + signal.SIGTERM
FIRST_PROCESS = 1


class _Termination:
    """What is known of SIGTERM in this process.

    Attributes:
        has_begun: Whether it has come.
        is_reporting: Whether the main thread hands something over.
        is_due: Whether the program is to end as soon as that is done.
    """

    def __init__(self) -> None:
        self.has_begun = self.is_reporting = self.is_due = False

    def begin(self, *_: object) -> None:
        """The handler: ends the program as `sys.exit` does, so that it cleans up; a second changes nothing."""
        if self.has_begun:
            return
        self.has_begun = True
        if self.is_reporting:
            self.is_due = True
        else:
            sys.exit(EXIT_CODE)


_termination = _Termination()


def end_on_sigterm() -> None:
    """Sets the handler where nobody else sees to SIGTERM; processes that this one forks do not have it."""
    if os.getpid() != FIRST_PROCESS or threading.current_thread() is not threading.main_thread():
        return
    if signal.getsignal(signal.SIGTERM) is signal.SIG_DFL:
        signal.signal(signal.SIGTERM, _termination.begin)
        os.register_at_fork(after_in_child=_forget)


def is_ours(handler: object) -> bool:
    """Whether a handler is the one that was set here."""
    return handler == _termination.begin


def has_begun() -> bool:
    """Whether SIGTERM has come to the handler that was set here."""
    return _termination.has_begun


@contextmanager
def end_afterwards() -> Iterator[None]:
    """Has a result and its checkpoint handed over as a whole before the program ends."""
    if threading.current_thread() is not threading.main_thread():
        yield  # no handler interrupts it
        return
    _termination.is_reporting = True
    try:
        yield
    finally:
        _termination.is_reporting = False
        if _termination.is_due:
            _termination.is_due = False
            sys.exit(EXIT_CODE)


def _forget() -> None:
    """Workers of the program end as they would without us."""
    if is_ours(signal.getsignal(signal.SIGTERM)):
        signal.signal(signal.SIGTERM, signal.SIG_DFL)
