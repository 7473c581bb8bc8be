"""Where the dashboard's process begins: `podtune-dashboard`, which is `python -m podtune.dashboard`."""

from podtune.process_start import begin_process


def start_dashboard() -> int:
    """Runs the server; returns the exit code."""
    begin_process()
    from podtune.dashboard.main import main  # noqa: PLC0415 - takes a while, and signals are listened to first

    return main()


if __name__ == "__main__":
    raise SystemExit(start_dashboard())
