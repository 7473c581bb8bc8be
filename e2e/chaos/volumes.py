"""The files of the pods whose agent is real, below one directory; a volume may be a file system of its own."""

from __future__ import annotations

import shutil
import subprocess
import tempfile
from pathlib import Path


def home() -> Path:
    """The directory of all pods' files."""
    found = Path(tempfile.gettempdir()) / "podtune-chaos-pods"
    found.mkdir(exist_ok=True)
    return found


def mount(directory: Path, size: int) -> None:
    """Makes a directory a volume of a size, which needs root, as the local cluster does."""
    subprocess.run(["mount", "-t", "tmpfs", "-o", f"size={size}", "podtune-chaos", directory], check=True)


def remove(directory: Path) -> None:
    """Removes a directory with all in it, volumes included."""
    for line in Path("/proc/self/mounts").read_text().splitlines():
        place = Path(line.split()[1])
        if place.is_relative_to(directory):
            subprocess.run(["umount", "--lazy", place], check=True)
    shutil.rmtree(directory, ignore_errors=True)
