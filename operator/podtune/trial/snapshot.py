"""Files of two users, and the handing of a checkpoint to the agent: a copy that is whole, that nobody writes to, and that the agent can read.

The agent runs as another user than the program. So the copy's files are readable for everyone whatever the
program's umask was, and its directories are writable for everyone: it is the agent that deletes the copy once it is
stored, and deleting takes the right to write to the directory. Nobody outside of the pod sees the volume.
"""

from __future__ import annotations

import os
import shutil
import stat
from pathlib import Path

DIRECTORY_MODE = 0o777
FILE_MODE = 0o644


def take_snapshot(source: Path, checkpoints: Path, name: str | None = None) -> str:
    """Copies a checkpoint directory below `checkpoints`, and leaves the original as it is.

    The copy appears under its final name only when it is whole. Symbolic links are followed.

    Args:
        source: The directory that holds the checkpoint's files.
        checkpoints: The directory that the agent takes checkpoints from; made where it is missing.
        name: Name of the copy; a fresh one when None.

    Returns:
        The copy's name.

    Raises:
        NotADirectoryError: `source` is no directory.
        ValueError: `source` holds something other than files and directories, such as a socket.
        OSError: It can't be copied.
    """
    if not source.is_dir():
        raise NotADirectoryError(f"checkpoint {str(source)!r} is not a directory; give the directory of its files")
    make_shared_directory(checkpoints)
    name = name or os.urandom(8).hex()
    unfinished = checkpoints / f".{name}"
    try:
        shutil.copytree(source, unfinished, copy_function=_copy_file)
        _share(unfinished)
        unfinished.rename(checkpoints / name)
    except BaseException:
        shutil.rmtree(unfinished, ignore_errors=True)
        raise
    return name


def make_shared_directory(path: Path) -> None:
    """Makes a directory that both users of the pod may write to, if it isn't there yet."""
    try:
        path.mkdir()
    except FileExistsError:
        return
    path.chmod(DIRECTORY_MODE)


def open_shared(path: Path, flags: int) -> int:
    """Opens a file, and makes it where it is missing so that both users of the pod may read and write it."""
    try:
        file = os.open(path, flags | os.O_CREAT | os.O_EXCL, 0o666)
    except FileExistsError:
        return os.open(path, flags | os.O_NOFOLLOW)
    os.fchmod(file, 0o666)  # whatever the umask
    return file


def _copy_file(source: str, destination: str) -> None:
    mode = Path(source).stat().st_mode
    if not stat.S_ISREG(mode):  # copying from a pipe would wait for ever
        raise ValueError(f"checkpoint holds {source!r}, which is not a regular file; leave it out")
    shutil.copyfile(source, destination)


def _share(directory: Path) -> None:
    directory.chmod(DIRECTORY_MODE)
    for path in directory.rglob("*"):
        path.chmod(DIRECTORY_MODE if path.is_dir() else FILE_MODE)
