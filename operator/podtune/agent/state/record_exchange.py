"""The records of the snapshot that an agent has been given, and those that it has stored."""

from __future__ import annotations

from collections.abc import Iterable

from podtune.protocol.snapshot import SnapshotRecord, StoredVersions


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
        self._stored: dict[bool, int] = {}
        self._waiting: dict[bool, SnapshotRecord] = {}

    def ask(self, now: float) -> StoredVersions | None:
        """What to tell the operator of; None where no newer record is wanted yet."""
        if not self._period:
            return None
        if self._next is None:
            self._next = now + self._first_wait
        if now < self._next:
            return None
        return StoredVersions(self._stored.get(True, 0), self._stored.get(False, 0))

    def take(self, records: Iterable[SnapshotRecord], now: float) -> None:
        """Takes in what a reply has brought; where it has brought nothing, the next report asks again."""
        for record in records:
            if record.version > self._stored.get(bool(record.trial), 0):
                self._waiting[bool(record.trial)] = record
                self._next = now + self._period

    def list_waiting(self) -> list[SnapshotRecord]:
        """Those that are to be stored."""
        return list(self._waiting.values())

    def mark_stored(self, record: SnapshotRecord) -> None:
        """A record is in the store."""
        kind = bool(record.trial)
        self._stored[kind] = record.version
        if self._waiting.get(kind) is record:
            del self._waiting[kind]
