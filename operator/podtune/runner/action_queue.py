"""What to do and when: timers, and actions that are requested, under way or waiting for a retry."""

from __future__ import annotations

import heapq
from collections.abc import Iterator

from podtune.api.names import ExperimentReason
from podtune.runner.actions import Action, ActionResult, ActionStatus, CreatePod, CreateStoragePod, EmitEvent, Key
from podtune.runner.backoff import Backoff

SOON = 0.01
"""Seconds until a deadline is looked at again that was missed by a rounding error."""
EXPERIMENT = ""
"""The name under which the experiment as a whole has its timers."""


class ActionQueue:
    """Collects a plan's actions. One has to wait while an action with the same key is under way or has just failed.

    It survives a rebuild of the machine: what is under way stays under way.
    """

    def __init__(self, backoff: Backoff) -> None:
        """Starts with nothing under way.

        Args:
            backoff: How long an action waits for its next try.
        """
        self._backoff = backoff
        self._enqueued: list[Action] = []
        self._in_flight: set[Key] = set()
        """Keys of actions that were asked for and not heard of."""
        self._failed: dict[Key, tuple[int, float]] = {}
        """By key: how often in a row such an action has failed, and when it may be asked for again."""
        self.timers = Timers()

    def __contains__(self, key: Key) -> bool:
        """Whether an action of this key is under way."""
        return key in self._in_flight

    def is_ready(self, key: Key, now: float, trial: str = EXPERIMENT) -> bool:
        """Whether an action of this key may be asked for.

        Args:
            key: The action's key.
            now: The present time.
            trial: Who is looked at again when the action only has to wait for its next try.
        """
        at = self.find_ready_time(key)
        if now < at < float("inf"):
            self.timers.set(trial, at)
        return at <= now

    def find_ready_time(self, key: Key) -> float:
        """When an action of this key may be asked for: 0 for at once, infinity while one is under way."""
        if key in self._in_flight:
            return float("inf")
        return self._failed[key][1] if key in self._failed else 0.0

    def enqueue(self, action: Action, now: float, trial: str = EXPERIMENT) -> bool:
        """Asks for an action if it is ready; whether it was."""
        if not self.is_ready(action.key, now, trial):
            return False
        self._in_flight.add(action.key)
        self._enqueued.append(action)
        return True

    def on_action_result(self, action: Action, result: ActionResult, now: float) -> None:
        """Hears how an action went: unless it is done, the next one of its key has to wait.

        An Event is not tried again.
        """
        key = action.key
        self._in_flight.discard(key)
        if result.status is ActionStatus.DONE or isinstance(action, EmitEvent) or _waits_elsewhere(action, result):
            self._failed.pop(key, None)
            return
        count = self.count_failures(key) + 1
        self._failed[key] = (count, now + self._backoff.compute_delay(count, "/".join(key)))

    def count_failures(self, key: Key) -> int:
        """How often in a row an action of this key has failed."""
        return self._failed[key][0] if key in self._failed else 0

    def take(self) -> tuple[Action, ...]:
        """The actions that were asked for since the last time."""
        actions, self._enqueued = tuple(self._enqueued), []
        return actions

    def drop(self) -> None:
        """Forgets the actions that nobody has taken yet."""
        for action in self.take():
            self._in_flight.discard(action.key)

    def forget(self, name: str) -> None:
        """Forgets everything of this name."""
        for key in [key for key in self._failed if key[1] == name]:
            del self._failed[key]


def _waits_elsewhere(action: Action, result: ActionResult) -> bool:
    """Whether a refusal has a backoff of its own: it is the end of an attempt, or holds the experiment.

    A pod that is refused for limits which only its trial has is sent again, and waits here.
    """
    if result.status is not ActionStatus.REFUSED or not isinstance(action, CreatePod | CreateStoragePod):
        return False
    is_alone = isinstance(action, CreatePod) and action.has_own_limits
    return not (is_alone and result.reason is ExperimentReason.POD_REFUSED)


class Timers:
    """The earliest timer of each trial. A part that still has to wait when it is due sets a new one."""

    def __init__(self) -> None:
        self._heap: list[tuple[float, str]] = []
        self._earliest: dict[str, float] = {}

    def set(self, name: str, at: float) -> None:
        """Asks for a trial to be looked at at a point in time; a later timer than it has already is not kept."""
        if at < self._earliest.get(name, float("inf")):
            self._earliest[name] = at
            heapq.heappush(self._heap, (at, name))

    def cancel(self, name: str) -> None:
        """Clears all waits of a trial."""
        self._earliest.pop(name, None)

    def pop_due(self, now: float) -> Iterator[str]:
        """Takes out the names whose timers are due."""
        while self._heap and self._heap[0][0] <= now:
            at, name = heapq.heappop(self._heap)
            if self._earliest.get(name) == at:
                del self._earliest[name]
                yield name

    @property
    def next(self) -> float:
        """When the next one is due; infinity where there is none."""
        while self._heap and self._earliest.get(self._heap[0][1]) != self._heap[0][0]:
            heapq.heappop(self._heap)
        return self._heap[0][0] if self._heap else float("inf")
