"""The committed checkpoints."""

from __future__ import annotations

from collections.abc import Collection, Iterable

from podtune.protocol.checkpoint import CheckpointRef
from podtune.simulation.training_state import TrainingState


class Bucket:
    """What each checkpoint holds, by URI."""

    def __init__(self) -> None:
        self._held: dict[str, TrainingState] = {}
        self._of: dict[str, list[str]] = {}

    def __len__(self) -> int:
        return len(self._held)

    def store(self, trial: str, uri: str, training: TrainingState) -> None:
        """Commits a checkpoint of a trial."""
        self._held[uri] = training
        self._of.setdefault(trial, []).append(uri)

    def restore(self, candidates: Iterable[CheckpointRef]) -> tuple[CheckpointRef, TrainingState] | None:
        """The first of several checkpoints that is there, and what it holds; None where none is."""
        return next(((found, self._held[found.uri]) for found in candidates if found.uri in self._held), None)

    def discard(self, trial: str, kept: Collection[str]) -> None:
        """Deletes, as the agent of a trial that keeps no checkpoint does, what is not kept."""
        for uri in [uri for uri in self._of.get(trial, []) if uri not in kept]:
            self._of[trial].remove(uri)
            del self._held[uri]

    def keep(self, trial: str, kept: Collection[str]) -> None:
        """Deletes, as agents do, what was committed before a trial's newest kept checkpoint and is not kept."""
        uris = self._of.get(trial, [])
        newest = max((index for index, uri in enumerate(uris) if uri in kept), default=0)
        dropped = [uri for uri in uris[:newest] if uri not in kept]
        for uri in dropped:
            del self._held[uri]
        if dropped:
            self._of[trial] = [uri for uri in uris if uri in self._held]
