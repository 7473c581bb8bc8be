"""Deletes what an experiment has in the bucket: what policy does not keep once it has ended (prune), or all (purge).

A checkpoint's manifest is deleted first: an aborted deletion leaves data without a manifest, which is not a checkpoint,
and never a manifest without its data.

An agent deletes an older checkpoint only after the newer one is recorded. So the last agent of a trial leaves one more
than is to be kept, and one that was killed leaves data without a manifest, or parts of an upload. When the experiment
has ended nothing is on its way any more, and the Trials' statuses alone say what is kept.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from itertools import groupby, islice

from podtune.storage.checkpoint.address import DATA, MANIFEST, PACKS, CheckpointAddress, is_manifest
from podtune.storage.checkpoint.content_index import ContentIndex
from podtune.storage.errors import AccessDenied, RequestRejected
from podtune.storage.object_store import MultipartStore, ObjectStore

ROUNDS = 4
"""Of a purge; the last one finds nothing, unless somebody still stores something."""
BATCH = 1000
_STEP = re.compile(r"[0-9]+(\.[0-9]+)?")


@dataclass(frozen=True, slots=True)
class PruneResult:
    """What was deleted.

    Attributes:
        uploads: Uploads that were never finished; None where the store does not let us look for them.
    """

    checkpoints: int
    objects: int
    uploads: int | None


def prune_checkpoints(
    store: ObjectStore, prefix: str, kept: Mapping[str, frozenset[str]], *, aborts: bool = True
) -> PruneResult:
    """Deletes the checkpoints of an experiment's trials that are not kept. It may be repeated.

    Trials that are not known are left alone, and so is everything that is no part of a checkpoint.

    Args:
        store: The bucket.
        prefix: What all keys of the experiment start with, with a slash at the end.
        kept: By name of the trial: the roots of the checkpoints that stay.
        aborts: Whether unfinished uploads are aborted, too; not while trials run.

    Raises:
        StoreError: The store can't be worked with now, or at all.
    """
    checkpoints = objects = 0
    for trial, keys in groupby(store.list(prefix), lambda key: key.removeprefix(prefix).partition("/")[0]):
        if trial not in kept:
            continue
        needed = _find_needed(store, f"{prefix}{trial}/", kept[trial])
        doomed = [key for key in _list_not_kept(keys, f"{prefix}{trial}/", kept[trial]) if key not in needed]
        checkpoints += delete_objects(store, doomed)
        objects += len(doomed)
    return PruneResult(checkpoints, objects, abort_uploads(store, prefix) if aborts else 0)


def purge(store: ObjectStore, prefix: str) -> int:
    """Deletes every object below a prefix that ends with a slash, manifests first; returns how many there were.

    It may be repeated.

    Raises:
        StoreError: The store can't be worked with now, or at all, or objects keep coming.
    """
    deleted = 0
    for _ in range(ROUNDS):
        abort_uploads(store, prefix)
        deleted += delete_objects(store, filter(is_manifest, store.list(prefix)))
        rest, found = iter(store.list(prefix)), 0
        while batch := list(islice(rest, BATCH)):
            delete_objects(store, batch)
            found += len(batch)
        if found == 0:
            return deleted
        deleted += found
    raise RequestRejected(f"new objects keep appearing below {prefix}; stop whatever stores them")


def delete_objects(store: ObjectStore, keys: Iterable[str]) -> int:
    """Deletes objects, manifests first; returns how many of these there were.

    Raises:
        StoreError: The store can't delete now, or at all.
    """
    manifests: list[str] = []
    others: list[str] = []
    for key in keys:
        (manifests if is_manifest(key) else others).append(key)
    store.delete(manifests)
    store.delete(others)
    return len(manifests)


def abort_uploads(store: ObjectStore, prefix: str, spare: str | None = None) -> int | None:
    """Aborts unfinished uploads of keys that don't start with `spare`; how many there were.

    None where the store does not let us, or has no uploads that can be left unfinished.

    Raises:
        StoreError: The store can't be worked with now, or at all.
    """
    if not isinstance(store, MultipartStore):
        return None
    try:
        found = list(store.list_uploads(prefix))
    except (AccessDenied, RequestRejected):
        return None  # some servers have no such list, and some credentials may not see it
    unfinished = [upload for upload in found if spare is None or not upload.key.startswith(spare)]
    for upload in unfinished:
        store.abort_upload(upload)
    return len(unfinished)


def _find_needed(store: ObjectStore, trial_prefix: str, kept: Iterable[str]) -> frozenset[str]:
    """The objects of checkpoints that go which those that stay refer to."""
    content_index = ContentIndex(trial_prefix)
    for root in kept:
        content_index.load(store, CheckpointAddress("", root))
    return content_index.list_references()


def _list_not_kept(keys: Iterable[str], trial_prefix: str, kept: frozenset[str]) -> Iterator[str]:
    for key in keys:
        attempt, _, rest = key.removeprefix(trial_prefix).partition("/")
        step, _, what = rest.partition("/")
        is_of_checkpoint = _STEP.fullmatch(step) and (what == MANIFEST or what.startswith((f"{DATA}/", f"{PACKS}/")))
        if is_of_checkpoint and f"{trial_prefix}{attempt}/{step}" not in kept:
            yield key
