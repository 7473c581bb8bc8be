"""The records of the snapshot on their way to the store."""

from __future__ import annotations

from collections.abc import Callable

from podtune.agent.state.attempt import Attempt
from podtune.storage.object_store import ObjectStore
from podtune.storage.snapshots.record_store import has_warm_start, store_record


class RecordStream:
    """Stores what the operator's replies have brought; see `SegmentStream`.

    Attributes:
        kind: What its records are called in the agent's log.
        left_out: Always 0: a newer record takes the place of one that waits.
    """

    kind = "snapshot"
    left_out = 0

    def __init__(self, attempt: Attempt, store: ObjectStore, experiment_prefix: str) -> None:
        self._attempt = attempt
        self._store = store
        self._prefix = experiment_prefix

    def resume(self) -> None:
        """See `SegmentStream.resume`: nothing has to be known of what is there."""

    def store_changes(self, is_over: Callable[[], bool]) -> None:
        """See `SegmentStream.store_changes`."""
        with self._attempt.changed:
            records = self._attempt.records.list_waiting()
        for record in records:
            if is_over():
                return
            store_record(self._store, self._prefix, record)
            # It is large and never changes: only an agent that finds none asks for it.
            lacks = record.has_warm_start and not has_warm_start(self._store, self._prefix)
            with self._attempt.changed:
                self._attempt.records.mark_stored(record)
                if lacks:
                    self._attempt.records.request_warm_start()
