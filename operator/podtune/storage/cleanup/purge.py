"""Purges an experiment: deletes all that the bucket has of it."""

from __future__ import annotations

from itertools import islice

from podtune.storage.checkpoint.address import DATA, MANIFEST
from podtune.storage.cleanup.prune import abort_uploads
from podtune.storage.errors import RequestRejected
from podtune.storage.object_store import ObjectStore

ROUNDS = 4
"""The last one finds nothing, unless somebody still stores something."""
BATCH = 1000


def purge(store: ObjectStore, prefix: str) -> int:
    """Deletes every object below a prefix, manifests first; it may be repeated.

    Args:
        store: The bucket.
        prefix: What the keys start with, with a slash at the end.

    Returns:
        How many objects there were.

    Raises:
        StoreError: The store can't be worked with now, or at all, or objects keep coming.
    """
    deleted = 0
    for _ in range(ROUNDS):
        abort_uploads(store, prefix)
        manifests = [key for key in store.list(prefix) if key.endswith(f"/{MANIFEST}") and f"/{DATA}/" not in key]
        store.delete(manifests)
        deleted += len(manifests)
        rest, found = iter(store.list(prefix)), 0
        while batch := list(islice(rest, BATCH)):
            store.delete(batch)
            found += len(batch)
        if found == 0:
            return deleted
        deleted += found
    raise RequestRejected(f"objects keep coming below {prefix}; end who stores them")
