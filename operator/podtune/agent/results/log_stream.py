"""The thread that reads results from the program's standard output.

The image's command stays unchanged: its output is read from the kubelet's log, through the operator.
"""

from __future__ import annotations

import threading
from collections.abc import Iterator
from random import Random

from podtune.agent.delivery.operator_client import Fenced, OperatorClient, OperatorError
from podtune.agent.event_log import EventLog, LogThrottle
from podtune.agent.results.result_reader import ResultReader
from podtune.agent.results.stdout_results import LogParser, LogPosition
from podtune.agent.state.attempt import Attempt
from podtune.agent.state.result_line import ResultLine
from podtune.storage.backoff import ExponentialBackoff

_FIRST_WAIT = 0.25
_LONGEST_WAIT = 5.0
PAUSE = 1.0
"""Seconds between two streams when one has ended though the program has not."""


class LogStream(threading.Thread):
    """Follows the log until it has been read to its end after the program has ended.

    Attributes:
        is_finished: Whether that is so; hold `changed`.
    """

    def __init__(
        self,
        attempt: Attempt,
        *,
        parser: LogParser,
        result_reader: ResultReader,
        client: OperatorClient,
        log: EventLog,
        rng: Random,
    ) -> None:
        super().__init__(name="log-stream", daemon=True)
        self._attempt = attempt
        self._parser = parser
        self._result_reader = result_reader
        self._client = client
        self._log = log
        self._backoff = ExponentialBackoff(_FIRST_WAIT, _LONGEST_WAIT, rng)
        self._failures = LogThrottle()
        self._position = LogPosition()
        self._program_ended = False
        self.is_finished = False

    def finish(self) -> None:
        """The program has ended: what the log holds now is all there is."""
        with self._attempt.changed:
            self._program_ended = True
            self._attempt.changed.notify_all()

    def run(self) -> None:
        """Reads one stream after the other."""
        while not self.is_finished:
            ended_before = self._program_ended
            try:
                self._read_stream()
            except Fenced:
                return  # the sender hears of it, too
            except OperatorError as error:
                if self._failures.should_log():
                    self._log.warning("log stream failed", message=str(error), failures=self._failures.count)
                self._wait(self._backoff.draw_wait())
                continue
            self._backoff.reset()
            # A stream can end because the program has, or because a log was rotated or a proxy was tired. Only one
            # that was begun after the program had ended, and ended itself, has surely shown all.
            if ended_before:
                self._take(self._parser.finish())
            with self._attempt.changed:
                self.is_finished = ended_before
                self._attempt.changed.notify_all()
            if not ended_before:
                self._wait(PAUSE)

    def _read_stream(self) -> None:
        self._position.restart()
        with self._client.stream_log(self._position.since) as lines:
            for line in lines:
                text = self._position.take(line)
                if text is not None:
                    self._take(self._parser.take(text))

    def _take(self, results: Iterator[ResultLine]) -> None:
        for result in results:
            with self._attempt.changed:
                self._attempt.changed.wait_for(lambda: not self._attempt.outbox.is_full)
            self._result_reader.take(result)

    def _wait(self, seconds: float) -> None:
        """Waits, but not on once the program has ended; after that it is only a short breath."""
        with self._attempt.changed:
            if self._program_ended:
                seconds = min(seconds, _FIRST_WAIT)
                self._attempt.changed.wait_for(lambda: self._attempt.fenced, seconds)
            else:
                self._attempt.changed.wait_for(lambda: self._program_ended or self._attempt.fenced, seconds)
