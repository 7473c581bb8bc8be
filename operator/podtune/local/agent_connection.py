"""How the agent beside a program here talks with the runner: by a queue, in the place of the results server."""

from __future__ import annotations

import threading
import time
from collections import deque
from collections.abc import Callable, Iterator
from concurrent.futures import Future
from contextlib import contextmanager
from pathlib import Path
from typing import BinaryIO

from podtune.agent.delivery.operator_client import Fenced, LogRequest, OperatorError
from podtune.agent.logs.line_clipper import LineClipper
from podtune.protocol.messages import Reply, Report
from podtune.runner.experiment_machine import Unaccepted

_PATIENCE = 60.0
"""Seconds that a reply may take: a searcher that thinks keeps reports waiting."""
_POLL = 0.05
_CHUNK = 1 << 16

PostReport = Callable[[Report], "Future[Reply | Unaccepted]"]


class AgentConnection:
    """An agent's connection; see `OperatorConnection`."""

    def __init__(self, post: PostReport, output: Path, has_ended: threading.Event, is_over: threading.Event) -> None:
        """Makes a connection.

        Args:
            post: Hands a report to the runner.
            output: What the program prints.
            has_ended: Is set when the program has ended.
            is_over: Is set when its attempt has: nothing more is to be said of it.
        """
        self._post = post
        self._output = output
        self._has_ended = has_ended
        self._is_over = is_over
        self._position = 0
        self._clipper = LineClipper()
        self._lines: deque[bytes] = deque()
        """Lines that were read, and that nobody has taken yet."""
        self._stamp = 0
        self._is_interrupted = False

    def post(self, report: Report) -> Reply:
        """See `OperatorClient.post`."""
        if self._is_over.is_set():
            raise Fenced("the attempt is over")
        try:
            answer = self._post(report).result(_PATIENCE)
        except TimeoutError as error:
            raise OperatorError(f"the runner has not answered within {_PATIENCE:g} s") from error
        match answer:
            case Reply():
                return answer
            case Unaccepted.FENCED | Unaccepted.FOLLOWS:
                raise Fenced("this attempt is not the trial's current one")
            case Unaccepted.TOO_EARLY:
                raise OperatorError("the pod has not been seen yet")
            case _:
                raise OperatorError("a checkpoint's uri does not lie below the trial's own prefix")

    @contextmanager
    def stream_log(self, request: LogRequest, is_over: Callable[[], bool]) -> Iterator[Iterator[bytes]]:
        """See `OperatorClient.stream_log`; goes on where the last stream was left."""
        self._is_interrupted = False
        try:
            with self._output.open("rb") as file:
                yield self._read_lines(file, request, lambda: self._is_interrupted or is_over())
        except OSError as error:
            raise OperatorError(f"the program's output can't be read: {error}") from error

    def interrupt_log(self) -> None:
        """See `OperatorClient.interrupt_log`."""
        self._is_interrupted = True

    def _read_lines(self, file: BinaryIO, request: LogRequest, is_over: Callable[[], bool]) -> Iterator[bytes]:
        """The lines that nobody has taken yet, each with a time of its own."""
        file.seek(self._position)
        while True:
            has_ended = self._has_ended.is_set() or not request.follow
            data = file.read(_CHUNK)
            self._position = file.tell()
            self._lines += self._clipper.feed(data)
            if not data and has_ended:
                self._lines += self._clipper.finish()
            while self._lines:
                yield self._stamp_line(self._lines.popleft())
            if not data:
                if has_ended or is_over():
                    return
                self._has_ended.wait(_POLL)

    def _stamp_line(self, line: bytes) -> bytes:
        self._stamp = max(time.time_ns(), self._stamp + 1)
        seconds, nanoseconds = divmod(self._stamp, 10**9)
        moment = time.strftime("%Y-%m-%dT%H:%M:%S", time.gmtime(seconds))
        return f"{moment}.{nanoseconds:09d}Z ".encode() + line
