"""Where the dashboard's process begins: with the signals by which the kubelet asks a container to end."""

from __future__ import annotations

from podtune.process_start import begin_process


def start_dashboard() -> int:
    """Runs the command `podtune-dashboard`; returns the exit code."""
    begin_process()
    from podtune.dashboard.main import main  # noqa: PLC0415 - takes a while, and signals are listened to first

    return main()
