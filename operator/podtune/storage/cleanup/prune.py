"""Prunes an experiment that has ended: the bucket keeps the checkpoints that policy keeps, and no others.

An agent deletes an older checkpoint only after the newer one is recorded. So the last agent of a trial leaves one more
than is to be kept, and one that was killed leaves data without a manifest, or parts of an upload. When the experiment
has ended nothing is on its way any more, and the Trials' statuses alone say what is kept.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from itertools import groupby

from podtune.storage.checkpoint.address import DATA, MANIFEST, PACKS, CheckpointAddress
from podtune.storage.checkpoint.content_index import ContentIndex
from podtune.storage.errors import AccessDenied, RequestRejected
from podtune.storage.object_store import ObjectStore

_STEP = re.compile(r"[0-9]+(\.[0-9]+)?")


@dataclass(frozen=True, slots=True)
class PruneResult:
    """What was deleted.

    Attributes:
        checkpoints: Checkpoints that were whole.
        objects: Objects, those of these checkpoints included.
        uploads: Uploads that were never finished; None where the store does not let us look for them.
    """

    checkpoints: int
    objects: int
    uploads: int | None


def prune_checkpoints(store: ObjectStore, prefix: str, kept: Mapping[str, frozenset[str]]) -> PruneResult:
    """Deletes the checkpoints of an experiment's trials that are not kept. It may be repeated.

    Trials that are not known are left alone, and so is everything that is no part of a checkpoint.

    Args:
        store: The bucket.
        prefix: What all keys of the experiment start with, with a slash at the end.
        kept: By name of the trial: the roots of the checkpoints that stay.

    Raises:
        StoreError: The store can't be worked with now, or at all.
    """
    checkpoints = objects = 0
    for trial, keys in groupby(store.list(prefix), lambda key: key.removeprefix(prefix).partition("/")[0]):
        if trial not in kept:
            continue
        needed = _needed(store, f"{prefix}{trial}/", kept[trial])
        doomed = [key for key in _not_kept(keys, f"{prefix}{trial}/", kept[trial]) if key not in needed]
        manifests = [key for key in doomed if key.endswith(f"/{MANIFEST}") and f"/{DATA}/" not in key]
        store.delete(manifests)  # first: a deletion that is broken off leaves no manifest without its data
        store.delete(doomed)
        checkpoints += len(manifests)
        objects += len(doomed)
    return PruneResult(checkpoints, objects, abort_uploads(store, prefix))


def abort_uploads(store: ObjectStore, prefix: str, spare: str | None = None) -> int | None:
    """Aborts unfinished uploads, where the store lets us; how many there were.

    Args:
        store: The bucket.
        prefix: What the keys start with.
        spare: Uploads of keys that start with this go on.

    Raises:
        StoreError: The store can't be worked with now, or at all.
    """
    try:
        found = list(store.list_uploads(prefix))
    except (AccessDenied, RequestRejected):
        return None  # some servers have no such list, and some credentials may not see it
    unfinished = [upload for upload in found if spare is None or not upload.key.startswith(spare)]
    for upload in unfinished:
        store.abort_upload(upload)
    return len(unfinished)


def _needed(store: ObjectStore, trial_prefix: str, kept: Iterable[str]) -> frozenset[str]:
    """The objects of checkpoints that go which those that stay refer to."""
    content_index = ContentIndex(trial_prefix)
    for root in kept:
        content_index.load(store, CheckpointAddress("", root))
    return content_index.references()


def _not_kept(keys: Iterable[str], trial_prefix: str, kept: frozenset[str]) -> Iterator[str]:
    for key in keys:
        attempt, _, rest = key.removeprefix(trial_prefix).partition("/")
        step, _, what = rest.partition("/")
        is_of_checkpoint = _STEP.fullmatch(step) and (what == MANIFEST or what.startswith((f"{DATA}/", f"{PACKS}/")))
        if is_of_checkpoint and f"{trial_prefix}{attempt}/{step}" not in kept:
            yield key
