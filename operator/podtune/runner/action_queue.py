"""Actions on their way: asked for, under way, or waiting for their next try."""

from __future__ import annotations

from podtune.runner.actions import Action, ActionResult, ActionStatus, CreatePod, CreateStoragePod, EmitEvent, Key
from podtune.runner.retry import Backoff, InFlight
from podtune.runner.timers import EXPERIMENT, Timers


class ActionQueue:
    """Gathers the actions of a plan; an action whose key is under way, or has failed a moment ago, has to wait.

    It outlives what a machine knows of the objects: what is under way stays so when that is made anew.
    """

    def __init__(self, backoff: Backoff) -> None:
        self._in_flight = InFlight(backoff)
        self._enqueued: list[Action] = []
        self.timers = Timers()

    def __contains__(self, key: Key) -> bool:
        return key in self._in_flight

    def ready(self, key: Key, now: float, trial: str = EXPERIMENT) -> bool:
        """Whether an action of this key may be asked for.

        Args:
            key: The action's key.
            now: The present time.
            trial: Who is looked at again when the action only has to wait for its next try.
        """
        at = self._in_flight.ready_at(key)
        if now < at < float("inf"):
            self.timers.set(trial, at)
        return at <= now

    def ready_at(self, key: Key) -> float:
        """When an action of this key may be asked for; infinity while one is under way."""
        return self._in_flight.ready_at(key)

    def enqueue(self, action: Action, now: float, trial: str = EXPERIMENT) -> bool:
        """Asks for an action if it is ready; whether it was."""
        if not self.ready(action.key, now, trial):
            return False
        self._in_flight.start(action.key)
        self._enqueued.append(action)
        return True

    def on_action_result(self, action: Action, result: ActionResult, now: float) -> None:
        """Hears how an action went: unless it is done, the next one of its key has to wait.

        A pod that is refused is the end of its attempt, which has a backoff of its own; an Event is not tried again.
        """
        settled = isinstance(action, EmitEvent) or (
            isinstance(action, CreatePod | CreateStoragePod) and result.status is ActionStatus.REFUSED
        )
        self._in_flight.finish(action.key, failed=result.status is not ActionStatus.DONE and not settled, now=now)

    def failures(self, key: Key) -> int:
        """How often in a row an action of this key has failed."""
        return self._in_flight.failures(key)

    def take(self) -> tuple[Action, ...]:
        """The actions that were asked for since the last time."""
        actions, self._enqueued = tuple(self._enqueued), []
        return actions

    def drop(self) -> None:
        """Forgets the actions that nobody has taken yet."""
        for action in self.take():
            self._in_flight.cancel(action.key)

    def forget(self, name: str) -> None:
        """Nothing of this name matters any more."""
        self._in_flight.forget(name)
