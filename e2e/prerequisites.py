"""Makes sure of what the virtual environment itself needs, on a machine that may be bare.

Runs on the system's own Python, before anything is installed.
"""

from __future__ import annotations

import importlib.util
import os
import shutil
import subprocess
import sys

OLDEST_PYTHON = (3, 11)
PACKAGES = ["python3-venv", "ca-certificates"]


def main() -> None:
    """Checks the Python, and installs the venv module where Debian has left it out."""
    if sys.version_info < OLDEST_PYTHON:
        found = ".".join(map(str, sys.version_info[:3]))
        sys.exit(
            f"error: Python {found} is too old, 3.11 is the oldest that works; name another: make PYTHON=python3.12"
        )
    if importlib.util.find_spec("ensurepip") is not None:
        return
    if shutil.which("apt-get") is None or os.geteuid() != 0:
        sys.exit(f"error: Python's venv module is missing; install it, on Debian: apt-get install {' '.join(PACKAGES)}")
    subprocess.run(["apt-get", "update", "-qq"], check=True)
    environment = {**os.environ, "DEBIAN_FRONTEND": "noninteractive"}
    subprocess.run(["apt-get", "install", "-y", "-qq", *PACKAGES], check=True, env=environment)


if __name__ == "__main__":
    main()
