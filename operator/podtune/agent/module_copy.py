"""A copy of `podtune.trial` for programs whose image does not have it.

The package `podtune` in the copy has no `__init__.py`. So Python takes it for a namespace, looks on, and prefers a
`podtune` that is installed, even where that comes later on its path.
"""

from __future__ import annotations

import os
import sys
from contextlib import suppress
from pathlib import Path

from podtune.storage.directory import Directory
from podtune.trial import layout

_UNFINISHED = f".{layout.SITE_PACKAGES}"
_SOURCE = Path(layout.__file__).parent
_DIRECTORY_MODE, _FILE_MODE = 0o755, 0o644
"""The program is another user, who may only read them."""


def copy_module(directory: Directory) -> None:
    """Makes the copy, as a whole and once: an agent that is started again leaves it to the program that uses it.

    Raises:
        OSError: It can't be written.
    """
    with suppress(FileNotFoundError):
        directory.stat(layout.SITE_PACKAGES)
        return
    directory.remove(_UNFINISHED)
    place = directory
    for name in (_UNFINISHED, "podtune", "trial"):
        place = place.join(name)
        place.make(_DIRECTORY_MODE)
    for source in _SOURCE.glob("*.py"):
        with place.make_file(source.name, _FILE_MODE) as file, os.fdopen(file, "wb", closefd=False) as stream:
            stream.write(source.read_bytes())
    directory.rename(_UNFINISHED, layout.SITE_PACKAGES)


def run(directory: str) -> int:
    """The command that the kubelet runs before the program; returns the exit code."""
    try:
        copy_module(Directory(Path(directory)))
    except OSError as error:
        print(f"podtune.trial can't be copied to {directory}: {error}", file=sys.stderr)
        return os.EX_TEMPFAIL
    return 0
