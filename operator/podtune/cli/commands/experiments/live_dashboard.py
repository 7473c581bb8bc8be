"""The dashboard of a run, in a process of its own for as long as the run lasts: pages never hold up a decision."""

from __future__ import annotations

import os
import subprocess
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from podtune.cli.errors import CliError
from podtune.cli.main import main


@contextmanager
def show_run(path: Path, port: int) -> Iterator[str]:
    """Serves a run's directory on loopback.

    Args:
        path: The directory.
        port: Where to listen; 0 for any free port.

    Yields:
        The address, which answers by then.

    Raises:
        CliError: It can't be served.
    """
    process = subprocess.Popen(
        [sys.executable, "-P", "-m", __name__, str(path), str(port)],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        start_new_session=True,  # Ctrl-C is for the run
    )
    with process:
        try:
            assert process.stdout is not None
            assert process.stderr is not None
            address = process.stdout.readline().strip()
            if not address:
                words = process.stderr.read().strip().rpartition("error: ")[2] or "it has ended at once"
                raise CliError(f"--dashboard {port}: {words}; then go on with `podtune run --resume {path}`")
            threading.Thread(target=process.stderr.read, daemon=True).start()  # a full pipe would hold it up
            yield address
        finally:
            process.kill()


def _end_with_parent() -> None:
    """Ends this process when the one that has started it closes its end of the pipe, or is gone."""
    sys.stdin.read()
    os._exit(0)  # at once: the orderly end waits for pages that are open


if __name__ == "__main__":
    threading.Thread(target=_end_with_parent, daemon=True).start()
    directory, listens_at = sys.argv[1:]
    sys.exit(main(["dashboard", directory, "--port", listens_at]))
