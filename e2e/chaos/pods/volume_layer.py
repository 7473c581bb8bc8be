"""Between an agent and the file system of its store: `os`, as the store uses it, asks before each call on the volume.

A directory of this machine stands for the volume. Below this layer all is real: what fails halfway leaves half a file.
"""

from __future__ import annotations

import functools
import json
import os
import shutil  # noqa: F401 - looks at `os` when it is imported, and must find it as it is
import socket
import stat
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

BEFORE, AFTER, HALFWAY, THEN_WAIT = "before", "after", "halfway", "then-wait"
"""When a call fails; or that the process waits to be killed after it."""
EMPTY, FLIPPED = "empty", "flipped"
"""What becomes of the bytes that are read."""
_LIVES_ON = 60.0
"""Seconds in which a process is killed that waits for it."""
Answer = dict[str, Any]


def install(directory: str, server: str) -> None:
    """Puts itself between this process and the volume.

    Args:
        directory: Where the volume is.
        server: The Unix socket of `VolumeFaults`.
    """
    layer = _Layer(os.path.realpath(directory), server)
    for name in ("open", "pwrite", "pread", "fsync", "rename", "unlink", "scandir"):
        setattr(
            os, name, functools.partial(layer.call, name, getattr(os, name), find_path=getattr(layer, f"of_{name}"))
        )


class _Layer:
    def __init__(self, directory: str, server: str) -> None:
        self._directory = directory
        self._server = server
        self._own = threading.local()

    def call(
        self, name: str, real: Callable[..., Any], *arguments: Any, find_path: Callable[..., str], **options: Any
    ) -> Any:
        """Makes a call, as it is told."""
        path = find_path(*arguments, **options)
        if not path.startswith(f"{self._directory}/"):
            return real(*arguments, **options)
        creates = name == "open" and arguments[1] & os.O_CREAT
        answer = self._ask("create" if creates else name, path)
        when = answer.get("when")
        if when == HALFWAY and name == "pwrite":
            file, data, position = arguments
            real(file, data[: len(data) // 2], position)
        if when in (BEFORE, HALFWAY):
            raise OSError(answer["errno"], os.strerror(answer["errno"]))
        done = real(*arguments, **options)
        if when == AFTER:
            raise OSError(answer["errno"], os.strerror(answer["errno"]))
        if when == THEN_WAIT:
            self._own.talk.sendall(b"done\n")
            time.sleep(_LIVES_ON)
            raise AssertionError("it was to be killed")
        return _spoil(done, answer)

    # The path that a call is about; empty where it is about none that counts.

    def of_open(self, path: Any, flags: int, mode: int = 0o777, *, dir_fd: int | None = None) -> str:
        """Of folders alone nothing is asked: each path is opened level by level."""
        return "" if flags & os.O_DIRECTORY or dir_fd is None else f"{_path_of(dir_fd)}/{path}"

    def of_pwrite(self, file: int, data: Any, position: int) -> str:
        return _path_of(file)

    def of_pread(self, file: int, size: int, position: int) -> str:
        return _path_of(file)

    def of_fsync(self, file: int) -> str:
        return "" if stat.S_ISDIR(os.fstat(file).st_mode) else _path_of(file)

    def of_rename(self, old: Any, new: Any, *, src_dir_fd: int | None = None, dst_dir_fd: int | None = None) -> str:
        return "" if dst_dir_fd is None else f"{_path_of(dst_dir_fd)}/{new}"

    def of_unlink(self, path: Any, *, dir_fd: int | None = None) -> str:
        return "" if dir_fd is None else f"{_path_of(dir_fd)}/{path}"

    def of_scandir(self, path: Any = ".") -> str:
        return f"{_path_of(path)}/" if isinstance(path, int) else ""

    def _ask(self, operation: str, path: str) -> Answer:
        if not hasattr(self._own, "talk"):
            self._own.talk = socket.socket(socket.AF_UNIX)
            self._own.talk.connect(self._server)
            self._own.answers = self._own.talk.makefile("rb")
        question = {"operation": operation, "path": path.removeprefix(self._directory)}
        self._own.talk.sendall(json.dumps(question).encode() + b"\n")
        line = self._own.answers.readline()
        if not line:
            raise OSError(5, "the harness has gone, or is about to kill this process")
        answer: Answer = json.loads(line)
        return answer


def _path_of(file: int) -> str:
    return str(Path(f"/proc/self/fd/{file}").readlink()).removesuffix(" (deleted)")


def _spoil(data: Any, answer: Answer) -> Any:
    match answer.get("spoil"):
        case _ if not isinstance(data, bytes) or not data:
            return data
        case spoilt if spoilt == EMPTY:
            return b""
        case spoilt if spoilt == FLIPPED:
            place = answer["place"] % (8 * len(data))
            copy = bytearray(data)
            copy[place // 8] ^= 1 << place % 8
            return bytes(copy)
    return data
