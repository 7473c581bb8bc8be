"""Actions on their way: asked for, under way, or waiting for their next try."""

from __future__ import annotations

from podtune.runner.actions import Action, CreatePod, CreateStoragePod, EmitEvent, Key, Outcome, Verdict
from podtune.runner.alarms import EXPERIMENT, Alarms
from podtune.runner.retry import Backoff, InFlight


class Dispatch:
    """Gathers the actions of a plan; an action whose key is under way, or has failed a moment ago, has to wait.

    It outlives what a machine knows of the objects: what is under way stays so when that is made anew.
    """

    def __init__(self, backoff: Backoff) -> None:
        self._flights = InFlight(backoff)
        self._actions: list[Action] = []
        self.alarms = Alarms()

    def __contains__(self, key: Key) -> bool:
        return key in self._flights

    def ready(self, key: Key, now: float, trial: str = EXPERIMENT) -> bool:
        """Whether an action of this key may be asked for.

        Args:
            key: The action's key.
            now: The present time.
            trial: Who is looked at again when the action only has to wait for its next try.
        """
        at = self._flights.ready_at(key)
        if now < at < float("inf"):
            self.alarms.set(trial, at)
        return at <= now

    def ready_at(self, key: Key) -> float:
        """When an action of this key may be asked for; infinity while one is under way."""
        return self._flights.ready_at(key)

    def ask(self, action: Action, now: float, trial: str = EXPERIMENT) -> bool:
        """Asks for an action if it is ready; whether it was."""
        if not self.ready(action.key, now, trial):
            return False
        self._flights.launch(action.key)
        self._actions.append(action)
        return True

    def landed(self, action: Action, outcome: Outcome, now: float) -> None:
        """Hears how an action went: unless it is done, the next one of its key has to wait.

        A pod that is refused is the end of its attempt, which has a backoff of its own; an Event is not tried again.
        """
        settled = isinstance(action, EmitEvent) or (
            isinstance(action, CreatePod | CreateStoragePod) and outcome.verdict is Verdict.REFUSED
        )
        self._flights.land(action.key, failed=outcome.verdict is not Verdict.DONE and not settled, now=now)

    def failures(self, key: Key) -> int:
        """How often in a row an action of this key has failed."""
        return self._flights.failures(key)

    def take(self) -> tuple[Action, ...]:
        """The actions that were asked for since the last time."""
        actions, self._actions = tuple(self._actions), []
        return actions

    def drop(self) -> None:
        """Forgets the actions that nobody has taken yet."""
        for action in self.take():
            self._flights.cancel(action.key)

    def forget(self, name: str) -> None:
        """Nothing of this name matters any more."""
        self._flights.forget(name)
