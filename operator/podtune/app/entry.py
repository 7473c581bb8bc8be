"""Where the operator's process begins: with the signals by which the kubelet asks a container to end.

In a container the operator is process 1. Until such a process says what a signal means to it, the signal does nothing:
the kubelet would wait for the pod's whole grace period, and a rollout with it. Importing the operator takes a second,
on a busy node several, and in that time it can end at once: nothing is begun yet.
"""

from __future__ import annotations

import os
import signal
from types import FrameType

END_SIGNALS_OF_OPERATOR = (signal.SIGTERM, signal.SIGINT)


def _end_at_once(number: int, frame: FrameType | None) -> None:  # noqa: ARG001 - what a handler is given
    """Ends the process in good order, without an exception in the middle of an import."""
    os._exit(0)


def start_operator() -> None:
    """Runs the command `podtune-operator`, as `podtune.app.main.main` does."""
    for number in END_SIGNALS_OF_OPERATOR:
        signal.signal(number, _end_at_once)
    from podtune.app.main import main  # noqa: PLC0415 - takes a while, and signals are listened to first

    main()


if __name__ == "__main__":
    start_operator()
