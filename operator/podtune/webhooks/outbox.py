"""What a receiver has still to be told: objects, not events. Their events are made when there is a request to make.

So a receiver that is away for an hour takes no more memory than one that answers: the objects are there anyway. Only
those that are deleted before they were told are kept for it, up to a limit.
"""

from __future__ import annotations

from dataclasses import dataclass
from itertools import islice

from podtune.webhooks.events import CloudEvent, Position, Subject, find_end, is_told, list_steps
from podtune.webhooks.positions import Positions
from podtune.webhooks.receivers import Receiver

MAX_GONE = 10_000
"""Deleted objects that are kept until they are told."""
SUBJECTS_AT_A_TIME = 100
"""Objects that are looked at for a batch: some milliseconds."""


@dataclass(frozen=True, slots=True)
class Batch:
    """Events of a request.

    Attributes:
        events: The events.
        positions: Where the receiver is with each object once it has them.
        missed: How many changes of state before them are no longer on record.
    """

    events: tuple[CloudEvent, ...]
    positions: tuple[tuple[Subject, Position], ...]
    missed: int = 0


class ReceiverOutbox:
    """The objects that a receiver has still to be told of, oldest news first."""

    def __init__(self, receiver: Receiver, positions: Positions) -> None:
        self._receiver = receiver
        self.positions = positions
        self._due: dict[str, Subject] = {}
        self._gone: dict[str, None] = {}

    def __len__(self) -> int:
        return len(self._due)

    def observe(self, subject: Subject) -> bool:
        """An object was seen; whether there is something to be told of it."""
        if not self._receiver.serves(subject.experiment.namespace):
            return False
        if is_told(subject, self.positions.find(subject)):
            return False
        self._due[subject.uid] = subject
        return True

    def skip(self, subject: Subject) -> None:
        """An object was seen that others have told of already, elsewhere."""
        if self._receiver.serves(subject.experiment.namespace):
            self.positions.set(subject, find_end(subject))
            self._due.pop(subject.uid, None)

    def forget(self, subject: Subject) -> int:
        """An object was deleted; how many are given up for it, since there are too many such."""
        if subject.uid not in self._due:
            self._drop(subject)
            return 0
        self._gone[subject.uid] = None
        if len(self._gone) <= MAX_GONE:
            return 0
        oldest = next(iter(self._gone))
        self._drop(self._due.pop(oldest))
        return 1

    def take(self, limit: int) -> Batch:
        """The next events, up to a limit; none if what was looked at has none that the receiver wants."""
        events: list[CloudEvent] = []
        positions: dict[str, tuple[Subject, Position]] = {}
        missed = 0
        for subject in islice(self._due.values(), SUBJECTS_AT_A_TIME):
            for step in list_steps(subject, self.positions.find(subject)):
                if self._receiver.wants(str(step.event["type"])):
                    if len(events) == limit:
                        return Batch(tuple(events), tuple(positions.values()), missed)
                    events.append(step.event)
                missed += step.missed
                positions[subject.uid] = (subject, step.position)
            positions[subject.uid] = (subject, find_end(subject))
        return Batch(tuple(events), tuple(positions.values()), missed)

    def confirm(self, batch: Batch) -> None:
        """The receiver has heard of a batch, or never will."""
        for subject, position in batch.positions:
            latest = self._due.get(subject.uid)
            if latest is None:
                continue
            self.positions.set(latest, position)
            if is_told(latest, position):
                del self._due[subject.uid]
                if subject.uid in self._gone:
                    self._drop(latest)

    def give_up(self) -> int:
        """Leaves untold what there is to be told; of how many objects."""
        given_up = list(self._due.values())
        self._due.clear()
        for subject in given_up:
            if subject.uid in self._gone:
                self._drop(subject)
            else:
                self.positions.set(subject, find_end(subject))
        return len(given_up)

    def _drop(self, subject: Subject) -> None:
        self._gone.pop(subject.uid, None)
        self.positions.forget(subject.experiment.uid, subject.trial.uid if subject.trial is not None else "")
