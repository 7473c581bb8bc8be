"""Where the process of the agent begins: with its signals, for the rest takes a while to import."""

from __future__ import annotations

import sys

from podtune.agent import signals


def start() -> int:
    """Runs the command `podtune-agent`; returns the exit code."""
    signals.hold_back()
    from podtune.agent.main import main  # noqa: PLC0415 - not before the signals are held back

    return main()


if __name__ == "__main__":
    sys.exit(start())
