"""What a receiver has still to be told: objects, not events. Their events are made when there is a request to make.

So a receiver that is away takes hardly more memory than one that answers: the objects are there anyway. What is kept
for it, up to a limit, is objects that are deleted before they were told, and events that an object no longer tells of.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from itertools import islice

from podtune.webhooks.events import CloudEvent, Position, Step, Subject, find_end, forgets, is_told, list_steps
from podtune.webhooks.held_events import HeldEvents
from podtune.webhooks.positions import Positions
from podtune.webhooks.receivers import Receiver

MAX_GONE = 10_000
"""Deleted objects that are kept until they are told."""
MAX_HELD_BYTES = 16 << 20
"""Memory for events that are in no status any more: some 15,000 of them."""
SUBJECTS_AT_A_TIME = 100
"""Objects that are looked at for a batch: some milliseconds."""


@dataclass(frozen=True, slots=True)
class ToldSubject:
    """How far the receiver is with an object.

    Attributes:
        position: Where it is.
        after: Where the events end that were held of the object, if the position is beyond those.
    """

    subject: Subject
    position: Position
    after: Position | None = None


@dataclass(frozen=True, slots=True)
class Batch:
    """Events of a request.

    Attributes:
        events: The events.
        progress: Where the receiver is with each object once it has them.
        missed: How many changes of state before them are no longer on record.
    """

    events: tuple[CloudEvent, ...]
    progress: tuple[ToldSubject, ...]
    missed: int = 0


@dataclass(slots=True)
class _Due:
    """An object that is to be told of, and what it does not tell of any more itself."""

    subject: Subject
    held: HeldEvents = field(default_factory=HeldEvents)


class ReceiverOutbox:
    """The objects that a receiver has still to be told of, oldest news first.

    Attributes:
        positions: How far the receiver has heard of each object.
        left_out: How many events were left out, since too many were held.
    """

    def __init__(self, receiver: Receiver, positions: Positions) -> None:
        self._receiver = receiver
        self.positions = positions
        self.left_out = 0
        self._due: dict[str, _Due] = {}
        self._gone: dict[str, None] = {}
        self._held_bytes = 0

    def __len__(self) -> int:
        return len(self._due)

    def observe(self, subject: Subject) -> bool:
        """An object was seen; whether there is something to be told of it."""
        if not self._receiver.serves(subject.experiment.namespace):
            return False
        due = self._due.get(subject.uid)
        if due is None:
            if is_told(subject, self.positions.find(subject)):
                return False
            self._due[subject.uid] = _Due(subject)
            return True
        self._hold_forgotten(due, subject)
        due.subject = subject
        return True

    def skip(self, subject: Subject) -> None:
        """An object was seen that others have told of already, elsewhere."""
        if self._receiver.serves(subject.experiment.namespace):
            self.positions.set(subject, find_end(subject))
            self._remove(subject.uid)

    def forget(self, subject: Subject) -> int:
        """An object was deleted; how many are given up for it, since there are too many such."""
        if subject.uid not in self._due:
            self._drop(subject)
            return 0
        self._gone[subject.uid] = None
        if len(self._gone) <= MAX_GONE:
            return 0
        oldest = next(iter(self._gone))
        self._drop(self._due[oldest].subject)
        self._remove(oldest)
        return 1

    def take(self, limit: int) -> Batch:
        """The next events, up to a limit; none if what was looked at has none that the receiver wants."""
        events: list[CloudEvent] = []
        progress: dict[str, ToldSubject] = {}
        missed = 0
        for due in islice(self._due.values(), SUBJECTS_AT_A_TIME):
            subject, end = due.subject, due.held.end
            for held in due.held.events:
                if len(events) == limit:
                    return Batch(tuple(events), tuple(progress.values()), missed)
                events.append(held.decode())
                missed += held.missed
                progress[subject.uid] = ToldSubject(subject, held.position)
            for step in list_steps(subject, end or self.positions.find(subject)):
                if self._receiver.wants(str(step.event["type"])):
                    if len(events) == limit:
                        return Batch(tuple(events), tuple(progress.values()), missed)
                    events.append(step.event)
                missed += step.missed
                progress[subject.uid] = ToldSubject(subject, step.position, end)
            progress[subject.uid] = ToldSubject(subject, find_end(subject), end)
        return Batch(tuple(events), tuple(progress.values()), missed)

    def confirm(self, batch: Batch) -> None:
        """The receiver has heard of a batch, or never will."""
        told = frozenset(str(event["id"]) for event in batch.events)
        for progress in batch.progress:
            due = self._due.get(progress.subject.uid)
            if due is not None:
                self._confirm(due, progress, told)

    def give_up(self) -> int:
        """Leaves untold what there is to be told; of how many objects."""
        given_up = [due.subject for due in self._due.values()]
        self._due.clear()
        self._held_bytes = 0
        for subject in given_up:
            if subject.uid in self._gone:
                self._drop(subject)
            else:
                self.positions.set(subject, find_end(subject))
        return len(given_up)

    def _confirm(self, due: _Due, progress: ToldSubject, told: frozenset[str]) -> None:
        """The receiver has heard so much of an object, of which more may be held by now."""
        position, held = progress.position, due.held
        if held.end is not None:
            self._held_bytes -= held.size
            held.confirm(told)
            self._held_bytes += held.size
            if not held.events:
                position = position if progress.after == held.end else held.end
                due.held = HeldEvents()
        self.positions.set(due.subject, position)
        if not due.held.events and is_told(due.subject, position):
            uid = due.subject.uid
            self._remove(uid)
            if uid in self._gone:
                self._drop(due.subject)

    def _hold_forgotten(self, due: _Due, seen: Subject) -> None:
        """Holds all that is to be told of an object if some of it is not in what was seen of it now."""
        known = due.held.end or self.positions.find(due.subject)
        if not forgets(due.subject, seen, known):
            return
        before = due.held.size
        due.held.add(self._list_wanted(due.subject, known), find_end(due.subject))
        self._held_bytes += due.held.size - before
        if self._held_bytes > MAX_HELD_BYTES:
            self._leave_out()

    def _list_wanted(self, subject: Subject, position: Position) -> Iterator[Step]:
        return (step for step in list_steps(subject, position) if self._receiver.wants(str(step.event["type"])))

    def _leave_out(self) -> None:
        """Leaves out the oldest events that are held, of the objects that have waited for longest."""
        for due in self._due.values():
            while due.held.events and self._held_bytes > MAX_HELD_BYTES:
                self._held_bytes -= due.held.events[0].size
                due.held.drop_oldest()
                self.left_out += 1
            if self._held_bytes <= MAX_HELD_BYTES:
                return

    def _remove(self, uid: str) -> None:
        """There is nothing to be told of an object any more."""
        due = self._due.pop(uid, None)
        if due is not None:
            self._held_bytes -= due.held.size

    def _drop(self, subject: Subject) -> None:
        self._gone.pop(subject.uid, None)
        self.positions.forget(subject.experiment.uid, subject.trial.uid if subject.trial is not None else "")
