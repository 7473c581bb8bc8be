"""The records of the snapshot that an agent has been given, and those that it has stored."""

from __future__ import annotations

from collections.abc import Iterable

from podtune.protocol.snapshot import WARM_START, SnapshotRecord, StoredVersions

_EXPERIMENT, _TRIAL = "", "trial"


class RecordExchange:
    """Says when newer records are to be asked for, and holds them until they are stored. Not thread-safe.

    Only the agent knows when it has stored something last, so it is the one to ask, at most once each period; the
    operator need not remember anything.
    """

    def __init__(self, period: float = 0.0, first_wait: float = 0.0) -> None:
        """Knows of no record.

        Args:
            period: Seconds between two records, at least; 0 where none are stored.
            first_wait: Seconds from the first report to the first record: not all agents are to ask at once.
        """
        self._period = period
        self._first_wait = first_wait
        self._next: float | None = None
        self._stored: dict[str, int] = {}
        self._waiting: dict[str, SnapshotRecord] = {}
        self._lacks_warm_start = False

    def ask(self, now: float) -> StoredVersions | None:
        """What to tell the operator of; None where no newer record is wanted yet."""
        if not self._period:
            return None
        if self._next is None:
            self._next = now + self._first_wait
        lacks, self._lacks_warm_start = self._lacks_warm_start, False
        if not lacks and now < self._next:
            return None
        trial, experiment = (self._stored.get(kind, 0) for kind in (_TRIAL, _EXPERIMENT))
        return StoredVersions(trial, experiment, lacks)

    def take(self, records: Iterable[SnapshotRecord], now: float) -> None:
        """Takes in what a reply has brought; where it has brought nothing, the next report asks again."""
        for record in records:
            if record.trial == WARM_START:
                self._waiting[WARM_START] = record
            elif record.version > self._stored.get(_find_kind(record), 0):
                self._waiting[_find_kind(record)] = record
                self._next = now + self._period

    def list_waiting(self) -> list[SnapshotRecord]:
        """Those that are to be stored."""
        return list(self._waiting.values())

    def mark_stored(self, record: SnapshotRecord) -> None:
        """A record is in the store."""
        kind = _find_kind(record)
        self._stored[kind] = record.version
        if self._waiting.get(kind) is record:
            del self._waiting[kind]

    def request_warm_start(self) -> None:
        """The store lacks the record of the warm start: the next report asks for it, for the attempt may be short.

        That it asks once is enough: with the Experiment's next record the store is looked at again.
        """
        self._lacks_warm_start = WARM_START not in self._waiting


def _find_kind(record: SnapshotRecord) -> str:
    return _TRIAL if record.is_of_trial else record.trial
