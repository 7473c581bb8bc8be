"""Where the process of the agent begins: with the signals by which the kubelet asks a container to end.

They are held back from the start, and each command then defines what they mean to it.
"""

from __future__ import annotations

import os
import signal
import sys

from podtune.process_start import END_SIGNALS, begin_process
from podtune.protocol import agent_environment


def wait(seconds: float) -> bool:
    """Waits up to so many seconds; returns whether the end was asked for."""
    return signal.sigtimedwait(END_SIGNALS, seconds) is not None


def end_at_once() -> None:
    """Has the signals end the process, those that were held back too: whatever it does can be begun again."""
    for number in END_SIGNALS:
        signal.signal(number, lambda received, _: os._exit(128 + received))
    signal.pthread_sigmask(signal.SIG_UNBLOCK, END_SIGNALS)


def start() -> int:
    """Runs the command `podtune-agent`; returns the exit code."""
    match sys.argv[1:]:
        case [agent_environment.COPY_MODULE, directory]:  # a program waits for it, so nothing else is loaded
            from podtune.agent import module_copy  # noqa: PLC0415

            return module_copy.run(directory)
    begin_process(holds_signals_back=True)
    from podtune.agent.main import main  # noqa: PLC0415 - takes a while, and the signals are held back first

    return main()


if __name__ == "__main__":
    sys.exit(start())
