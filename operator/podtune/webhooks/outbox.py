"""What a receiver has still to be told: objects, not events. Their events are made when there is a request to make.

So a receiver that is away takes hardly more memory than one that answers: the objects are there anyway. What is kept
for it, up to a limit, is objects that are deleted before they were told, and events that an object no longer tells of.
The operator before may have left such events. They are told before all others that their object has, or alone if there
is no such object any more.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator
from dataclasses import dataclass, field
from itertools import chain, islice

from podtune.webhooks.events import CloudEvent, Position, Step, Subject, find_end, forgets, is_told, list_steps
from podtune.webhooks.held_events import HeldEvent, HeldEvents
from podtune.webhooks.kept_events import HeldObject, KeptEvents
from podtune.webhooks.positions import Positions
from podtune.webhooks.receivers import Receiver

MAX_GONE = 10_000
"""Deleted objects that are kept until they are told."""
MAX_HELD_BYTES = 16 << 20
"""Memory for events that are in no status any more: some 15,000 of them."""
MAX_GONE_KEPT = 4000
"""Events of deleted objects that the next operator is told of."""
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
        is_held_anew: Whether more is held than the next operator is told of.
        is_held_told: Whether it is told of something that the receiver has heard by now.
    """

    def __init__(self, receiver: Receiver, positions: Positions, kept: KeptEvents | None = None) -> None:
        """Begins.

        Args:
            receiver: Whose it is.
            positions: How far the receiver has heard of each object.
            kept: What the operator before held for it.
        """
        self._receiver = receiver
        self.positions = positions
        self.left_out = kept.left_out if kept is not None else 0
        self.is_held_anew = self.is_held_told = False
        self._due: dict[str, _Due] = {}
        self._gone: dict[str, None] = {}
        self._left: dict[str, HeldEvents] = {}
        """What the operator before held of objects that have not been seen: once all have been, of deleted ones."""
        self._held_bytes = 0
        for held in kept.objects if kept is not None else ():
            self._take_up(held)

    def __len__(self) -> int:
        return len(self._due) + len(self._left)

    def end_loading(self) -> None:
        """All that there is has been seen."""
        self.positions.end_loading()
        self._left = {uid: held for uid, held in self._left.items() if held.events}

    def observe(self, subject: Subject) -> bool:
        """An object was seen; whether there is something to be told of it."""
        if not self._receiver.serves(subject.experiment.namespace):
            return False
        due = self._due.get(subject.uid)
        if due is None:
            position, held = self.positions.find(subject), self._left.pop(subject.uid, None)
            if held is None and is_told(subject, position):
                return False
            self.positions.set(subject, position)  # it may have counted as ended, with all told
            self._due[subject.uid] = _Due(subject, held or HeldEvents())
            return True
        self._hold_forgotten(due, subject)
        due.subject = subject
        return True

    def skip(self, subject: Subject) -> None:
        """An object was seen that others have told of already, elsewhere."""
        if self._receiver.serves(subject.experiment.namespace):
            self.positions.set(subject, find_end(subject))
            self._remove(subject.uid)
            self._held_bytes -= self._left.pop(subject.uid, HeldEvents()).size

    def forget(self, subject: Subject) -> int:
        """An object was deleted; how many are given up for it, since there are too many such."""
        if subject.uid not in self._due:
            self._drop(subject)
            return 0
        self._gone[subject.uid] = None
        self.is_held_anew = True
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
        for held in chain.from_iterable(left.events for left in self._left.values()):
            if len(events) == limit:
                return Batch(tuple(events), (), missed)
            events.append(held.decode())
            missed += held.missed
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
        self._confirm_left(told)
        for progress in batch.progress:
            due = self._due.get(progress.subject.uid)
            if due is not None:
                self._confirm(due, progress, told)

    def give_up(self) -> int:
        """Leaves untold what there is to be told; of how many objects."""
        given_up = [due.subject for due in self._due.values()]
        count = len(self)
        self._due.clear()
        self._left.clear()
        self._held_bytes = 0
        self.is_held_told = True
        for subject in given_up:
            if subject.uid in self._gone:
                self._drop(subject)
            else:
                self.positions.set(subject, find_end(subject))
        return count

    def list_held(self) -> KeptEvents:
        """What the next operator can't find out by itself; from now on it counts as kept."""
        self.is_held_anew = self.is_held_told = False
        found = [HeldObject(uid, tuple(held.events), held.end) for uid, held in self._left.items()]
        gone, left_out = self._list_gone()
        for uid, due in self._due.items():
            events = gone.get(uid, due.held.events)
            if events:
                found.append(HeldObject(uid, tuple(events), due.held.end))
        return KeptEvents(tuple(found), left_out)

    def mark_unkept(self) -> None:
        """What was listed could not be kept."""
        self.is_held_told = True

    def _list_gone(self) -> tuple[dict[str, list[HeldEvent]], int]:
        """All that is to be told of deleted objects, the newest first; and how many are too many."""
        found: dict[str, list[HeldEvent]] = {}
        left = MAX_GONE_KEPT
        for uid in reversed(self._gone):
            if left <= 0:
                break
            due = self._due[uid]
            steps = self._list_wanted(due.subject, due.held.end or self.positions.find(due.subject))
            found[uid] = [*due.held.events, *map(HeldEvent.from_step, steps)]
            left -= len(found[uid])
        return found, len(self._gone) - len(found)

    def _take_up(self, kept: HeldObject) -> None:
        """Holds what the operator before held of an object, as far as it is wanted."""
        held = HeldEvents(deque(event for event in kept.events if self._is_wanted(event.decode())), kept.end)
        held.size = sum(event.size for event in held.events)
        self._left[kept.uid] = held
        self._held_bytes += held.size

    def _is_wanted(self, event: CloudEvent) -> bool:
        return self._receiver.serves(str(event["data"]["namespace"])) and self._receiver.wants(str(event["type"]))

    def _confirm_left(self, told: frozenset[str]) -> None:
        """The receiver has heard of events that the operator before held."""
        for uid, held in list(self._left.items()):
            before = held.size
            held.confirm(told)
            self._held_bytes += held.size - before
            self.is_held_told = self.is_held_told or held.size < before
            if not held.events:
                del self._left[uid]

    def _confirm(self, due: _Due, progress: ToldSubject, told: frozenset[str]) -> None:
        """The receiver has heard so much of an object, of which more may be held by now."""
        position, held = progress.position, due.held
        self.is_held_told = self.is_held_told or bool(held.events) or due.subject.uid in self._gone
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
        self.is_held_anew = True
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
