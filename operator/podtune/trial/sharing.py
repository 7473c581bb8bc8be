"""Files that both users of a pod work on: the training program's and the agent's.

The two run under different user ids, and each may have any umask. Nobody outside of the pod sees the volume, so the
shared things in it are open to everyone.
"""

from __future__ import annotations

import os
from pathlib import Path

DIRECTORY_MODE = 0o777
FILE_MODE = 0o666


def open_shared(path: Path, flags: int) -> int:
    """Opens a file, and makes it where it is missing so that both users may read and write it.

    Raises:
        OSError: It can't be opened, or is a symbolic link.
    """
    try:
        file = os.open(path, flags | os.O_CREAT | os.O_EXCL, FILE_MODE)
    except FileExistsError:
        return os.open(path, flags | os.O_NOFOLLOW)
    os.fchmod(file, FILE_MODE)
    return file


def make_shared_directory(path: Path) -> None:
    """Makes a directory that both users may write to, if it isn't there yet."""
    try:
        path.mkdir()
    except FileExistsError:
        return
    path.chmod(DIRECTORY_MODE)
