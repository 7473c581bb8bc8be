"""Deletes checkpoints that are no longer kept.

Only what is recorded in the trial's status says what is kept, and only once the newer one is recorded there an older
one goes. Of a checkpoint that goes, what the others refer to stays until they go, too.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable

from podtune.protocol.assignment import format_attempt_folder
from podtune.storage.checkpoint.address import (
    DATA,
    MANIFEST,
    PACKS,
    CheckpointAddress,
    TrialAddress,
    parse_checkpoint_uri,
)
from podtune.storage.checkpoint.content_index import ContentIndex
from podtune.storage.cleanup.prune import delete_objects
from podtune.storage.errors import StoreSettingsError
from podtune.storage.object_store import ObjectStore


class GarbageCollector:
    """Deletes what the trial does not keep, its earlier attempts' leavings included. Not thread-safe.

    The bucket is listed once, at the first collection. After that, what can become garbage is known: it was either
    kept before, or stored by this attempt.

    Attributes:
        known: The checkpoints known to be in the bucket; whoever stores another adds it.
    """

    def __init__(
        self, store: ObjectStore, trial: TrialAddress, attempt: str, content_index: ContentIndex | None = None
    ) -> None:
        self._content_index = ContentIndex(trial.prefix) if content_index is None else content_index
        self._store = store
        self._trial = trial
        self._attempt = format_attempt_folder(attempt)
        self.known: set[CheckpointAddress] = set()
        self._remnants: set[CheckpointAddress] = set()
        """Deleted checkpoints of which something is left that later ones refer to."""
        self._listed = False

    def learn(self, uris: Collection[str]) -> None:
        """Looks up checkpoints of the trial that another process has stored; those of other trials are passed over.

        Raises:
            StoreError: The store can't be asked.
        """
        for address in self._select_ours(uris):
            self.known.add(address)
            self._content_index.load(self._store, address)

    def collect(self, kept: Collection[str], protected: Collection[str], *, discards: bool = False) -> list[str]:
        """Deletes all that is neither kept nor protected, and older than the newest that is kept.

        Args:
            kept: URIs of what is kept.
            protected: Those of what is on its way to being recorded.
            discards: Whether nothing is recorded any more, so that what is newer goes, too.

        Returns:
            The URIs of what was deleted.

        Raises:
            StoreError: The store can't delete now, or at all; the next call goes on.
        """
        kept_here = self._select_ours(kept)
        self.known |= kept_here
        newest = max((address.step for address in kept_here), default=-1)
        if newest < 0 and not discards:
            return []
        if not self._listed:
            self.known |= self._list()
            self._listed = True
        doomed = {
            address
            for address in self.known - kept_here
            if (discards or address.step < newest) and address.uri not in protected
        }
        if not doomed and not self._remnants:
            return []
        for address in self.known - doomed:
            self._content_index.load(self._store, address)
        for address in doomed:
            self._content_index.forget(address)
        return self._delete(doomed, self._content_index.list_references())

    def _delete(self, doomed: set[CheckpointAddress], needed: Collection[str]) -> list[str]:
        """Deletes checkpoints, but for what others refer to; returns their URIs."""
        deleted: list[str] = []
        for address in sorted(doomed | self._remnants, key=lambda address: address.step):
            keys = list(self._store.list(f"{address.root}/"))
            delete_objects(self._store, (key for key in keys if key not in needed))
            if address in doomed:
                deleted.append(address.uri)
                self.known.discard(address)
            self._remnants.discard(address)
            if any(key in needed for key in keys):
                self._remnants.add(address)
        return deleted

    def _select_ours(self, uris: Iterable[str]) -> set[CheckpointAddress]:
        """The addresses among `uris` that lie below this trial's prefix: a clone's donor lies below another."""
        addresses: set[CheckpointAddress] = set()
        for uri in uris:
            try:
                address = parse_checkpoint_uri(self._trial.store, uri)
            except StoreSettingsError:
                continue  # not one of ours, whatever it is
            if address.root.startswith(self._trial.prefix):
                addresses.add(address)
        return addresses

    def _list(self) -> set[CheckpointAddress]:
        """Checkpoints in the bucket, and of earlier attempts also data that never got a manifest."""
        found: set[CheckpointAddress] = set()
        for key in self._store.list(self._trial.prefix):
            attempt, _, rest = key.removeprefix(self._trial.prefix).partition("/")
            step, _, what = rest.partition("/")
            address = CheckpointAddress(self._trial.store.uri, f"{self._trial.prefix}{attempt}/{step}")
            is_leaving = what.startswith((f"{DATA}/", f"{PACKS}/")) and attempt != self._attempt
            if address.step >= 0 and (what == MANIFEST or is_leaving):
                found.add(address)
        return found
