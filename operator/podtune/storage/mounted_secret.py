"""A mounted Secret, read anew for each use, so that a corrected or renewed one reaches running agents.

The kubelet brings a mounted Secret up to date within about a minute, all its keys in one step: the files are in a
directory that the link `..data` points to, and it is the link that is replaced. What is read through that directory
belongs together.
"""

from __future__ import annotations

import os
from collections.abc import Iterable
from pathlib import Path

_CURRENT = "..data"
_MAX_BYTES = 1 << 14  # session tokens and keys of service accounts have a few KiB


def read_secret(directory: Path, keys: Iterable[str]) -> dict[str, str]:
    """The values of some keys of a Secret, without white space at their ends; empty for those that are missing."""
    try:
        current = _open_current(directory)
    except OSError:
        return dict.fromkeys(keys, "")
    try:
        return {key: _read_value(key, current) for key in keys}
    finally:
        os.close(current)


def _open_current(directory: Path) -> int:
    flags = os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC
    try:
        return os.open(directory / _CURRENT, flags)
    except FileNotFoundError:  # mounted by something other than a kubelet
        return os.open(directory, flags)


def _read_value(key: str, directory: int) -> str:
    """A key's value; the newline that `--from-file` leaves at the end is no part of it."""
    try:
        file = os.open(key, os.O_RDONLY | os.O_CLOEXEC, dir_fd=directory)
    except OSError:
        return ""
    try:
        return os.read(file, _MAX_BYTES).decode("utf-8", "replace").strip()
    finally:
        os.close(file)
