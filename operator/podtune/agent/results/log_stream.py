"""The thread that reads the program's output: results are looked for in it, or it is stored, or both.

The image's command stays unchanged: its output is read from the kubelet's log, through the operator.
"""

from __future__ import annotations

import threading
from collections.abc import Iterator
from random import Random

from podtune.agent.delivery.operator_client import Fenced, LogRequest, OperatorConnection, OperatorError
from podtune.agent.event_log import EventLog, LogThrottle
from podtune.agent.logs.log_recorder import LogRecorder
from podtune.agent.results.result_reader import ResultReader
from podtune.agent.results.stdout_results import LogParser, LogPosition
from podtune.agent.state.attempt import Attempt
from podtune.agent.state.result_line import ResultLine
from podtune.storage.backoff import ExponentialBackoff

_FIRST_WAIT = 0.25
_LONGEST_WAIT = 5.0
PAUSE = 1.0
"""Seconds between two streams when one has ended though the program has not."""
TAIL = 100
"""Lines that a log is gone on with from which some were left out."""


class ResultParser:
    """Puts the results that are found in lines into the attempt; waits while too many are on their way."""

    def __init__(self, attempt: Attempt, parser: LogParser, result_reader: ResultReader) -> None:
        self._attempt = attempt
        self._parser = parser
        self._result_reader = result_reader

    def take(self, text: str) -> None:
        """Takes the next line."""
        self._pass_on(self._parser.take(text))

    def finish(self) -> None:
        """Nothing follows."""
        self._pass_on(self._parser.finish())

    def _pass_on(self, results: Iterator[ResultLine]) -> None:
        for result in results:
            with self._attempt.changed:
                self._attempt.changed.wait_for(lambda: not self._attempt.outbox.is_full)
            self._result_reader.take(result)


class LogStream(threading.Thread):
    """Follows the log until it has been read to its end after the program has ended.

    Attributes:
        finds_results: Whether results are looked for.
        is_finished: Whether all was read; hold `changed`.
    """

    def __init__(
        self,
        attempt: Attempt,
        *,
        results: ResultParser | None,
        recorder: LogRecorder | None,
        client: OperatorConnection,
        log: EventLog,
        rng: Random,
        since: str = "",
    ) -> None:
        """Makes the thread.

        Args:
            attempt: The attempt whose program prints.
            results: Takes lines that may be results; None where they are not looked for.
            recorder: Takes lines to be stored; None where they are not.
            client: The operator; nobody else uses it.
            log: Where to tell of trouble.
            rng: Source of jitter.
            since: RFC 3339 time from which on the output is this attempt's; empty for all of it.
        """
        super().__init__(name="log-stream", daemon=True)
        self.finds_results = results is not None
        self._attempt = attempt
        self._results = results
        self._recorder = recorder
        self._client = client
        self._log = log
        self._backoff = ExponentialBackoff(_FIRST_WAIT, _LONGEST_WAIT, rng)
        self._failures = LogThrottle()
        self._position = LogPosition(since)
        self._program_ended = False
        self._has_skipped = False
        self._is_cancelled = False
        self.is_finished = False

    def cancel(self) -> None:
        """Nobody waits for the rest any more."""
        self._is_cancelled = True
        self._client.interrupt_log()

    def finish(self) -> None:
        """The program has ended: what the log holds now is all there is."""
        with self._attempt.changed:
            ended_before, self._program_ended = self._program_ended, True
            self._attempt.changed.notify_all()
        if not self.finds_results and not ended_before:
            # The operator takes its time with lines that nobody waits for; it gives the rest at once.
            self._client.interrupt_log()

    def run(self) -> None:
        """Reads one stream after the other."""
        while not self.is_finished and not self._is_cancelled and not self._attempt.fenced:
            ended_before = self._program_ended
            try:
                self._read_stream(ended_before)
            except Fenced:
                return  # the sender hears of it, too
            except OperatorError as error:
                if self._program_ended and not ended_before:
                    continue
                if self._failures.should_log():
                    self._log.warning("log stream failed", message=str(error), times=self._failures.count)
                self._wait(max(self._backoff.draw_wait(), error.retry_after or 0.0))
                continue
            self._backoff.reset()
            # A stream can end because the program has, or because a log was rotated or a proxy was tired. Only one
            # that was begun after the program had ended, and ended itself, has surely shown all.
            if ended_before and self._results:
                self._results.finish()
            with self._attempt.changed:
                self.is_finished = ended_before
                self._attempt.changed.notify_all()
            if not ended_before:
                self._wait(self._find_pause())

    def _read_stream(self, ended_before: bool) -> None:
        def is_over() -> bool:
            return self._is_cancelled or (self._program_ended and not ended_before and not self.finds_results)

        self._position.restart()
        tail = TAIL if self._has_skipped else 0
        follow = self.finds_results or not ended_before
        with self._client.stream_log(LogRequest(self._position.since, tail, follow), is_over) as lines:
            for line in lines:
                text = self._position.take(line)
                if text is None:
                    continue
                self._has_skipped = False
                if self._recorder:
                    self._recorder.take(line)
                if self._results:
                    self._results.take(text)
                elif follow and self._find_wait_for_room() > 0:
                    return

    def _find_wait_for_room(self) -> float:
        return self._recorder.compute_wait() if self._recorder else 0.0

    def _find_pause(self) -> float:
        """Seconds until the next stream; where too much was printed, until there is room for it again."""
        wait = 0.0 if self.finds_results else self._find_wait_for_room()
        self._has_skipped = wait > 0
        return max(PAUSE, wait)

    def _wait(self, seconds: float) -> None:
        """Waits, but not on once the program has ended; after that it is only a short breath."""
        with self._attempt.changed:
            if self._program_ended:
                seconds = min(seconds, _FIRST_WAIT)
                self._attempt.changed.wait_for(lambda: self._attempt.fenced, seconds)
            else:
                self._attempt.changed.wait_for(lambda: self._program_ended or self._attempt.fenced, seconds)
