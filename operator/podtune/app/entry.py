"""Where the operator's process begins: with the signals by which the kubelet asks a container to end."""

from __future__ import annotations

from podtune.process_start import begin_process


def start_operator() -> None:
    """Runs the command `podtune-operator`, as `podtune.app.main.main` does."""
    begin_process()
    from podtune.app.main import main  # noqa: PLC0415 - takes a while, and signals are listened to first

    main()


if __name__ == "__main__":
    start_operator()
