"""What survives the agent: the termination message with the final commit, and results in its own log."""

from __future__ import annotations

import os
from collections.abc import Iterable
from pathlib import Path
from typing import TextIO

from podtune.protocol.messages import MAX_REPORTED_MESSAGE, UNACKED_PREFIX, FinalCommit, Result, encode_result


class TerminationLog:
    """The file that the kubelet reads when the container has ended.

    It is a mount of its own, so it can't be replaced, only overwritten. Each text is written over the one before,
    whoever wrote that, and filled up with spaces to its length: killed at any moment, the file still holds a whole
    final commit.
    """

    def __init__(self, path: Path) -> None:
        self._path = path

    def write(self, commit: FinalCommit) -> None:
        """Writes the final commit as it is now; the last one written counts.

        Raises:
            OSError: It can't be written.
        """
        file = os.open(self._path, os.O_WRONLY | os.O_CREAT | os.O_CLOEXEC, 0o644)
        try:
            text = commit.to_json().ljust(os.fstat(file).st_size)
            os.pwrite(file, text.encode("ascii"), 0)
        finally:
            os.close(file)


def write_reason(path: Path, reason: str) -> None:
    """Has the kubelet put the reason of a failure into the pod's status.

    Raises:
        OSError: It can't be written.
    """
    path.write_text(reason[:MAX_REPORTED_MESSAGE], encoding="utf-8")


def print_results(results: Iterable[Result], stream: TextIO) -> int:
    """Prints results that the operator may still miss, one a line, where it can find them; returns how many."""
    count = 0
    for result in results:
        stream.write(f"{UNACKED_PREFIX}{encode_result(result)}\n")
        count += 1
    stream.flush()
    return count
