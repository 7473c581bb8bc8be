"""Events of one object that it does not tell of any more, kept until the receiver has heard them.

A status has only the latest changes of state, the newest checkpoints, and a curve that is thinned out. So what falls
out of it while a receiver is away is held here, as JSON: objects in memory would take several times as much. What the
next operator is to know of it: `podtune.webhooks.kept_events`.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Collection, Iterable
from dataclasses import dataclass, field

import orjson

from podtune.webhooks.events import RESULT_TYPE, CloudEvent, Position, Step

_OVERHEAD = 512
"""Bytes that an event takes besides its content, about."""


@dataclass(frozen=True, slots=True)
class HeldEvent:
    """An event, and where its receiver is when it has heard of it; see `Step`."""

    id: str
    content: bytes
    position: Position
    missed: int
    is_result: bool

    @classmethod
    def from_step(cls, step: Step) -> HeldEvent:
        """The event of a step."""
        event = step.event
        return cls(str(event["id"]), orjson.dumps(event), step.position, step.missed, event["type"] == RESULT_TYPE)

    @property
    def size(self) -> int:
        """How many bytes of memory it takes, about."""
        return len(self.content) + _OVERHEAD

    def decode(self) -> CloudEvent:
        """The event."""
        event: CloudEvent = orjson.loads(self.content)
        return event


@dataclass(slots=True)
class HeldEvents:
    """What is held of one object, in order.

    Attributes:
        end: Where the receiver is when it has heard all of it; None while nothing is held.
        size: How many bytes of memory it takes, about.
    """

    events: deque[HeldEvent] = field(default_factory=deque)
    end: Position | None = None
    size: int = 0

    def add(self, steps: Iterable[Step], end: Position) -> None:
        """Holds events, and knows where the receiver is when it has heard them."""
        for step in steps:
            event = HeldEvent.from_step(step)
            self.events.append(event)
            self.size += event.size
        self.end = end

    def drop_oldest(self) -> None:
        """Leaves out the oldest event."""
        self.size -= self.events.popleft().size

    def confirm(self, told: Collection[str]) -> None:
        """The receiver has heard of events, by their ids."""
        self.events = deque(event for event in self.events if event.id not in told)
        self.size = sum(event.size for event in self.events)
