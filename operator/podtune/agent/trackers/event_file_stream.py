"""A trial's results as event files of TensorBoard, on their way to the store.

All attempts of a trial are one run: a folder, in which each attempt has files of its own, in the order of their names.
An attempt's first record has TensorBoard drop what earlier attempts have logged from there on, so that what is trained
again is there once. Within an attempt, files are segments: the last one is stored anew while it grows, by the same
rules as results are.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable

from podtune.agent.settings import Settings
from podtune.agent.state.attempt import Attempt
from podtune.agent.trackers.event_file_names import TABLE_FILE, EventFileNaming
from podtune.agent.trackers.event_file_settings import EventFileSettings
from podtune.agent.trackers.failed_ends import delete_failed_ends
from podtune.agent.trial_parameters import read_trial_parameters
from podtune.protocol.messages import Result
from podtune.protocol.tracking import RunFacts, RunStatus
from podtune.storage.checkpoint.address import TrialAddress
from podtune.storage.event_files.events import encode_restart, encode_scalars, encode_version
from podtune.storage.event_files.hparams import (
    SessionStatus,
    encode_experiment_summary,
    encode_session_end,
    encode_session_start,
)
from podtune.storage.object_store import ObjectStore
from podtune.storage.segments.segment_log import SegmentLog
from podtune.storage.segments.segment_stream import ObjectStream

MAX_EVENT_BYTES = 64 << 20
"""What stays in the store of an attempt's event files: the first one and the latest ones."""
_END_SECONDS = 3.0
_POLL = 0.3
_GOOD_ENDS = (RunStatus.FINISHED, RunStatus.KILLED)


class EventFileStream:
    """Takes results, and stores what has changed when it is told to; see `SegmentStream`.

    Attributes:
        kind: What its records are called in the agent's log.
    """

    kind = "event files"

    def __init__(
        self, attempt: Attempt, settings: Settings, table: EventFileSettings, address: TrialAddress, store: ObjectStore
    ) -> None:
        self._attempt = attempt
        self._settings = settings
        self._table = table
        self._store = store
        self._address = address
        self._files: ObjectStream | None = None
        self._first: Result | None = None
        self._last: Result | None = None
        self._resumes = False
        self._has_table = False
        self._is_open = settings.number <= 1
        """Whether no earlier attempt's failure counts as the trial's end."""
        self._lock = threading.Lock()

    @property
    def left_out(self) -> int:
        """How many records were given up since the store did not take them for too long."""
        return self._files.left_out if self._files is not None else 0

    def append(self, result: Result) -> None:
        """Takes the next result; never waits for the store."""
        record = encode_scalars(result.time, result.step, result.metrics)
        with self._lock:
            files = self._files or self._begin(result)
            if record:
                files.append(result.seq, result.time, record)
            self._last = result

    def resume(self) -> None:
        """See `SegmentStream.resume`."""
        self._resumes = True

    def store_changes(self, is_over: Callable[[], bool]) -> None:
        """See `SegmentStream.store_changes`."""
        with self._lock:
            files, first = self._files, self._first
        if files is None or first is None or is_over():
            return
        if not self._has_table:
            self._store_table(first)
            self._has_table = True
        files.store_changes(is_over)
        if not self._is_open and not is_over():
            delete_failed_ends(self._store, self._address.event_files(self._settings.trial))
            self._is_open = True

    def conclude(self) -> None:
        """Waits some seconds for the operator's word on how the trial ends, and notes a good end.

        A failed attempt may be followed by another one, and TensorBoard goes by the first word that it reads of an end.
        So a storage pod notes that a trial has failed for good; see `podtune.agent.trackers.failed_ends`.
        """
        attempt, reuse = self._attempt, self._settings.reuse
        give_up_at = time.monotonic() + _END_SECONDS
        with attempt.changed:
            while not (reuse or attempt.fenced or _is_known(attempt.run)) and time.monotonic() < give_up_at:
                attempt.ask()
                attempt.changed.notify_all()
                attempt.changed.wait_for(lambda: _is_known(attempt.run) or attempt.fenced, _POLL)
            facts, is_done = attempt.run, attempt.done
        is_good = facts.status in _GOOD_ENDS if facts is not None and _is_known(facts) else is_done
        with self._lock:
            if is_good and self._files is not None and self._last is not None:
                last = self._last
                self._files.append(last.seq + 1, last.time, encode_session_end(last.time, SessionStatus.SUCCESS))

    def _begin(self, first: Result) -> ObjectStream:
        settings = self._settings
        log = SegmentLog(encode_version(first.time), MAX_EVENT_BYTES)
        prefix = self._address.event_files(settings.trial)
        files = ObjectStream(self._store, prefix, log, self.kind, EventFileNaming(settings.number))
        if self._resumes:
            files.resume()
        parameters = read_trial_parameters(settings)
        session = encode_session_start(first.time, parameters, settings.trial, self._build_url())
        files.append(0, first.time, encode_restart(first.time, first.step) + session)
        self._files, self._first = files, first
        return files

    def _build_url(self) -> str:
        settings, dashboard = self._settings, self._table.dashboard
        place = f"experiments/{settings.namespace}/{settings.experiment}/trials/{settings.trial}"
        return f"{dashboard.rstrip('/')}/{place}" if dashboard else ""

    def _store_table(self, first: Result) -> None:
        """Stores what the experiment's table shows, unless another agent has."""
        key = f"{self._address.event_files()}{TABLE_FILE}"
        if not self._store.exists(key):
            parameters = self._table.list_parameters(read_trial_parameters(self._settings))
            table = encode_experiment_summary(first.time, parameters, self._table.metrics)
            self._store.put_bytes(key, encode_version(first.time) + table)


def _is_known(facts: RunFacts | None) -> bool:
    """Whether the operator has said how the attempt ends."""
    return facts is not None and facts.status is not RunStatus.RUNNING
