"""Which of the scheduler's records are not durable yet, and what has to wait for them."""

from __future__ import annotations

from podtune.runner.trial_machine import TrialMachine
from podtune.tuning.schedulers.base import Record, Scheduler


class Tickets:
    """A scheduler compares trials, so a decision on one trial rests on the records of others.

    Each change of a record draws a ticket, in order. A decision holds the latest one of its time, and is acted on only
    when all changes with a ticket up to its own are durable.
    """

    def __init__(self, scheduler: Scheduler) -> None:
        """Starts with all that there is being durable.

        Args:
            scheduler: Whose records they are.
        """
        self._scheduler = scheduler
        self._unsaved: dict[str, list[tuple[int, Record]]] = {}
        """By trial: records that are in its status, each with the ticket of the first change that it holds."""
        self._unwritten: dict[str, int] = {}
        """By trial: ticket of the first change that is not in its status yet."""
        self.latest = 0
        self.waiting: dict[str, None] = {}
        """Trials that something waits for records to become durable for."""

    def record(self, trial: TrialMachine, now: float) -> None:
        """A trial's record has changed: it goes into the status, which is written at once."""
        self.note(trial)
        self.refresh(trial)
        trial.touch(now)

    def note(self, trial: TrialMachine) -> None:
        """A trial's record has changed: it goes into the status that is written next, whenever that is."""
        self.latest += 1
        self._unwritten.setdefault(trial.name, self.latest)

    def refresh(self, trial: TrialMachine) -> None:
        """Has a status that is about to be written hold the present record."""
        record = {name: dict(values) for name, values in self._scheduler.record(trial.index).items()}
        if record != trial.status.scheduler:
            trial.set(scheduler=record)
        ticket = self._unwritten.pop(trial.name, None)
        if record == trial.saved.scheduler and not trial.unseen.statuses:
            self._unsaved.pop(trial.name, None)  # it is again what it was
        elif ticket is not None:
            self._unsaved.setdefault(trial.name, []).append((ticket, record))

    def saved(self, trial: TrialMachine) -> bool:
        """The API server has a trial's status; whether a record became durable, so that something may be due."""
        records = self._unsaved.get(trial.name, [])
        durable = [place for place, (_, record) in enumerate(records) if record == trial.saved.scheduler]
        if not durable:
            return False
        del records[: durable[-1] + 1]
        if not records:
            del self._unsaved[trial.name]
        return True

    def is_durable(self, ticket: int) -> bool:
        """Whether all changes up to a ticket are durable."""
        return all(first > ticket for first in self._unwritten.values()) and all(
            records[0][0] > ticket for records in self._unsaved.values()
        )
