"""Handing a checkpoint to the agent: a copy that is whole, that nobody writes to, and that the agent can read.

The copy's files are readable for everyone whatever the program's umask was, and its directories are writable for
everyone: it is the agent that deletes the copy once it is stored, and deleting takes the right to write to the
directory.
"""

from __future__ import annotations

import os
import shutil
import stat
from pathlib import Path

from podtune.trial.sharing import DIRECTORY_MODE, make_shared_directory

_FILE_MODE = 0o644


def copy_checkpoint(source: Path, checkpoints: Path) -> str:
    """Copies a checkpoint directory below `checkpoints`, and leaves the original as it is.

    The copy appears under its final name only when it is whole. Symbolic links are followed.

    Args:
        source: The directory that holds the checkpoint's files.
        checkpoints: The directory that the agent takes checkpoints from; made where it is missing.

    Returns:
        The copy's name, a fresh one.

    Raises:
        NotADirectoryError: `source` is no directory.
        ValueError: `source` holds something other than files and directories, such as a socket.
        OSError: It can't be copied.
    """
    if not source.is_dir():
        raise NotADirectoryError(f"checkpoint {str(source)!r} is not a directory; give the directory of its files")
    make_shared_directory(checkpoints)
    name = os.urandom(8).hex()
    unfinished = checkpoints / f".{name}"
    try:
        shutil.copytree(source, unfinished, copy_function=_copy_file)
        _open_for_agent(unfinished)
        unfinished.rename(checkpoints / name)
    except BaseException:
        shutil.rmtree(unfinished, ignore_errors=True)
        raise
    return name


def _copy_file(source: str, destination: str) -> None:
    mode = Path(source).stat().st_mode
    if not stat.S_ISREG(mode):  # copying from a pipe would wait for ever
        raise ValueError(f"checkpoint holds {source!r}, which is not a regular file; leave it out")
    shutil.copyfile(source, destination)


def _open_for_agent(directory: Path) -> None:
    directory.chmod(DIRECTORY_MODE)
    for path in directory.rglob("*"):
        path.chmod(DIRECTORY_MODE if path.is_dir() else _FILE_MODE)
