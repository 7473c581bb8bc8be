"""Which checkpoints of a trial other trials still need."""

from __future__ import annotations

from collections import defaultdict

from podtune.runner.trial_machine import TrialMachine


class Protected:
    """The checkpoints that clones still need, so that their donors' agents don't delete them."""

    def __init__(self) -> None:
        self._needs: dict[str, frozenset[tuple[str, str]]] = {}
        self._users: defaultdict[str, dict[str, set[str]]] = defaultdict(dict)

    def settle(self, trial: TrialMachine) -> None:
        """Takes in what a trial clones: from when that is decided to when it is durable that it needs it no more."""
        clones = (trial.saved.clone, trial.status.clone)
        needs = frozenset((clone.donor, clone.checkpoint.uri) for clone in clones if clone is not None)
        before = self._needs.get(trial.name, frozenset())
        if needs == before:
            return
        for donor, uri in before - needs:
            users = self._users[donor][uri]
            users.discard(trial.name)
            if not users:
                del self._users[donor][uri]
        for donor, uri in needs - before:
            self._users[donor].setdefault(uri, set()).add(trial.name)
        self._needs[trial.name] = needs

    def of(self, donor: str) -> tuple[str, ...]:
        """URIs of the trial's checkpoints that others need."""
        return tuple(self._users[donor]) if donor in self._users else ()
