"""Holds decisions back until the scheduler's records behind them are durable."""

from __future__ import annotations

from podtune.runner.trial.machine import TrialMachine
from podtune.tuning.schedulers.base import Record, Scheduler


class WriteBarrier:
    """A scheduler compares trials, so a decision on one trial rests on the records of others.

    Each change of a record gets a log sequence number (LSN). A decision holds the latest LSN of its time, and is acted
    on only when all changes with an LSN up to its own are durable.
    """

    def __init__(self, scheduler: Scheduler) -> None:
        """Starts with everything durable.

        Args:
            scheduler: Whose records they are.
        """
        self._scheduler = scheduler
        self._unsaved: dict[str, list[tuple[int, Record]]] = {}
        """By trial: records that are in its status, each with the LSN of the first change that it holds."""
        self._unwritten: dict[str, int] = {}
        """By trial: LSN of the first change that is not in its status yet."""
        self.latest = 0
        self.waiting: dict[str, None] = {}
        """Trials that something waits for records to become durable for."""

    def write_record(self, trial: TrialMachine, now: float) -> None:
        """A trial's record has changed: it goes into the status, which is written at once."""
        self.mark_changed(trial)
        self.refresh_record(trial)
        trial.touch(now)

    def mark_changed(self, trial: TrialMachine) -> None:
        """A trial's record has changed: it goes into the status that is written next, whenever that is."""
        self.latest += 1
        self._unwritten.setdefault(trial.name, self.latest)

    def refresh_record(self, trial: TrialMachine) -> None:
        """Has a status that is about to be written hold the present record."""
        record = {name: dict(values) for name, values in self._scheduler.record(trial.index).items()}
        if record != trial.status.scheduler:
            trial.set(scheduler=record)
        lsn = self._unwritten.pop(trial.name, None)
        if record == trial.saved.scheduler and not trial.expectations.statuses:
            self._unsaved.pop(trial.name, None)  # the record is back to what the API server has
        elif lsn is not None:
            self._unsaved.setdefault(trial.name, []).append((lsn, record))

    def on_status_saved(self, trial: TrialMachine) -> bool:
        """The API server has a trial's status; whether a record became durable, so that something may be due."""
        records = self._unsaved.get(trial.name, [])
        durable = [position for position, (_, record) in enumerate(records) if record == trial.saved.scheduler]
        if not durable:
            return False
        del records[: durable[-1] + 1]
        if not records:
            del self._unsaved[trial.name]
        return True

    def is_flushed(self, lsn: int) -> bool:
        """Whether all changes up to an LSN are durable."""
        return all(first > lsn for first in self._unwritten.values()) and all(
            records[0][0] > lsn for records in self._unsaved.values()
        )
