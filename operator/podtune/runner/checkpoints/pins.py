"""Pins checkpoints of a trial that other trials still need."""

from __future__ import annotations

from collections import defaultdict

from typing_extensions import override

from podtune.api.resources.trial import TrialStatus
from podtune.runner.trial.machine import TrialMachine
from podtune.runner.trials import TrialIndex

Needed = tuple[str, int]
"""URI and step of a checkpoint."""


class CheckpointPins(TrialIndex):
    """The checkpoints that clones still need, so that their donors' agents don't delete them."""

    def __init__(self) -> None:
        self._needs: dict[str, frozenset[tuple[str, Needed]]] = {}
        self._users: defaultdict[str, dict[Needed, set[str]]] = defaultdict(dict)

    @override
    def update(self, trial: TrialMachine, now: float = 0.0) -> None:
        """Takes in what a trial clones: from when that is decided to when it is durable that it needs it no more."""
        clones = (trial.saved.clone, trial.status.clone)
        needs = frozenset(
            (clone.donor, (clone.checkpoint.uri, clone.checkpoint.step)) for clone in clones if clone is not None
        )
        before = self._needs.get(trial.name, frozenset())
        if needs == before:
            return
        for donor, checkpoint in before - needs:
            users = self._users[donor][checkpoint]
            users.discard(trial.name)
            if not users:
                del self._users[donor][checkpoint]
        for donor, checkpoint in needs - before:
            self._users[donor].setdefault(checkpoint, set()).add(trial.name)
        self._needs[trial.name] = needs

    def is_needed(self, donor: str) -> bool:
        """Whether another trial needs a checkpoint of a trial's."""
        return bool(self._users.get(donor))

    def list_uris(self, donor: str, recorded: TrialStatus) -> tuple[str, ...]:
        """Lists the URIs of a trial's checkpoints that others need.

        One that is newer than all that its status records is left out: nothing deletes it, and the agent would take it
        for recorded, and what may be recorded meanwhile for older than that.

        Args:
            donor: The trial.
            recorded: Its status, as it is known to be durable.
        """
        newest = max((checkpoint.step for checkpoint in recorded.checkpoints), default=-1)
        return tuple(uri for uri, step in self._users.get(donor, ()) if step <= newest)
