"""The end of an attempt: delivers what is left while there is time, and writes the rest where it can be found.

The kubelet asks the agent to end after the program has ended. From then on, the agent holds a GPU that could already
work for another trial. So it does not wait for anything that the final commit can carry. It waits for the newest
checkpoint for as long as `checkpoints.drain` allows, and for everything else for some seconds.
"""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, TextIO

from podtune.agent.checkpoints.uploader import Uploader
from podtune.agent.delivery.termination_message import TerminationLog, print_results
from podtune.agent.event_log import EventLog
from podtune.agent.results.log_stream import LogStream
from podtune.agent.results.result_reader import ResultReader
from podtune.agent.segments.segment_uploader import SegmentUploader
from podtune.agent.settings import Settings
from podtune.agent.state.attempt import Attempt
from podtune.protocol.checkpoint_queue import compute_backlog_time
from podtune.protocol.messages import StoreProblem

if TYPE_CHECKING:
    from podtune.agent.trackers.run_mirror import RunMirror

DELIVERY_PATIENCE = 5.0
"""Seconds that an operator that does not answer is waited for once everything else is done."""
_POLL = 0.05
REST_SECONDS = 20.0
"""Seconds that results may take to be read, and all that is stored beside checkpoints to be stored."""
LOG_SECONDS = 10.0
"""Seconds that the end of the program's output is waited for."""
MIRROR_SECONDS = 10.0
"""Seconds that a tracking server may take to hear the rest, beside all else."""
ABORT_SECONDS = 2.0
"""What it may take, after the time is up, to give up what is being stored in parts."""


class Drain:
    """Brings an attempt to its end."""

    def __init__(
        self,
        attempt: Attempt,
        *,
        settings: Settings,
        result_reader: ResultReader,
        log_stream: LogStream | None,
        uploader: Uploader | None,
        segments: SegmentUploader | None,
        mirror: RunMirror | None = None,
        log: EventLog,
        output: TextIO,
    ) -> None:
        self._attempt = attempt
        self._seconds = settings.drain_seconds
        self._termination_log = TerminationLog(settings.termination_log)
        self._result_reader = result_reader
        self._log_stream = log_stream
        self._uploader = uploader
        self._segments = segments
        self._mirror = mirror
        self._log = log
        self._output = output
        self._is_handed_over = False

    def start(self) -> None:
        """The program has moved on to another trial: the rest is stored without hurry."""
        self._result_reader.finish()
        if self._log_stream:
            self._log_stream.finish()
        with self._attempt.changed:
            self._attempt.start_draining()
            self._attempt.changed.notify_all()
        if self._segments:
            self._segments.finish()
        if self._mirror:
            self._mirror.finish()
        if self._uploader:
            self._uploader.finish()

    @property
    def may_hand_over(self) -> bool:
        """Whether all is stored that can be, and the operator was not told yet; hold `changed`."""
        uploads = (self._uploader, self._segments, self._mirror)
        return not self._is_handed_over and all(upload is None or upload.is_finished for upload in uploads)

    def hand_over_if_stored(self) -> None:
        """Has the operator told that the attempt is over, once all is stored that can be."""
        with self._attempt.changed:
            if self.may_hand_over:
                self._is_handed_over = True
                self._attempt.hand_over()
                self._attempt.changed.notify_all()

    def run(self) -> None:
        """Delivers what can be delivered in time, then writes the final commit."""
        started = time.monotonic()
        deadline = started + self._seconds
        read = self._read_file()
        if self._log_stream:
            self._log_stream.finish()
        with self._attempt.changed:
            self._attempt.start_draining()
            self._attempt.changed.notify_all()
        if self._uploader:
            self._uploader.call_when_stored(self._write_commit)
        self._write_commit()  # at once, should the kubelet not give the time that was hoped for
        read_by = min(deadline, started + REST_SECONDS)
        while not read and time.monotonic() < read_by:
            with self._attempt.changed:
                self._attempt.changed.wait(min(_POLL, _compute_time_left(read_by)))
            read = self._read_file()
        self._wait_until_stored(deadline)
        self._write_commit()
        self._wait_until_delivered(deadline)
        self._wait_for_mirror(deadline)
        self._conclude(time.monotonic() - started)

    def _read_file(self) -> bool:
        read = self._result_reader.poll()
        if read:
            self._result_reader.finish()
        return read

    def _wait_until_stored(self, deadline: float) -> None:
        """Waits for the log's end, for it may bring more results, and then for the checkpoints."""
        stream, uploader = self._log_stream, self._uploader
        with self._attempt.changed:
            if stream and stream.finds_results:
                patience = min(
                    _compute_time_left(deadline) / 2, LOG_SECONDS
                )  # the checkpoint needs some of the time, too
                self._attempt.changed.wait_for(lambda: stream.is_finished or self._attempt.fenced, patience)
                self._attempt.complete = stream.is_finished
        segments = self._segments
        if segments:
            segments.finish()
        if self._mirror:
            self._mirror.finish()
        if uploader:
            uploader.finish()
            self._wait_for_uploader(uploader, deadline)
        if segments:
            with self._attempt.changed:
                self._attempt.changed.wait_for(
                    lambda: segments.is_finished, min(_compute_time_left(deadline), REST_SECONDS)
                )

    def _wait_for_uploader(self, uploader: Uploader, deadline: float) -> None:
        def is_stored() -> bool:
            return uploader.is_finished or self._attempt.checkpoints.is_stored

        with self._attempt.changed:
            if not self._attempt.changed.wait_for(is_stored, compute_backlog_time(_compute_time_left(deadline))):
                uploader.hurry()
                self._attempt.changed.wait_for(is_stored, _compute_time_left(deadline))
            in_time = self._attempt.changed.wait_for(
                lambda: uploader.is_finished, min(_compute_time_left(deadline), REST_SECONDS)
            )
        if not in_time:
            uploader.cancel()
        with self._attempt.changed:
            self._attempt.changed.wait_for(lambda: uploader.is_finished, ABORT_SECONDS)
            if not self._attempt.checkpoints.is_stored and not self._attempt.store_problem:
                message = f"the last checkpoint could not be stored in {self._seconds:g} s; raise checkpoints.drain"
                self._attempt.set_store_problem(StoreProblem("OutOfTime", message, permanent=False))

    def _wait_until_delivered(self, deadline: float) -> None:
        patience = min(deadline, time.monotonic() + DELIVERY_PATIENCE)
        with self._attempt.changed:
            self._attempt.changed.wait_for(lambda: self._attempt.is_delivered, _compute_time_left(patience))

    def _wait_for_mirror(self, deadline: float) -> None:
        """Waits until a tracking server was told all: it gives up by itself, unless it waits for an answer."""
        mirror = self._mirror
        if mirror:
            patience = min(_compute_time_left(deadline), MIRROR_SECONDS)
            with self._attempt.changed:
                self._attempt.changed.wait_for(lambda: mirror.is_finished or self._attempt.fenced, patience)

    def _conclude(self, seconds: float) -> None:
        self._write_commit()
        printed = self._print_rest()
        if self._segments and (printed or self._segments.was_refused):
            self._segments.store_rest()  # meanwhile checkpoints were waited for: the store may allow it by now
        with self._attempt.changed:
            commit = self._attempt.build_final_commit()
        self._log.info(
            "agent ends", seconds=round(seconds, 3), seq=commit.seq, acked_seq=commit.acked_seq, printed=printed
        )

    def _print_rest(self) -> int:
        """Prints the results that the operator could still miss; those that did not fit into memory, too."""
        printed = 0
        while True:
            with self._attempt.changed:
                held = self._attempt.outbox.release()
            if not held:
                break
            printed += print_results(held, self._output)
            self._read_file()
        if printed:
            self._write_commit()
        return printed

    def _write_commit(self) -> None:
        # Held until it is written: the uploader writes it, too, and the newest has to be the last.
        with self._attempt.changed:
            try:
                self._termination_log.write(self._attempt.build_final_commit())
            except OSError as error:
                self._log.error("final commit can't be written", message=str(error))


def _compute_time_left(deadline: float) -> float:
    return max(0.0, deadline - time.monotonic())
