"""The thread that stores an attempt's results and log, and records of the snapshot, while its program runs.

It is not the one that stores checkpoints: a large one may take minutes, and a pod can vanish at any second.
"""

from __future__ import annotations

import threading
import time
from collections import Counter
from random import Random
from typing import TYPE_CHECKING, TypeAlias

from podtune.agent.checkpoints.store_retry import make_backoff
from podtune.agent.event_log import EventLog, LogThrottle
from podtune.agent.logs.log_recorder import LogRecorder
from podtune.agent.results.log_stream import LogStream
from podtune.agent.segments.function_stream import FunctionStream
from podtune.agent.segments.record_stream import RecordStream
from podtune.agent.settings import Settings
from podtune.agent.state.attempt import Attempt
from podtune.agent.state.record_exchange import RecordExchange
from podtune.storage.checkpoint.address import TrialAddress
from podtune.storage.errors import StoreError
from podtune.storage.object_store import ObjectStore
from podtune.storage.segments.segment import LOG_STREAM, RESULT_STREAM, SegmentHeader
from podtune.storage.segments.segment_stream import SegmentStream

if TYPE_CHECKING:
    from podtune.agent.trackers.event_file_stream import EventFileStream

TRIES_AT_END = 5
"""How often storing the rest is tried once the program has ended, which takes four to eight seconds.

Also where the store refuses it: that may be over by then, as while credentials are renewed or a volume is mounted anew.
"""
LOG_END_SECONDS = 5.0
"""Seconds that the end of the log is waited for: its program has ended, and its GPU is free for another one."""
_Stream: TypeAlias = "SegmentStream | LogRecorder | RecordStream | FunctionStream | EventFileStream"


class SegmentUploader(threading.Thread):
    """Stores what has changed every so often, and the rest at the end.

    A store that fails is tried again, and no reason to call it unusable: that is for checkpoints to find out.

    Attributes:
        results: Where to put results; None where they are not stored.
        logs: Where to put lines of the program's output; None where they are not stored.
        event_files: Where to put results as event files of TensorBoard; None where they are not stored.
        is_finished: Whether all that could be stored after the program's end has been stored; hold `changed`.
        was_refused: Whether something was not stored since the store refused it; final once finished.
    """

    def __init__(
        self,
        attempt: Attempt,
        *,
        settings: Settings,
        address: TrialAddress,
        store: ObjectStore,
        log: EventLog,
        rng: Random,
    ) -> None:
        super().__init__(name="segments", daemon=True)
        header = SegmentHeader(
            settings.namespace,
            settings.experiment,
            settings.trial,
            settings.attempt,
            settings.number,
            settings.rank,
        )
        keep = settings.sync

        def make_stream(kind: str, bytes_kept: int) -> SegmentStream | None:
            prefix = address.segments(settings.attempt, kind, settings.rank)
            return SegmentStream(store, prefix, header, bytes_kept, kind) if bytes_kept else None

        self.results = make_stream(RESULT_STREAM, keep.results)
        logs = make_stream(LOG_STREAM, keep.logs)
        self.event_files: EventFileStream | None = None
        if settings.event_file_table is not None and not settings.follows:
            from podtune.agent.trackers.event_file_stream import EventFileStream  # noqa: PLC0415 - few trials need it

            self.event_files = EventFileStream(attempt, settings, settings.event_file_table, address, store)
        self.logs = LogRecorder(logs, time.monotonic) if logs else None
        self._records: RecordStream | None = None
        self._function: FunctionStream | None = None
        if keep.snapshot_period and not settings.follows:
            attempt.records = RecordExchange(keep.snapshot_period, rng.uniform(0.0, keep.snapshot_period))
            experiment = address.store.experiment_prefix(address.experiment_uid)
            self._records = RecordStream(attempt, store, experiment)
            if settings.function is not None:
                self._function = FunctionStream(settings.function, store, experiment, log)
        self._log_stream: LogStream | None = None
        self._attempt = attempt
        self._period = settings.sync.segment_period
        self._log = log
        self._rng = rng
        self._backoff = make_backoff(rng)
        self._failures = LogThrottle()
        self._told_left_out: Counter[str] = Counter()
        self._ending = threading.Event()
        self.is_finished = False
        self.was_refused = False

    def resume(self) -> None:
        """An earlier process of this agent has stored some of it."""
        for stream in self._streams:
            stream.resume()

    def expect_log(self, log_stream: LogStream) -> None:
        """Has the end wait for that of the log."""
        self._log_stream = log_stream

    def finish(self) -> None:
        """The program has ended: the rest is stored."""
        self._ending.set()

    def store_rest(self) -> None:
        """Stores what was added after the end, or was refused then, if the store takes it at once."""
        self._store_changes()

    def run(self) -> None:
        """Works until the program has ended and all is stored, or the attempt is fenced."""
        wait = self._rng.uniform(self._period / 2, self._period)
        while not self._ending.wait(wait) and not self._attempt.fenced:
            failure = self._store_changes()
            wait = self._period if failure is None else min(self._period, self._backoff.draw_wait())
        self._backoff.reset()
        self._wait_for_log()
        if self.event_files is not None:
            self.event_files.conclude()
        failure = self._store_changes()
        for _ in range(1, TRIES_AT_END):
            if failure is None:
                break
            time.sleep(self._backoff.draw_wait())
            failure = self._store_changes()
        with self._attempt.changed:
            self.is_finished = True
            self.was_refused = failure is not None and failure.permanent
            self._attempt.changed.notify_all()

    @property
    def _streams(self) -> list[_Stream]:
        streams = (self.results, self.logs, self._records, self._function, self.event_files)
        return [stream for stream in streams if stream is not None]

    def _wait_for_log(self) -> None:
        stream = self._log_stream
        if stream is not None and self.logs is not None:
            with self._attempt.changed:
                self._attempt.changed.wait_for(lambda: stream.is_finished or self._attempt.fenced, LOG_END_SECONDS)
            if not stream.finds_results:
                stream.cancel()
            self.logs.finish()

    def _store_changes(self) -> StoreError | None:
        """Stores what has changed; returns why it could not, if it could not."""
        for stream in self._streams:
            try:
                stream.store_changes(self._is_fenced)
            except StoreError as error:
                if self._failures.should_log():
                    self._log.warning(
                        "stream not stored", stream=stream.kind, message=str(error), times=self._failures.count
                    )
                self._tell_left_out(stream)
                return error
        self._backoff.reset()
        self._failures = LogThrottle()
        return None

    def _tell_left_out(self, stream: _Stream) -> None:
        if stream.left_out > self._told_left_out[stream.kind]:
            message = f"the store has failed for too long; the oldest {stream.kind} that wait for it are left out"
            self._log.warning("records left out", stream=stream.kind, message=message, records=stream.left_out)
            self._told_left_out[stream.kind] = stream.left_out

    def _is_fenced(self) -> bool:
        return self._attempt.fenced
